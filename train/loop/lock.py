"""One run at a time in a folder."""

import contextlib
import os
import platform
from collections.abc import Callable
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout

Made = TypeVar("Made")
LOCK, OWNER = "run.lock", "run.owner"  # in the folder of a run that goes on: its lock, and who holds it
HELD: dict[Path, tuple[FileLock, bool]] = {}  # the folders that this process holds, and whether it made them


def alone(train: Callable[[Any], Made]) -> Callable[[Any], Made]:
    """Makes a function that trains give its folder back at the end, however it ends."""

    @wraps(train)
    def train_alone(options: Any) -> Made:
        try:
            return train(options)
        finally:
            give_back(Path(options.output_dir))

    return train_alone


def hold(folder: Path) -> None:
    """Makes this process the only one that writes into a run's folder, until `give_back` or until it dies.

    The system holds the lock, and frees that of a killed process: process ids return, and say nothing of other hosts.
    """
    if folder in HELD or folder.is_file():
        return
    is_new, lock = not folder.exists(), FileLock(folder / LOCK)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        lock.acquire(timeout=0)
    except NotImplementedError:  # some network file systems have no locks
        return
    except Timeout as error:
        owner = "another process"
        with contextlib.suppress(OSError):  # it is written a moment after the lock is taken
            owner = (folder / OWNER).read_text(encoding="utf-8")
        raise ValueError(f"{folder} is in use by {owner}: wait until it ends, or give another --output-dir") from error
    HELD[folder] = lock, is_new
    since = f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S %z}"
    (folder / OWNER).write_text(f"process {os.getpid()} on {platform.node()} since {since}", encoding="utf-8")


def give_back(folder: Path) -> None:
    """Lets other processes write into a folder, and leaves none that `hold` made for nothing."""
    lock, is_new = HELD.pop(folder, (None, False))
    if lock:
        (folder / OWNER).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # Windows deletes no open file
            (folder / LOCK).unlink(missing_ok=True)
        lock.release()
        if is_new and not any(folder.iterdir()):
            folder.rmdir()
