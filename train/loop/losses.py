"""Losses of batches that are parts of one step: weighed so that they add up to the mean over all labels."""

from collections.abc import Sequence
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor

from toybert.train.data.datasets import Batch
from toybert.train.data.masking import IGNORED

LOSSES = ("loss", "mlm_loss", "nsp_loss")  # what the log shows, where the model gives it
LABELS = ("labels", "next_sentence_label")  # what the losses are means over


def shares_of(batches: Sequence[Batch], accelerator: Accelerator) -> list[Tensor | None]:
    """Returns each batch's share of the labels of a step, (losses,), over all processes; None where it has them all.

    A batch's loss is the mean over its own labels. So weighed, and summed over batches and processes, the losses
    become the mean over all labels; the mean of the means would prefer the words of batches with fewer of them.
    """
    if len(batches) * accelerator.num_processes == 1:
        return [None]
    counts = torch.stack([label_counts(batch) for batch in batches])  # (batches, losses)
    return list(counts / accelerator.reduce(counts.sum(0), "sum").clamp(min=1))


def label_counts(batch: Batch) -> Tensor:
    """Counts the labels that each loss of a batch is the mean of, (losses,); of numbers to regress on, all."""
    labels = [batch[name] for name in LABELS if name in batch]
    given = [label != (torch.nan if label.is_floating_point() else IGNORED) for label in labels]  # no number is NaN
    return torch.stack([label.sum() for label in given])


def weighed(output: Any, share: Tensor | None) -> dict[str, Tensor]:
    """Returns the losses of a batch, each times the batch's share of its labels, and their sum as `loss`."""
    losses = {name: output[name] for name in LOSSES if output.get(name) is not None}
    if share is None:
        return losses
    apart = [name for name in losses if name != "loss"] or ["loss"]
    parts = {name: losses[name] * part for name, part in zip(apart, share, strict=True)}
    return {"loss": torch.stack(list(parts.values())).sum(), **parts}
