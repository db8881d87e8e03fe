"""A path in, batches out.

Documents or labelled rows are read (text, tables, labels, stream) and become ids (vocabulary, tokens), then rows
(masking, datasets), then batches. Start with masking.py, the task that BERT learns from, and datasets.py, its pairs.
"""
