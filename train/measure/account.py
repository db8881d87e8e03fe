"""What a pre-training run says of itself: in its log, and on its card."""

from pathlib import Path
from typing import Any

from toybert.train.data.datasets import MaskedDataset
from toybert.train.data.tokens import TokenisedText
from toybert.train.hub.card import Result


def describe(text: TokenisedText, training: MaskedDataset, validation: MaskedDataset, options: Any) -> list[str]:
    """Says in sentences what a run learns from, what is held out, and what of the text it does not use."""
    name = f"{'the beginning of ' * options.streaming}`{Path(options.corpus).name}`"
    rows = f"{len(training):,} pairs of sentences, half of them true" if options.nsp else f"{len(training):,} inputs"
    said = [
        f"{text.documents:,} training documents of {name}, {rows}",
        f"{training.vocab_size:,} tokens in the vocabulary; unknown to it are {training.unknown:.1%} of the training "
        f"text and {validation.unknown:.1%} of the held-out text",
        f"held out to measure on: {text.held_out}, {len(validation):,} {'pairs' if options.nsp else 'inputs'}",
    ]
    if others := text.source.unread:
        more = f" and {len(others) - 5} more" if len(others) > 5 else ""
        said.append(f"not read of this folder: {', '.join(others[:5])}{more}")
    for part, dataset in (("training", training), ("held-out", validation)):
        said += [f"{part} text: {note}" for note in dataset.notes()]
    return said


def results(last: dict[str, float], training: MaskedDataset, validation: MaskedDataset) -> list[Result]:
    """Returns the last figures on the validation documents, each beside what can be had without a network."""
    learnt, counts = training.word_counts, validation.word_counts
    learnt[training.special_ids] = counts[training.special_ids] = 0  # they are never to be predicted
    commonest = float(counts[learnt.argmax()] / counts.sum())
    figures = [("validation", "masked words, 15 %", last["mlm_accuracy"], "the commonest word", commonest)]
    if "nsp_accuracy" in last:
        figures.append(("validation", "next sentence", last["nsp_accuracy"], "a coin", 0.5))
    return figures
