"""Checkpoints that are whole or absent: written elsewhere, flushed to the disk, renamed, and checked before use.

They hold JSON, safetensors, and torch's files of plain numbers: none that could run code when it is read.
"""

import json
import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import load
from safetensors import safe_open
from torch import nn

from toybert.train.cli import STOPS
from toybert.train.data.source import digest

RECORD = "run.json"  # in the run's folder: its configuration
MANIFEST = "manifest.json"  # in a checkpoint, written last: which files belong to it
STATE = "state.json"  # in a checkpoint: how far the run is, and where it goes on in its text
KEPT = 2  # how many of the newest checkpoints stay on the disk


def flush(path: Path) -> None:
    """Waits until a file, or a folder's list of names, is on the disk, so that a later rename can't overtake it."""
    if os.name == "nt" and path.is_dir():  # Windows can't open folders
        return
    descriptor = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(path: Path, value: Any, indent: int = 2) -> None:
    """Writes JSON to a file, so that an interruption leaves either the old file or the new one."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    unfinished.write_text(json.dumps(value, indent=indent) + "\n", encoding="utf-8")
    flush(unfinished)
    os.replace(unfinished, path)
    flush(path.parent)


def read_record(folder: Path) -> dict[str, Any]:
    """Reads the configuration of the run in a folder, and refuses a file that holds something else."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        return {**record, "sources": dict(record["sources"])}
    except (ValueError, LookupError, TypeError) as error:
        raise ValueError(f"{folder / RECORD} is no record of a run: begin a new run") from error


def save_checkpoint(
    accelerator: Accelerator, model: nn.Module, step: int, folder: Path, parts: Sequence[Any] = ()
) -> None:
    """Saves all that a resume needs, if all weights are finite, and deletes all but the newest `KEPT` checkpoints.

    `parts` are what has a `state_dict` of its own, of numbers and text. If the checkpoint can't be written, no part of
    it is left, and earlier checkpoints stay as they were.
    """
    # FSDP spreads the weights over the processes.
    weights = [weight.to_local() if hasattr(weight, "to_local") else weight for weight in model.parameters()]
    if not torch.stack([weight.isfinite().all() for weight in weights]).all():
        raise ValueError(f"a weight is not finite after step {step}: try a lower learning rate; {last_of(folder)}")
    final = folder / "checkpoints" / f"step-{step:07d}"
    unfinished = final.with_suffix(".unfinished")
    if accelerator.is_main_process:
        shutil.rmtree(unfinished, ignore_errors=True)
    accelerator.wait_for_everyone()
    try:
        accelerator.save_state(str(unfinished))
        states = [part.state_dict() for part in parts]  # on all processes: they bring their states together
        accelerator.wait_for_everyone()
        if accelerator.is_main_process:
            write_whole(unfinished / STATE, states)
            seal(unfinished, folder)
            shutil.rmtree(final, ignore_errors=True)
            os.replace(unfinished, final)
            flush(final.parent)
    except Exception as error:  # torch and safetensors have their own errors for a full disk
        reason = f"{' '.join(str(error).split())}; {shutil.disk_usage(folder).free:,} bytes are free there"
        shutil.rmtree(unfinished, ignore_errors=True)
        raise OSError(f"could not write {final} ({reason}): {last_of(folder)}") from error
    if accelerator.is_main_process:
        for old in [path for path in checkpoints(folder) if path.name <= final.name][:-KEPT]:
            shutil.rmtree(old)
    accelerator.wait_for_everyone()


def seal(checkpoint: Path, folder: Path) -> None:
    """Flushes a checkpoint's files to the disk, and writes down their hashes and that of the run's configuration."""
    contents = {}
    for path in sorted(path for path in checkpoint.rglob("*") if path.is_file()):
        flush(path)
        contents[path.relative_to(checkpoint).as_posix()] = {"size": path.stat().st_size, "sha256": digest(path)}
    write_whole(checkpoint / MANIFEST, {"run": digest(folder / RECORD), "files": contents})


def fault_of(checkpoint: Path, folder: Path) -> str | None:
    """Returns what is wrong with a checkpoint of the run in a folder, or None if it is whole."""
    try:
        manifest = json.loads((checkpoint / MANIFEST).read_text(encoding="utf-8"))
        run, files = manifest["run"], {name: (each["size"], each["sha256"]) for name, each in manifest["files"].items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return f"it has no readable {MANIFEST}"
    if run != digest(folder / RECORD):
        return "it belongs to a run of another configuration"
    found = {path.relative_to(checkpoint).as_posix() for path in checkpoint.rglob("*") if path.is_file()} - {MANIFEST}
    if added := sorted(found - files.keys()):
        return f"it has {added[0]}, which was not written with it"
    for name in sorted({STATE, *files}):
        path = checkpoint / name
        if name not in found:
            return f"it has no {name}"
        size, sha256 = files.get(name, (None, None))
        if path.stat().st_size != size:
            return f"{name} has {path.stat().st_size:,} bytes instead of {size:,}"
        if digest(path) != sha256:
            return f"{name} is not what was written"
        if not is_data(path):
            return f"{name} holds something else than data, and reading it could run code"
    return None


def is_data(path: Path) -> bool:
    """Tells whether a file of a checkpoint can be read without running code that is in it."""
    try:
        if path.suffix == ".json":
            json.loads(path.read_text(encoding="utf-8"))
        elif path.suffix == ".safetensors":
            safe_open(path, "pt")
        else:
            load(path, map_location="cpu", mmap=True)  # tensors and numbers alone, and these are not even copied
    except Exception:  # each has several errors for what it refuses
        return False
    return not path.name.startswith(("custom_checkpoint", "."))  # which accelerate and torch would unpickle


def checkpoints(folder: Path) -> list[Path]:
    """Returns the finished checkpoints of a run, the oldest first."""
    return sorted(path for path in (folder / "checkpoints").glob("step-*") if path.suffix != ".unfinished")


def load_checkpoint(accelerator: Accelerator, folder: Path, parts: Sequence[Any]) -> None:
    """Restores the newest whole checkpoint of a run; a run without any checkpoint starts from the beginning.

    `parts` are those that were saved, in the same order.
    """
    found = checkpoints(folder)
    for checkpoint in reversed(found):
        if not (fault := fault_of(checkpoint, folder)):
            accelerator.print(f"resuming from {checkpoint}")
            accelerator.load_state(str(checkpoint))
            states = json.loads((checkpoint / STATE).read_text(encoding="utf-8"))
            for part, state in zip(parts, states, strict=True):
                part.load_state_dict(state)
            return
        accelerator.print(f"passing over {checkpoint}: {fault}")
    if found:
        raise ValueError(f"none of the {len(found)} checkpoints in {found[0].parent} can be used: begin a new run")
    accelerator.print(f"{folder} has no checkpoint yet: starting from the beginning")


def last_of(folder: Path) -> str:
    """Names a run's last checkpoint, for the end of a message."""
    found = checkpoints(folder)
    return f"the last checkpoint is {found[-1]}" if found else "there is no checkpoint yet"


@contextmanager
def noting_signals(wanted: bool) -> Iterator[list[int]]:
    """Makes SIGTERM and SIGHUP, if that is wanted, only enter a list, which it yields; else they end the run."""
    noted: list[int] = []
    before = {each: signal.signal(each, lambda number, _: noted.append(number)) for each in STOPS if wanted}
    try:
        yield noted
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def naming_the_last_checkpoint(folder: Path) -> Iterator[None]:
    """Makes Ctrl-C, and a signal that ends the run, name the checkpoint from which `--resume` will continue."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted: {last_of(folder)}; --resume continues the run") from None
