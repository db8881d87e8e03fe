"""Weights in, figures out: what a model knows about held-out text, beside baselines that need no network.

pretraining.py and classification.py measure, baselines.py guesses, plots.py draws, account.py says what a pre-training run
learnt from, and results.py writes down what a fine-tuning run leaves. Start with pretraining.py.
"""
