"""The best epoch of a run: its weights are kept, and the run stops when no better epoch follows."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from accelerate import Accelerator
from safetensors.torch import load_file, save_file
from torch import nn

History = Sequence[dict[str, float]]  # the figures of each epoch


@dataclass(frozen=True)
class Best:
    """Finds the best epoch in a run's history, and keeps its weights in a file."""

    metric: str  # the lowest "loss" is best, or the highest value of another metric; a tie goes to the lower loss
    patience: int  # the run stops after this many epochs without a better one; 0 keeps the last epoch and no file
    path: Path

    def epoch(self, history: History) -> int:
        """Returns the number of the best epoch (the first on a tie), or of the last one without patience."""
        if not self.patience:
            return len(history)
        ranks = [(0.0 if self.metric == "loss" else each[self.metric], -each["loss"]) for each in history]
        return 1 + max(range(len(ranks)), key=ranks.__getitem__, default=-1)

    def keep(self, accelerator: Accelerator, model: nn.Module, history: History) -> None:
        """Saves the weights of the last epoch if it is the best yet."""
        if not self.patience or self.epoch(history) < len(history):
            return
        weights = accelerator.get_state_dict(model)
        if accelerator.is_main_process:
            unfinished = self.path.with_suffix(".unfinished")
            self.path.parent.mkdir(parents=True, exist_ok=True)
            save_file(weights, unfinished)
            os.replace(unfinished, self.path)

    def is_over(self, history: History) -> bool:
        """Tells whether the run is to stop."""
        return 0 < self.patience <= len(history) - self.epoch(history)

    def restore(self, model: nn.Module) -> None:
        """Loads the weights of the best epoch into the model; without patience, it keeps those of the last."""
        if self.patience:
            model.load_state_dict(load_file(self.path))
