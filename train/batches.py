"""Where a run's batches come from, epoch by epoch."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import torch
from accelerate import Accelerator, skip_first_batches
from torch import Tensor
from torch.utils.data import DataLoader

from toybert.train.data import IGNORED, Batch, as_is
from toybert.train.sampler import LengthBatchSampler

LOSSES = ("loss", "mlm_loss", "nsp_loss")  # what the log shows, where the model gives it
LABELS = ("labels", "next_sentence_label")  # what the losses are means over


class Batches:
    """Gives a process its batches, `accumulation` of them to a step of the optimiser; a checkpoint keeps its state."""

    accumulation: int
    steps_an_epoch: int

    def of_epoch(self, epoch: int, skip: int) -> Iterable[Batch]:
        """Gives the batches of an epoch but the first `skip`, which were trained on before."""
        raise NotImplementedError

    def steps(self, epoch: int, skip: int) -> Iterator[list[Batch]]:
        """Yields the batches of each step together, since the share of each depends on all (see `shares_of`)."""
        iterator = iter(self.of_epoch(epoch, skip))
        while step := list(islice(iterator, self.accumulation)):
            yield step

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


class DatasetBatches(Batches):
    """Gives the rows of a dataset once an epoch, those of similar length together.

    All processes together, and all batches of a step, see what one process would in one batch.
    """

    def __init__(self, dataset: Any, batch_size: int, accelerator: Accelerator, seed: int):
        self.accumulation = accelerator.gradient_accumulation_steps
        parts = self.accumulation * accelerator.num_processes
        self.sampler = LengthBatchSampler(dataset.lengths, batch_size * parts, seed, dataset.group, parts=parts)
        # A generator of its own: or each new iterator would take a number from the one that dropout draws from,
        # and a resumed epoch, which starts one iterator more, would go on differently.
        generator = torch.Generator()
        loader = DataLoader(dataset, batch_sampler=self.sampler, collate_fn=as_is, generator=generator)
        self.loader = accelerator.prepare(loader)
        self.steps_an_epoch = len(self.loader) // self.accumulation

    def of_epoch(self, epoch: int, skip: int) -> Iterable[Batch]:
        self.sampler.set_epoch(epoch)
        self.loader.set_epoch(epoch)  # and so the dataset's
        return skip_first_batches(self.loader, skip) if skip else self.loader


def shares_of(batches: Sequence[Batch], accelerator: Accelerator) -> list[Tensor | None]:
    """Gives each batch's share of the labels of a step, (losses,), over all processes; None where it has them all.

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
    """Gives the losses of a batch, each times the batch's share of its labels, and their sum as `loss`."""
    losses = {name: output[name] for name in LOSSES if output.get(name) is not None}
    if share is None:
        return losses
    apart = [name for name in losses if name != "loss"] or ["loss"]
    parts = {name: losses[name] * part for name, part in zip(apart, share, strict=True)}
    return {"loss": torch.stack(list(parts.values())).sum(), **parts}
