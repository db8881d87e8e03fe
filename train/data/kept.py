"""What is made of a text once and kept for later: in a file, where `datasets` keeps what it makes."""

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import datasets

Made = TypeVar("Made")
TRIES = 5  # to open what another process may take away


def kept(name: str, write: Callable[[Path], None], load: Callable[[Path], Made]) -> Made:
    """Loads a file that was written before, or writes it first, whole or not at all.

    Args:
        name: stands for all that the file's contents depend on.

    Raises:
        FileNotFoundError: whenever it was written, another process took it away.
    """
    path = Path(datasets.config.HF_DATASETS_CACHE) / "toybert" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    for tries in range(1, TRIES + 1):
        if not path.exists():
            with TemporaryDirectory(dir=path.parent) as folder:
                write(Path(folder) / name)
                os.replace(Path(folder) / name, path)
        try:
            return load(path)
        except FileNotFoundError:
            if tries == TRIES:
                raise
    raise AssertionError  # one of the tries returned or raised
