"""Tables of labelled text, from files or from the Hub; what is wrong with them is named before anything is learnt."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset, DatasetDict, load_dataset
from datasets.exceptions import DatasetGenerationError

from toybert.train import cells
from toybert.train.corpus import check_json_lines, in_slices

SPLITS = ("train", "validation", "test")
SUFFIXES = (".csv", ".tsv", ".json", ".jsonl", ".parquet")


@dataclass(frozen=True)
class Table:
    """Holds labelled text, and what a message calls it: its file, or its split."""

    rows: Dataset
    name: str

    def check_column(self, column: str) -> None:
        """Refuses a column that is not there; the message names those that are."""
        if column not in self.rows.column_names:
            names = ", ".join(repr(name[:40]) for name in self.rows.column_names)
            said = "its first line says that it has" if self.name.endswith((".csv", ".tsv")) else "it has"
            raise ValueError(f"{self.name} has no column {column!r}, {said} {names}")

    def check_text(self, column: str) -> None:
        """Refuses what is not a string; the message names the first such value and its row."""
        self.check_column(column)
        kind = getattr(self.rows.features[column], "dtype", None)
        if kind in ("string", "large_string") and not self.rows.data.column(column).null_count:
            return
        for number, value in enumerate(in_slices(self.rows[column]), start=1):
            if not isinstance(value, str):
                raise ValueError(f"row {number} of {self.name} has {str(value)[:60]!r} where text should be")


def load_tables(corpus: str, config: str | None, files: dict[str, str | None]) -> dict[str, Table]:
    """Loads the tables of a run by the names of their splits: at least `train`.

    Args:
        corpus: where there is no file to train on: a folder that holds train.csv or the like, any other folder that
            `datasets` reads, or an id on the Hub.
        config: which of its data sets, if the corpus holds several.
        files: a file for some of the splits.

    Raises:
        OSError: there is no such file, folder or data set.
        ValueError: a file cannot be read, or is empty, or there is nothing to train on.
    """
    given = {split: Table(load_file(path), path) for split, path in files.items() if path}
    if "train" in given:
        return given
    found = corpus_files(corpus)
    if found:
        return {split: Table(load_file(path), path) for split, path in found.items() if split not in given} | given
    splits = load_dataset(corpus, config)
    if not isinstance(splits, DatasetDict) or "train" not in splits:
        raise ValueError(f"{corpus} has no split 'train', it has {', '.join(splits)}")
    tables = {split: Table(splits[split], f"the split {split} of {corpus}") for split in SPLITS if split in splits}
    return tables | given


def corpus_files(corpus: str) -> dict[str, str]:
    """Finds the files of a folder that are named for their splits; none, unless there is one to train on."""
    named = {split: [Path(corpus) / f"{split}{suffix}" for suffix in SUFFIXES] for split in SPLITS}
    found = {split: [str(path) for path in candidates if path.is_file()] for split, candidates in named.items()}
    for split, several in found.items():
        if len(several) > 1:
            raise ValueError(f"{corpus} has {len(several)} files for {split}: {', '.join(several)}")
    return {split: paths[0] for split, paths in found.items() if paths} if found["train"] else {}


def load_file(path: str) -> Dataset:
    """Reads a table from a file, by the ending of its name."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"{path} is no table: its name should end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")
    if not Path(path).is_file():
        raise FileNotFoundError(f"the file {path} does not exist")
    if suffix in cells.SUFFIXES:
        return load_cells(path)
    if suffix == ".jsonl":
        check_json_lines(path)
    return read(path, {"path": "parquet" if suffix == ".parquet" else "json", "data_files": {"train": path}})


def load_cells(path: str) -> Dataset:
    """Reads a file of cells, each as text."""
    source, number = cells.cells_source([Path(path)])
    rows = read(path, source)
    if len(rows) != number:
        raise ValueError(f"{path} has {number} rows, of which only {len(rows)} can be read: is there an odd line end?")
    return rows


def read(path: str, source: dict[str, Any]) -> Dataset:
    """Reads a file with `datasets`."""
    try:
        return load_dataset(**source, split="train")
    except (DatasetGenerationError, ValueError, OSError) as error:
        reason = " ".join(str(error.__cause__ or error).split())
        if "corresponds to no data" in reason:
            reason = "it has no rows"
        raise ValueError(f"{path} cannot be read as {source['path']}: {reason}") from error


def hold_out(classes: np.ndarray | None, number: int, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Chooses rows to train on and rows to hold out.

    Of each class the share is held out, rounded, so that no class is missing in training.

    Args:
        classes: integer (number,), or None where there are no classes.

    Raises:
        ValueError: there are fewer than two rows.
    """
    if number < 2:
        raise ValueError(f"there is nothing to hold out of {number} row: give a --validation-file")
    order = np.random.default_rng(seed).permutation(number)
    groups = [order] if classes is None else [order[classes[order] == each] for each in np.unique(classes)]
    held = np.concatenate([group[: round(share * len(group))] for group in groups])
    if not len(held):  # each group is small
        held = max(groups, key=len)[:1]
    return np.setdiff1d(order, held), np.sort(held)
