"""Weights in, figures out: what a model knows about held-out text, beside baselines that need no network.

pretraining.py and classification.py measure, baselines.py guesses;
account.py, results.py, report.py and plots.py write and draw the figures. Start with pretraining.py.
"""
