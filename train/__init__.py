"""Everything that made ToyBERT: the corpora, the data path, the loop, the recipes and the evaluation."""
