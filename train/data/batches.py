"""Where a run's batches come from, epoch by epoch."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator, skip_first_batches
from torch.utils.data import DataLoader, Sampler, Subset

from toybert.train.data.datasets import Batch, as_is

WINDOW = 32  # batches whose rows are sorted by length together


class LengthBatchSampler(Sampler[list[int]]):
    """Yields batches of rows of similar length, shuffled anew each epoch.

    The rows are shuffled, sorted by length within windows of some batches, cut into batches, and the batches shuffled:
    padding is small, yet a row's neighbours change each epoch. Each `group` of consecutive rows stays together.

    With `parts`, each batch is yielded in that many nearly equal parts, for the processes and the accumulation steps
    that share it. Their number does not change which rows a step of the optimiser sees. (If the last batch has fewer
    rows than there are parts, some rows are repeated.)

    Raises:
        ValueError: the batch size is not a multiple of `group`.
    """

    def __init__(self, lengths: np.ndarray, batch_size: int, seed: int = 0, group: int = 1, parts: int = 1):
        if batch_size % group:
            raise ValueError(f"batch_size {batch_size} is not a multiple of {group}, the rows that go together")
        self.lengths, self.rows, self.seed, self.group, self.parts = np.asarray(lengths), batch_size, seed, group, parts
        # accelerate repeats rows of the first batches until all have this size; with None, each keeps its own.
        self.batch_size = batch_size if parts == 1 else None
        self.drop_last = False
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch, which decides the order."""
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-len(self.lengths) // self.rows) * self.parts

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self._batches():
            batch = np.resize(batch, max(len(batch), self.parts))
            for part in np.array_split(batch, self.parts):
                yield part.tolist()

    def _batches(self) -> Iterator[np.ndarray]:
        """Yields the rows of each batch, before it is split into parts."""
        random = np.random.default_rng([self.seed, self.epoch])
        first = random.permutation(len(self.lengths) // self.group) * self.group
        order = (first[:, None] + np.arange(self.group)).ravel()
        batches = []
        for start in range(0, len(order), self.rows * WINDOW):
            part = order[start : start + self.rows * WINDOW]
            part = part[np.argsort(self.lengths[part], kind="stable")]
            batches += np.split(part, range(self.rows, len(part), self.rows))
        full = len(self.lengths) // self.rows
        for index in random.permutation(full):
            yield batches[index]
        yield from batches[full:]  # a smaller batch comes last: accelerate assumes so when it shards and gathers


class Batches:
    """Makes a process's batches, `accumulation` of them for a step of the optimiser; a checkpoint keeps its state."""

    accumulation: int
    steps_an_epoch: int

    def of_epoch(self, epoch: int, skip: int) -> Iterable[Batch]:
        """Returns the batches of an epoch after the first `skip`, which were already trained on."""
        raise NotImplementedError

    def steps(self, epoch: int, skip: int) -> Iterator[list[Batch]]:
        """Yields the batches of each step together, since the share of each depends on all (see `shares_of`)."""
        iterator = iter(self.of_epoch(epoch, skip))
        while step := list(islice(iterator, self.accumulation)):
            yield step

    def notes(self) -> list[str]:
        """Returns notes on text that was not used; to be called after the training, on every process."""
        return []

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


class DatasetBatches(Batches):
    """Makes batches of the rows of a dataset, each row once an epoch, those of similar length together.

    The batches of a step on all processes hold together the rows that one process would have in one batch.
    """

    def __init__(self, dataset: Any, batch_size: int, accelerator: Accelerator, seed: int):
        self.accumulation = accelerator.gradient_accumulation_steps
        parts = self.accumulation * accelerator.num_processes
        self.sampler = LengthBatchSampler(dataset.lengths, batch_size * parts, seed, dataset.group, parts)
        # A generator of its own: else each new iterator would take a number from the one that dropout draws from,
        # and a resumed epoch, which starts one more iterator, would continue differently.
        generator = torch.Generator()
        loader = DataLoader(dataset, batch_sampler=self.sampler, collate_fn=as_is, generator=generator)
        self.loader = accelerator.prepare(loader)
        self.steps_an_epoch = len(self.loader) // self.accumulation

    def of_epoch(self, epoch: int, skip: int) -> Iterable[Batch]:
        self.sampler.set_epoch(epoch)
        self.loader.set_epoch(epoch)  # and so the dataset's
        return skip_first_batches(self.loader, skip) if skip else self.loader


def evaluation_loader(
    dataset: Any, accelerator: Accelerator, rows: np.ndarray | None = None, batch_size: int = 128
) -> Any:
    """Makes a prepared loader of a dataset's rows, or of some of them, for evaluation."""
    lengths = dataset.lengths
    if rows is not None:
        dataset, lengths = Subset(dataset, rows.tolist()), lengths[rows]
    sampler = LengthBatchSampler(lengths, batch_size)
    loader = DataLoader(dataset, batch_sampler=sampler, collate_fn=as_is, generator=torch.Generator())
    return accelerator.prepare(loader)
