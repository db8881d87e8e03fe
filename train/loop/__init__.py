"""Options and batches come in; trained weights, checkpoints and a history of losses go out.

Start reading with loop.py, which pre-training and fine-tuning share; checkpoint.py is what makes a resume exact.
"""
