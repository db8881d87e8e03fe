"""Averages a run's losses for the log and for trackers, and stops the run when a loss is no longer a number."""

from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor

from toybert.train.loop.checkpoint import last_of

UNSEEN = 20  # steps that a device may run ahead before its losses are looked at


class Meter:
    """Averages the losses on the device, and fetches them once for each entry of the log.

    A loss that is no longer a number stops the run, at once on a CPU and within `UNSEEN` steps elsewhere, since looking
    at it means waiting for the device.
    """

    def __init__(self, accelerator: Accelerator, every: int, folder: Path):
        self.accelerator, self.every, self.folder = accelerator, every, folder
        self.sums: dict[str, Tensor] = {}
        self.count = 0
        self.unseen: list[Tensor] = []  # the running sum of the losses after each step that was not looked at

    def add(self, losses: dict[str, Tensor]) -> None:
        """Adds the losses of one batch, which are weighed by the batch's share of the step."""
        for name, loss in losses.items():
            self.sums[name] = loss.detach().float() + self.sums.get(name, 0.0)

    def end_step(self, step: int, epoch: int) -> dict[str, float] | None:
        """Ends a step, and returns an entry of the log when one is due.

        Raises:
            ValueError: the loss is no longer a number.
        """
        self.count += 1
        self.unseen.append(self.sums["loss"])
        due = step % self.every == 0
        if due or len(self.unseen) == UNSEEN or self.accelerator.device.type == "cpu":
            self._look(step)
        if not due:
            return None
        means = {name: self.accelerator.reduce(total / self.count, "sum") for name, total in self.sums.items()}
        self.sums, self.count = {}, 0
        return {"step": step, "epoch": epoch + 1, **{name: float(mean) for name, mean in means.items()}}

    def _look(self, step: int) -> None:
        sums = torch.stack(self.unseen)
        finite, self.unseen = sums.isfinite().tolist(), []
        if not all(finite):
            first = finite.index(False)
            where = f"{float(sums[first])} at step {step - len(finite) + 1 + first}"
            raise ValueError(f"the loss is {where}: try a lower learning rate; {last_of(self.folder)}")

    def state_dict(self) -> dict[str, Any]:
        """Returns the sums of all processes, since a checkpoint keeps only what the main process says."""
        sums = {name: self.accelerator.gather(total).reshape(-1).tolist() for name, total in self.sums.items()}
        return {"sums": sums, "count": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        mine = {name: totals[self.accelerator.process_index] for name, totals in state["sums"].items()}
        self.sums = {name: torch.tensor(total, device=self.accelerator.device) for name, total in mine.items()}
        self.count = state["count"]
