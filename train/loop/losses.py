"""The losses of a run: weighted, so that those of a step sum to the mean over its labels, and averaged for the log."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor

from toybert.train.data.datasets import Batch
from toybert.train.data.masking import IGNORED
from toybert.train.loop.checkpoint import last_of

LOSSES = ("loss", "mlm_loss", "nsp_loss")  # what the log shows, where the model has it
LABELS = ("labels", "next_sentence_label")  # what the losses are means over
UNSEEN = 20  # steps that a device may run ahead before its losses are checked


def shares_of(batches: Sequence[Batch], accelerator: Accelerator) -> list[Tensor | None]:
    """Returns each batch's share of a step's labels, (losses,), over all processes; None for a single batch.

    A batch's loss is the mean over its own labels. Weighted by these shares and summed over batches and processes,
    the losses become the mean over all labels; a mean of means would favour the words of batches with few of them.
    """
    if len(batches) * accelerator.num_processes == 1:
        return [None]
    counts = torch.stack([label_counts(batch) for batch in batches])  # (batches, losses)
    return list(counts / accelerator.reduce(counts.sum(0), "sum").clamp(min=1))


def label_counts(batch: Batch) -> Tensor:
    """Counts the labels that each loss of a batch averages over, (losses,); a regression counts all of them."""
    labels = [batch[name] for name in LABELS if name in batch]
    known = [label != (torch.nan if label.is_floating_point() else IGNORED) for label in labels]  # no number is NaN
    return torch.stack([label.sum() for label in known])


def weighed(output: Any, share: Tensor | None) -> dict[str, Tensor]:
    """Multiplies the losses of a batch by its shares of the labels; returns them with their sum as `loss`."""
    losses = {name: output[name] for name in LOSSES if output.get(name) is not None}
    if share is None:
        return losses
    apart = [name for name in losses if name != "loss"] or ["loss"]
    parts = {name: losses[name] * part for name, part in zip(apart, share, strict=True)}
    return {"loss": torch.stack(list(parts.values())).sum(), **parts}


class Meter:
    """Averages the losses on the device, and fetches them once for each entry of the log.

    A loss that is not finite stops the run: at once on a CPU, and within `UNSEEN` steps elsewhere, since reading it
    means waiting for the device.
    """

    def __init__(self, accelerator: Accelerator, every: int, folder: Path):
        self.accelerator, self.every, self.folder = accelerator, every, folder
        self.sums: dict[str, Tensor] = {}
        self.count = 0
        self.unseen: list[Tensor] = []  # the running sum of the losses after each unchecked step

    def add(self, losses: dict[str, Tensor]) -> None:
        """Adds the losses of one batch, already weighted by its share of the step."""
        for name, loss in losses.items():
            self.sums[name] = loss.detach().float() + self.sums.get(name, 0.0)

    def end_step(self, step: int, epoch: int) -> dict[str, float] | None:
        """Ends a step, and returns an entry of the log when one is due."""
        self.count += 1
        self.unseen.append(self.sums["loss"])
        due = step % self.every == 0
        if due or len(self.unseen) == UNSEEN or self.accelerator.device.type == "cpu":
            self._look(step)
        if not due:
            return None
        means = {name: float(self.accelerator.reduce(total / self.count, "sum")) for name, total in self.sums.items()}
        self.sums, self.count = {}, 0
        return {"step": step, "epoch": epoch + 1, **means}

    def _look(self, step: int) -> None:
        """Refuses a loss that is not finite, and names the first step that had one."""
        sums, self.unseen = torch.stack(self.unseen).tolist(), []
        for number, total in enumerate(sums, start=step - len(sums) + 1):
            if not math.isfinite(total):
                raise ValueError(
                    f"the loss is {total} at step {number}: try a lower learning rate; {last_of(self.folder)}"
                )

    def state_dict(self) -> dict[str, Any]:
        """Returns the sums of all processes, since a checkpoint keeps only the main process's state."""
        sums = {name: self.accelerator.gather(total).reshape(-1).tolist() for name, total in self.sums.items()}
        return {"sums": sums, "count": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        mine = {name: totals[self.accelerator.process_index] for name, totals in state["sums"].items()}
        self.sums = {name: torch.tensor(total, device=self.accelerator.device) for name, total in mine.items()}
        self.count = state["count"]
