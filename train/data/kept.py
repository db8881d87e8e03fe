"""Results that are computed once and kept for later: in the cache of `datasets`, in the folder `toybert`.

Each is a file that ends in the SHA-256 of all that comes before, so that a damaged one is noticed and made again.
`python -m toybert.train.data.kept` empties the folder.
"""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import datasets
import pyarrow as pa
from filelock import FileLock, Timeout
from huggingface_hub.utils.sha import sha_fileobj

Made = TypeVar("Made")
TRIES = 5  # to open a file that another process may delete
LARGE = 10 * 2**30  # bytes; of a larger cache, a run says how to empty it
ROWS = 1000  # rows that are written at a time
SEAL = 32  # bytes of a SHA-256
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def folder() -> Path:
    """Returns the folder of the files that are kept."""
    return Path(datasets.config.HF_DATASETS_CACHE) / "toybert"


def kept(name: str, write: Callable[[Path], None], load: Callable[[Path], Made], tries: int = TRIES) -> Made:
    """Loads a file, or first writes it if it isn't there or isn't whole; its name must stand for all it depends on.

    Raises:
        OSError: the disk is full; the message names the file and the bytes that are free.
    """
    path = folder() / name
    if not is_whole(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_unfinished()
        with FileLock(path.with_suffix(".lock")):  # of the system, which frees that of a killed process
            if not is_whole(path):  # nor has another process made it by now
                make(path, write)
            path.with_suffix(".lock").unlink(missing_ok=True)
    try:
        return load(path)
    except FileNotFoundError:  # another process deleted it
        if tries == 1:
            raise
        return kept(name, write, load, tries - 1)


def make(path: Path, write: Callable[[Path], None]) -> None:
    """Writes a file, whole or not at all, and seals it."""
    if path.exists():
        print(f"making {path} again: it is not what was written")
    unfinished = path.with_suffix(".unfinished")
    try:
        unfinished.mkdir()
        write(unfinished / path.name)
        with (unfinished / path.name).open("rb+") as file:
            file.write(sha_fileobj(file))  # which has read it to the end
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished / path.name, path)
    except Exception as error:
        cause: Any = error
        while cause and getattr(cause, "errno", None) not in FULL:
            cause = cause.__cause__
        if not cause:
            raise
        free = shutil.disk_usage(path.parent).free
        raise OSError(f"could not write {path} ({os.strerror(cause.errno)}; {free:,} bytes are free there)") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    if (size := sum(each.stat().st_size for each in folder().iterdir())) > LARGE:
        print(f"{folder()} holds {size / 2**30:.0f} GiB: python -m toybert.train.data.kept empties it")


def is_whole(path: Path) -> bool:
    """Tells whether a file is there, and as it was written."""
    with suppress(OSError), path.open("rb") as file:
        digest, left = hashlib.sha256(), path.stat().st_size - SEAL
        while left > 0 and (part := file.read(min(left, 2**20))):
            digest.update(part)
            left -= len(part)
        return file.read() == digest.digest()
    return False


def remove_unfinished() -> None:
    """Removes what killed processes have left; those that live hold their locks."""
    for unfinished in folder().glob("*.unfinished"):
        with suppress(Timeout), FileLock(unfinished.with_suffix(".lock"), timeout=0):
            shutil.rmtree(unfinished, ignore_errors=True)


def kept_rows(key: str, make: Callable[[Path], datasets.Dataset]) -> datasets.Dataset:
    """Keeps the rows that a function makes, with a folder for what `datasets` writes meanwhile."""

    def write(path: Path) -> None:
        rows = make(path.parent)
        schema = rows.features.arrow_schema
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
            for table in rows.with_format("arrow").iter(batch_size=ROWS):
                writer.write_table(table.cast(schema))

    name = f"{hashlib.sha256(key.encode()).hexdigest()}.arrow"
    return kept(name, write, lambda path: datasets.Dataset.from_file(str(path)))


def unchanged(key: str, load: Callable[[], datasets.DatasetDict]) -> datasets.DatasetDict:
    """Loads what `datasets` itself keeps; files that have changed since the last time are made again."""
    record = folder() / f"{hashlib.sha256(key.encode()).hexdigest()}.json"
    known: dict[str, str] = {}
    with suppress(OSError, ValueError):
        known = json.loads(record.read_text(encoding="utf-8"))
    now = digests(list(known))
    for name in (name for name in known if now.get(name) != known[name]):
        print(f"making {name} again: it is not what was written")
        shutil.rmtree(Path(name).parent, ignore_errors=True)
    splits = load()
    used = {Path(file["filename"]).parent for rows in splits.values() for file in getattr(rows, "cache_files", ())}
    names = sorted(str(file) for parent in used for file in parent.glob("*") if file.suffix in (".arrow", ".json"))
    if names != sorted(known) or now != known:
        record.parent.mkdir(parents=True, exist_ok=True)
        unfinished = record.with_suffix(f".{os.getpid()}")
        unfinished.write_text(json.dumps(digests(names)), encoding="utf-8")
        os.replace(unfinished, record)
    return splits


def digests(names: list[str]) -> dict[str, str]:
    """Returns the SHA-256 of those files that are there."""
    found = {}
    for name in names:
        with suppress(OSError), open(name, "rb") as file:
            found[name] = sha_fileobj(file).hex()
    return found


if __name__ == "__main__":
    shutil.rmtree(folder(), ignore_errors=True)
    print(f"emptied {folder()}")
