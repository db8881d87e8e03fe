"""Batches in, weights out.

loop.py is the training loop that both phases share, optim.py has Muon, and checkpoint.py is what makes a resume exact.
Start with loop.py.
"""
