"""Which rows make a batch: those of similar length, others each epoch."""

from collections.abc import Iterator

import numpy as np
from torch.utils.data import Sampler


class LengthBatchSampler(Sampler[list[int]]):
    """Yields batches of rows of similar length, in another order and company each epoch.

    The rows are shuffled, sorted by length within windows of some batches, cut into batches, and the batches shuffled:
    little padding, and still no row meets the same neighbours twice. Each `group` of consecutive rows stays together.

    With `parts`, each batch is yielded as so many, as even as can be, for the processes and the steps of accumulation
    that share it: how many those are does not change which rows a step of the optimiser sees. (Where a last batch has
    fewer rows than there are parts, some are repeated.)

    Raises:
        ValueError: the batch size is not a multiple of `group`.
    """

    def __init__(
        self, lengths: np.ndarray, batch_size: int, seed: int = 0, group: int = 1, window: int = 32, parts: int = 1
    ):
        if batch_size % group:
            raise ValueError(f"batch_size {batch_size} is not a multiple of {group}, the rows that go together")
        self.lengths, self.rows, self.seed, self.group = np.asarray(lengths), batch_size, seed, group
        self.window, self.parts = window, parts
        # accelerate repeats rows of the first batches until all have this size; with None, each keeps its own.
        self.batch_size = batch_size if parts == 1 else None
        self.drop_last = False
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Turns to the order of an epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-len(self.lengths) // self.rows) * self.parts

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self._batches():
            batch = np.resize(batch, max(len(batch), self.parts))
            for part in np.array_split(batch, self.parts):
                yield part.tolist()

    def _batches(self) -> Iterator[np.ndarray]:
        random = np.random.default_rng([self.seed, self.epoch])
        order = random.permutation(len(self.lengths) // self.group)[:, None] * self.group + np.arange(self.group)
        order = order.reshape(-1)
        batches = []
        for start in range(0, len(order), self.rows * self.window):
            part = order[start : start + self.rows * self.window]
            part = part[np.argsort(self.lengths[part], kind="stable")]
            batches += [part[i : i + self.rows] for i in range(0, len(part), self.rows)]
        full = len(self.lengths) // self.rows
        for index in random.permutation(full):
            yield batches[index]
        yield from batches[full:]  # a smaller batch comes last: accelerate shares out and gathers on that premise
