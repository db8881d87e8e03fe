"""What is made of a text once and kept for later: in a file, where `datasets` keeps what it makes."""

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import datasets

Made = TypeVar("Made")
TRIES = 5  # to open what another process may take away


def kept(name: str, write: Callable[[Path], None], load: Callable[[Path], Made], tries: int = TRIES) -> Made:
    """Loads a file, whose name stands for all that it depends on, or writes it first, whole or not at all."""
    path = Path(datasets.config.HF_DATASETS_CACHE) / "toybert" / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=path.parent) as folder:
            write(Path(folder) / name)
            os.replace(Path(folder) / name, path)
    try:
        return load(path)
    except FileNotFoundError:  # another process took it away
        if tries == 1:
            raise
        return kept(name, write, load, tries - 1)
