"""Weights in, a folder out that loads anywhere, and its way to the Hub.

Start with folders.py. Nothing here knows how a model was trained.
"""
