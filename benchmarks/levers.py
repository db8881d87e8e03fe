"""What each lever of our side gives: an epoch with all of them, and with one after the other taken away."""

import contextlib
import tempfile
import time
from functools import partial
from typing import Any
from unittest import mock

import numpy as np

from benchmarks import common, peers
from benchmarks.pretrain import SIZES, Size
from toybert.train.data.datasets import PretrainDataset

ALL = "all levers"


def in_any_order() -> Any:
    """Hides from the sampler how long the rows are."""
    return mock.patch.object(PretrainDataset, "lengths", property(lambda dataset: np.ones(len(dataset), dtype=int)))


# What is taken away: fields of the model's configuration, and a patch.
LEVERS: dict[str, tuple[dict[str, Any], Any]] = {
    ALL: ({}, contextlib.nullcontext),
    "logits for every token": ({"sparse_prediction": False}, contextlib.nullcontext),
    "batches of rows of any length": ({}, in_any_order),
}


def run(corpus: peers.Corpus, size: Size, lever: str) -> dict[str, float]:
    """Trains for an epoch, from text in memory to weights in memory, by the recipe of the rows of the same maths."""
    changed, patch = LEVERS[lever]
    with tempfile.TemporaryDirectory() as folder, common.silence(), patch():
        options = peers.pretrain_options(folder, **peers.same_maths(0.0))
        began = time.perf_counter()
        _, figures = peers.train_ours(corpus, options, **{**size.fields, **changed})
        return {"seconds": time.perf_counter() - began, **figures}


def look(corpus: peers.Corpus, size: Size, rounds: int) -> dict[str, Any]:
    """Gives the seconds of each row, and by how much it is slower than the first."""
    for lever in LEVERS:
        run(corpus, size, lever)  # whatever is only slow the first time is over after this
    results = common.interleaved({lever: partial(run, corpus, size, lever) for lever in LEVERS}, rounds)
    seconds = {lever: [one["seconds"] for one in runs] for lever, runs in results.items()}
    losses = {lever: [one["training_loss"] for one in runs] for lever, runs in results.items()}
    assert all(abs(some[0] / losses[ALL][0] - 1) < 0.1 for some in losses.values()), f"not all learn alike: {losses}"
    return {
        lever: {
            "seconds": common.spread(seconds[lever]),
            "slower": common.ratios(seconds[lever], seconds[ALL]),
            "training_loss": common.spread(losses[lever]),
        }
        for lever in LEVERS
    }


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES), metavar="SIZE", help=", ".join(SIZES))
    options = common.parse(parser)
    results, lines = {}, []
    for name in options.sizes:
        size = SIZES[name]
        results[name] = look(size.corpus(4 if options.smoke else size.documents), size, options.rounds)
        for lever, row in results[name].items():
            loss = f"{row['training_loss']['median']:.3f}"
            lines.append((name, lever, common.show(row["seconds"]), common.show(row["slower"]), loss))
        header = ("size", "", "seconds", "times as long", "loss")
        common.report("levers", options, results, common.table(header, lines))


if __name__ == "__main__":
    main()
