"""Tables of labelled text, from files or from the Hub; what is wrong with them is named before anything is learnt."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from datasets import Dataset, DatasetDict, load_dataset

from toybert.train.data.checks import in_slices
from toybert.train.data.files import READERS, SPLITS, load_rows, name_of, reader_of, tables_in


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
    if found := corpus_files(corpus):
        return {
            split: Table(load_rows(some), name_of(some)) for split, some in found.items() if split not in given
        } | given
    splits = load_dataset(corpus, config)
    if not isinstance(splits, DatasetDict) or "train" not in splits:
        raise ValueError(f"{corpus} has no split 'train', it has {', '.join(splits)}")
    tables = {split: Table(splits[split], f"the split {split} of {corpus}") for split in SPLITS if split in splits}
    return tables | given


def corpus_files(corpus: str) -> dict[str, list[Path]]:
    """Finds the files of a folder by their splits; none, unless there are some to train on."""
    found = tables_in(Path(corpus)) if Path(corpus).is_dir() else {}
    return found if "train" in found else {}


def load_file(path: str) -> Dataset:
    """Reads a table from a file, by the ending of its name."""
    if not reader_of(Path(path)):
        suffixes = list(READERS)
        raise ValueError(f"{path} is no table: its name should end in {', '.join(suffixes[:-1])} or {suffixes[-1]}")
    return load_rows([Path(path)])


def stratified_split(classes: np.ndarray, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Splits rows at random into those to keep and those to hold out, of each class the share, rounded.

    A class of few rows stays whole. (scikit-learn's `train_test_split` refuses to stratify where a class has a single
    row, or where fewer rows are held out than there are classes.)

    Args:
        classes: the class of each row, (N,).

    Raises:
        ValueError: there are fewer than two rows.
    """
    if len(classes) < 2:
        raise ValueError(f"there is nothing to hold out of {len(classes)} row: give a --validation-file")
    order = np.random.default_rng(seed).permutation(len(classes))
    groups = [order[classes[order] == each] for each in np.unique(classes)]
    held = np.concatenate([group[: round(share * len(group))] for group in groups])
    if not len(held):  # each class is small
        held = max(groups, key=len)[:1]
    return np.setdiff1d(order, held), np.sort(held)
