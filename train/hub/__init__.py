"""Weights come in; a folder that loads anywhere goes out, with its card, as ToyBERT or stock BERT, and to the Hub.

Start reading with folders.py. Nothing here knows how a model was trained.
"""
