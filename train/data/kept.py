"""Results that are computed once and kept for later, in a file in the cache of `datasets`."""

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import datasets

Made = TypeVar("Made")
TRIES = 5  # to open a file that another process may delete


def kept(name: str, write: Callable[[Path], None], load: Callable[[Path], Made], tries: int = TRIES) -> Made:
    """Loads a file, or first writes it, whole or not at all; its name must stand for all that it depends on."""
    path = Path(datasets.config.HF_DATASETS_CACHE) / "toybert" / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=path.parent) as folder:
            write(Path(folder) / name)
            os.replace(Path(folder) / name, path)
    try:
        return load(path)
    except FileNotFoundError:  # another process deleted it
        if tries == 1:
            raise
        return kept(name, write, load, tries - 1)
