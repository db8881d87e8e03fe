"""The best epoch of a run: its weights are kept, and a run that no longer finds a better one is stopped."""

import os
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from safetensors.torch import load_file, save_file
from torch import nn


class Best:
    """Knows which epoch is kept, the one with the best figure; saved and restored with each checkpoint."""

    def __init__(self, metric: str, patience: int, path: Path):
        """Sets out to keep the best epoch's weights in the file `path`.

        Args:
            metric: the name of the figure; of a loss the lowest is best, of any other the highest, and of epochs that
                are equal in it the one with the lower loss.
            patience: epochs without a better one after which the run is to stop; 0 keeps the last epoch, in no file.
        """
        self.metric, self.patience, self.path = metric, patience, path
        self.epochs, self.epoch, self.figure = 0, 0, (0.0, 0.0)

    def see(self, accelerator: Accelerator, model: nn.Module, figures: dict[str, float]) -> None:
        """Takes the figures of the next epoch, and its weights if it is the best one yet."""
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
        """Gives a model the weights of the epoch that is kept: the last one's it has already."""
        if self.patience:
            model.load_state_dict(load_file(self.path))

    def state_dict(self) -> dict[str, Any]:
        return {"epochs": self.epochs, "epoch": self.epoch, "figure": self.figure}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
