"""The toy corpora: generators, the files that they write, and a data card."""
