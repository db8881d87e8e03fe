"""The best epoch of a run: its weights are kept, and the run stops when no better epoch follows."""

import os
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from safetensors.torch import load_file, save_file
from torch import nn


class Best:
    """Keeps the epoch with the best figure; saved and restored with each checkpoint."""

    def __init__(self, metric: str, patience: int, path: Path):
        """Prepares to keep the weights of the best epoch.

        Args:
            metric: the name of the figure: the lowest "loss" is best, or the highest of any other. On a tie, the lower
                loss is better.
            patience: the run is to stop after this many epochs without a better one; 0 keeps the last epoch.
            path: the file for the weights; without patience, none is written.
        """
        self.metric, self.patience, self.path = metric, patience, path
        self.epochs, self.epoch, self.figure = 0, 0, (0.0, 0.0)

    def see(self, accelerator: Accelerator, model: nn.Module, figures: dict[str, float]) -> None:
        """Notes the figures of the next epoch, and saves its weights if it is the best yet."""
        self.epochs += 1
        figure = (0.0 if self.metric == "loss" else figures[self.metric], -figures["loss"])
        if self.patience and self.epoch and not figure > self.figure:
            return
        self.epoch, self.figure = self.epochs, figure
        if not self.patience:
            return
        weights = accelerator.get_state_dict(model)
        if accelerator.is_main_process:
            unfinished = self.path.with_suffix(".unfinished")
            self.path.parent.mkdir(parents=True, exist_ok=True)
            save_file(weights, unfinished)
            os.replace(unfinished, self.path)

    def is_over(self) -> bool:
        """Tells whether the run is to stop."""
        return 0 < self.patience <= self.epochs - self.epoch

    def restore(self, model: nn.Module) -> None:
        """Loads the weights of the best epoch into a model; without patience, it has those of the last."""
        if self.patience:
            model.load_state_dict(load_file(self.path))

    def state_dict(self) -> dict[str, Any]:
        return {"epochs": self.epochs, "epoch": self.epoch, "figure": self.figure}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
