"""Tables in, rows out: one reader for each kind of file, and one sentence on what is wrong with a file."""

import csv
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from datasets import Dataset, DatasetDict, Features, Value, load_dataset
from datasets.exceptions import DatasetsError

from toybert.train.data.checks import check_column, check_texts
from toybert.train.data.kept import kept_rows, unchanged
from toybert.train.data.sentences import read_lines
from toybert.train.data.source import DATASET, READERS, SPLITS, Source, digest, existing, reader_of

# In a .csv, quotes hold a cell together; in a .tsv they are plain text, as in nearly all corpora of that format:
# otherwise one stray quote would swallow rows.
DIALECTS: dict[str, dict[str, Any]] = {
    ".csv": {"delimiter": ",", "quoting": csv.QUOTE_MINIMAL},
    ".tsv": {"delimiter": "\t", "quoting": csv.QUOTE_NONE},
}


@dataclass(frozen=True)
class Table:
    """Holds labelled text, and what a message calls it: its file, or its split."""

    rows: Dataset
    name: str

    def check_column(self, column: str) -> None:
        """Refuses a column that is not there; the message names those that are."""
        check_column(column, self.rows.column_names, self.name)

    def check_text(self, column: str) -> None:
        """Refuses what is not a string; the message names the first such value and its row."""
        self.check_column(column)
        kind = getattr(self.rows.features[column], "dtype", None)
        if kind not in ("string", "large_string") or self.rows.data.column(column).null_count:
            check_texts(self.rows[column], self.name, lists=False)


def load_tables(source: Source) -> dict[str, Table]:
    """Loads the tables of a run by split, at least `train`."""
    files = {split: source.files[split] for split in SPLITS if split in source.files}
    given = {split: Table(load_rows(some, source.key(split)), name_of(some)) for split, some in files.items()}
    if source.kind != DATASET:
        return given
    splits = load_splits(source).items()
    return {split: Table(rows, f"the split {split} of {source.name}") for split, rows in splits} | given


def load_splits(source: Source) -> dict[str, Dataset]:
    """Loads a data set's folder, or one on the Hub, with `datasets`; refuses one without a split to train on."""
    with named(f"{source.name} could not be read"):
        splits = unchanged(f"{source.name} {source.config}", lambda: load_dataset(source.name, source.config))
    if "train" not in splits:
        raise ValueError(f"{source.name} has no split 'train', it has {', '.join(map(str, splits))}")
    return {split: splits[split] for split in SPLITS if split in splits}


def load_corpus(
    folder: str | Path, columns: Sequence[str], splits: Sequence[str] = ("train", "validation", "test")
) -> DatasetDict:
    """Loads the splits of a corpus from `folder/{train,validation,test}.jsonl`, and checks their columns.

    Raises:
        FileNotFoundError: one of the files is missing.
        ValueError: one is empty, has a line that is no JSON object in UTF-8, lacks a column, or has no text in it.
    """
    files = {split: existing(Path(folder) / f"{split}.jsonl") for split in splits}
    corpus = DatasetDict({split: load_rows([file]) for split, file in files.items()})
    for split, rows in corpus.items():
        for column in columns:
            check_column(column, rows.column_names, str(files[split]))
            if column in ("text", "sentences"):
                check_texts(rows[column], str(files[split]))
    return corpus


def load_rows(files: Sequence[Path], key: str | None = None) -> Dataset:
    """Reads the rows of files of one kind, unless that was done before; `key` stands for their contents."""
    suffix, reader = files[0].suffix.lower(), reader_of(files[0])
    if not reader:
        *others, last = READERS
        raise ValueError(f"{files[0]} is no table: its name should end in {', '.join(others)} or {last}")
    key = f"{key or [digest(file) for file in files]} {suffix}"
    if reader == "csv":
        return load_cells(files, key)
    for file in files:
        if suffix == ".jsonl":
            check_json_lines(file)
        elif suffix == ".json":
            for _ in read_lines(file):
                pass

    def make(folder: Path) -> Dataset:
        with named(f"{name_of(files)} cannot be read as {reader}"):
            named_files = {"train": [str(file) for file in files]}
            return load_dataset(reader, data_files=named_files, split="train", cache_dir=str(folder))

    return kept_rows(key, make)


def name_of(files: Sequence[Path]) -> str:
    """Returns what a message calls some files."""
    return str(files[0]) if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"


@contextmanager
def named(what: str) -> Iterator[None]:
    """Turns an error of `datasets` into one sentence: what could not be read, and why."""
    try:
        yield
    except (DatasetsError, pa.ArrowException, ValueError, OSError) as error:
        cause = error.__cause__ or error
        if str(cause).startswith("line "):  # our own error, which says where
            raise cause from None
        reason = " ".join(str(cause).split())
        reason = "there is nothing in it" if "corresponds to no data" in reason else reason
        raise (FileNotFoundError if isinstance(error, OSError) else ValueError)(f"{what}: {reason}") from error


def check_json_lines(path: Path) -> None:
    """Refuses a file whose lines are not JSON objects in UTF-8; the message names the file and the line."""
    objects = 0
    for number, line in enumerate(read_lines(path, newline="\n"), start=1):
        try:
            row = json.loads(line.strip() or "{}")
            json.dumps(row, ensure_ascii=False).encode()  # fails for an escaped half of a character
        except (ValueError, RecursionError) as error:
            raise ValueError(f"line {number} of {path} is not JSON in UTF-8: {error}") from error
        if not isinstance(row, dict):
            raise ValueError(f"line {number} of {path} is no JSON object: {line[:60].strip()}")
        if not isinstance(row.get("sentences", []), list):
            raise ValueError(f"line {number} of {path} has 'sentences' that are no list: {line[:60].strip()}")
        objects += bool(line.strip())
    if not objects:
        raise ValueError(f"{path} is empty")


def load_cells(files: Sequence[Path], key: str) -> Dataset:
    """Reads .csv or .tsv files, unless that was done before; the rows stay in a memory-mapped file."""
    features = Features({name: Value("string") for name in column_names(files)})
    if empty := [file for file in files if next(cell_rows([file]), None) is None]:
        raise ValueError(f"{empty[0]} has no rows")
    rows = {"files": tuple(map(str, files))}

    def make(folder: Path) -> Dataset:
        with named(f"{name_of(files)} cannot be read"):
            return Dataset.from_generator(cell_rows, features, cache_dir=str(folder), gen_kwargs=rows)

    return kept_rows(key, make)


def cell_rows(files: Sequence[str | Path]) -> Iterator[dict[str, str]]:
    """Yields the rows of .csv or .tsv files."""
    for file in files:
        lines = all_cells(Path(file))
        names = next(lines)
        for cells in lines:
            yield dict(zip(names, cells, strict=True))


def column_names(files: Sequence[Path]) -> list[str]:
    """Returns the names of the columns of some files; refuses files that differ in them."""
    names = next(all_cells(files[0]))
    if other := [file for file in files if next(all_cells(file)) != names]:
        raise ValueError(f"{other[0]} has other columns than {files[0]}, which has {', '.join(names)}")
    return names


def all_cells(path: Path) -> Iterator[list[str]]:
    """Yields the names of the columns and then the cells of each row, all as text: "007" stays "007"."""
    csv.field_size_limit(2**31 - 1)  # for one cell; the default is some 130,000 characters
    lines = csv.reader(read_lines(path, newline=""), strict=True, **DIALECTS[path.suffix.lower()])
    try:
        first = next(lines, None)
        if first is None:
            raise ValueError(f"{path} is empty")
        if not first:
            raise ValueError(f"the first line of {path} is blank; it should name the columns")
        names = [name or f"column {place}" for place, name in enumerate(first, 1)]
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise ValueError(f"the first line of {path} has {twice[0][:40]!r} twice; it should name the columns")
        yield names
        blank = [[""]] if len(first) == 1 else []  # in a single column, a row without text
        for cells in lines:
            if len(cells) == len(first):
                yield cells
            elif cells:
                raise ValueError(f"line {lines.line_num} of {path} has {len(cells)} cells, its first {len(first)}")
            else:
                yield from blank
    except csv.Error as error:  # a stray quote would swallow rows
        raise ValueError(f"line {lines.line_num} of {path} cannot be split into cells: {error}") from error


def stratified_split(classes: np.ndarray, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Splits rows at random into those to keep and those to hold out, a share of each of the classes (N,).

    A class of few rows stays whole; scikit-learn's `train_test_split` refuses to stratify if a class has a single
    row, or if fewer rows are held out than there are classes.
    """
    if len(classes) < 2:
        raise ValueError(f"there is nothing to hold out of {len(classes)} row: give a --validation-file")
    order = np.random.default_rng(seed).permutation(len(classes))
    ends = np.cumsum(np.unique(classes, return_counts=True)[1])
    groups = np.split(order[np.argsort(classes[order], kind="stable")], ends[:-1])
    held = np.concatenate([group[: round(share * len(group))] for group in groups])
    if not len(held):  # each class is small
        held = max(groups, key=len)[:1]
    return np.setdiff1d(order, held), np.sort(held)
