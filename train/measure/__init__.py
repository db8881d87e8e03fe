"""Weights in, figures out: what a model knows about held-out text, beside baselines that need no network.

pretraining.py and classification.py measure, baselines.py guesses, plots.py draws, results.py writes down what a run
leaves, and report.py lays out the tables of the documentation. Start with pretraining.py.
"""
