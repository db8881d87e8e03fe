"""Weights in, figures out: on held-out text, each beside what can be had without a network.

Start with pretraining.py.
"""
