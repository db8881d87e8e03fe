"""Tables in, rows out: read by one reader each; what is wrong with a file is said in one sentence."""

import csv
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from datasets import Dataset, DatasetDict, load_dataset
from datasets.exceptions import DatasetsError

from toybert.train.data.checks import check_json_lines, check_texts, in_slices
from toybert.train.data.kept import kept
from toybert.train.data.sentences import in_pieces, read_lines
from toybert.train.data.source import CODE, DATASET, READERS, SPLITS, Source, digest, name_of, reader_of

CELLS = 1000  # rows of a .csv or .tsv that are Python objects at a time


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


def load_tables(source: Source) -> dict[str, Table]:
    """Loads the tables of a run by the names of their splits: at least `train`.

    Raises:
        OSError: there is no such file or data set.
        ValueError: a file cannot be read, or is empty, or there is nothing to train on.
    """
    files = {split: source.files[split] for split in SPLITS if split in source.files}
    given = {split: Table(load_rows(some, source.key(split)), name_of(some)) for split, some in files.items()}
    if source.kind != DATASET:
        return given
    splits = load_splits(source)
    tables = {split: Table(splits[split], f"the split {split} of {source.name}") for split in SPLITS if split in splits}
    return tables | given


def load_splits(source: Source) -> Mapping[str, Dataset]:
    """Loads what only `datasets` knows how to read: a data set's folder, or one of the Hub.

    Raises:
        OSError: there is no such data set.
        ValueError: it can't be read, or it has no split to train on.
    """
    try:
        splits = load_dataset(source.name, source.config)
    except (DatasetsError, ValueError, OSError) as error:
        kind = FileNotFoundError if isinstance(error, OSError) else ValueError
        raise kind(f"{source.name} could not be read: {one_line(error.__cause__ or error)}") from error
    if "train" not in splits:
        raise ValueError(f"{source.name} has no split 'train', it has {', '.join(map(str, splits))}")
    return splits


def load_file(path: str) -> Dataset:
    """Reads a table from a file, by the ending of its name."""
    if not reader_of(Path(path)):
        suffixes = list(READERS)
        raise ValueError(f"{path} is no table: its name should end in {', '.join(suffixes[:-1])} or {suffixes[-1]}")
    return load_rows([Path(path)])


def load_corpus(
    folder: str | Path, columns: Sequence[str], splits: Sequence[str] = ("train", "validation", "test")
) -> DatasetDict:
    """Loads the splits of a corpus from `folder/{train,validation,test}.jsonl`.

    Raises:
        FileNotFoundError: one of the files is missing.
        ValueError: one is empty, has a line that is no JSON object in UTF-8, lacks a column, or has no text in it.
    """
    files = {split: str(Path(folder) / f"{split}.jsonl") for split in splits}
    for path in files.values():
        check_json_lines(path)
    corpus = load_dataset("json", data_files=files)
    for split, rows in corpus.items():
        for column in columns:
            if column not in rows.column_names:
                raise ValueError(f"{files[split]} has no column {column!r}, it has {', '.join(rows.column_names)}")
            if column in ("text", "sentences"):
                check_texts(rows[column], files[split])
    return corpus


def load_rows(files: Sequence[Path], key: str | None = None) -> Dataset:
    """Reads the rows of some files of one kind.

    Args:
        key: stands for their contents; without one, they are hashed.

    Raises:
        FileNotFoundError: one is not there.
        ValueError: one is not as it should be.
    """
    if missing := [file for file in files if not file.is_file()]:
        raise FileNotFoundError(f"the file {missing[0]} does not exist")
    suffix = files[0].suffix.lower()
    if READERS[suffix] == "csv":
        return load_cells(files, key or "".join(digest(file) for file in files))
    for file in files:
        if suffix == ".jsonl":
            check_json_lines(str(file))
        elif suffix == ".json":
            for _ in read_lines(file):
                pass
    name, reader = name_of(files), READERS[suffix]
    try:
        return load_dataset(reader, data_files={"train": [str(file) for file in files]}, split="train")
    except (DatasetsError, ValueError, OSError) as error:
        reason = one_line(error.__cause__ or error)
        reason = "it has no rows" if "corresponds to no data" in reason else reason
        raise ValueError(f"{name} cannot be read as {reader}: {reason}") from error


def load_cells(files: Sequence[Path], key: str) -> Dataset:
    """Reads files of cells, unless that was done before; the rows stay in a file, mapped into memory."""
    how = repr([CODE, key, [dialect(file) for file in files]])

    def write(path: Path) -> None:
        schema = pa.schema([(name, pa.string()) for name in column_names(files)])
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
            for file in files:
                rows = 0
                for some in in_pieces(cells_of(file), CELLS):
                    columns = [pa.array(column, pa.string()) for column in zip(*some, strict=True)]
                    writer.write_batch(pa.record_batch(columns, schema=schema))
                    rows += len(some)
                if not rows:
                    raise ValueError(f"{file} has no rows")

    return kept(f"{hashlib.sha256(how.encode()).hexdigest()}.arrow", write, lambda path: Dataset.from_file(str(path)))


def cell_rows(files: list[str]) -> Iterator[dict[str, str]]:
    """Yields the rows of files of cells, for a stream."""
    for file in files:
        names = column_names([Path(file)])
        for cells in cells_of(Path(file)):
            yield dict(zip(names, cells, strict=True))


def column_names(files: Sequence[Path]) -> list[str]:
    """Returns the names in the first line of some files; one that is missing becomes its place.

    Raises:
        ValueError: two columns have one name, or two files have other columns; or see `all_cells`.
    """
    every = [[name or f"column {place}" for place, name in enumerate(next(all_cells(file)), 1)] for file in files]
    for file, names in zip(files, every, strict=True):
        if names != every[0]:
            raise ValueError(f"{file} has other columns than {files[0]}, which has {', '.join(every[0])}")
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"the first line of {file} has {twice[0][:40]!r} twice; it should name the columns")
    return every[0]


def cells_of(file: Path) -> Iterator[list[str]]:
    """Yields the rows of a file of cells, without its first line."""
    rows = all_cells(file)
    next(rows)
    return rows


def all_cells(path: Path) -> Iterator[list[str]]:
    """Yields the lines of a .csv or .tsv as cells, each as the text that stands there, "NA" and "007" too.

    Raises:
        ValueError: it is empty, is not in UTF-8, can't be split into cells, or has a line of more or fewer cells than
            the first.
    """
    csv.field_size_limit(2**31 - 1)  # of one cell; by itself some 130,000 characters
    lines = csv.reader(read_lines(path, newline=""), strict=True, **dialect(path))
    try:
        first = next(lines, None)
        if not first:
            is_blank = "the first line of {} is blank; it should name the columns"
            raise ValueError((is_blank if first is not None else "{} is empty").format(path))
        yield first
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


def dialect(path: Path) -> dict[str, Any]:
    """Returns what the reader has to be told of a file, by the end of its name.

    In a .csv, quotes hold a cell together; in a .tsv they are text like any other, as in nearly all corpora of that
    form: read otherwise, one stray quote swallows rows.
    """
    if path.suffix.lower() == ".tsv":
        return {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    return {"delimiter": ",", "quoting": csv.QUOTE_MINIMAL}


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


def one_line(error: BaseException) -> str:
    """Returns an error's message in one line."""
    return " ".join(str(error).split())
