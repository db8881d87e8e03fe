"""A path in, batches out.

What --corpus names is understood once (source), read as documents or labelled rows (text, tables, labels, stream), and
becomes ids (vocabulary, tokens), then rows (masking, datasets), then batches. Start with masking.py, the task that BERT
learns from, and datasets.py, its pairs.
"""
