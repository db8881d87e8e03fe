"""A user's own text: whatever its format, it is loaded as rows of sentences, and a part is held out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
from datasets import Dataset, enable_progress_bars

from toybert.train.data.checks import check_column, check_texts, in_slices
from toybert.train.data.kept import kept_rows
from toybert.train.data.sentences import FEATURES, PIECE, document_numbers, single_rows, split_rows, text_rows
from toybert.train.data.source import ALL, DATASET, SPLITS, TEXT, Source, by_name
from toybert.train.data.tables import load_rows, load_splits, name_of, named

LARGE = 2**24  # bytes; reading more text than this shows a progress bar
HELD_OUT = 0.05  # of the documents, to validate on, if the text has no validation split
NAME_ONE = ": name one with --text-column"


@dataclass
class Text:
    """Holds the splits of a text, each a data set with a column of sentences, and says where validation comes from."""

    source: Source
    training: Dataset
    validation: Dataset
    test: Dataset | None
    held_out: str
    record: dict[str, list[str]] = field(default_factory=dict)  # the hashes of its files, by their names
    keys: Mapping[str, str] = field(default_factory=dict)  # cache keys of `train` and `validation`


def load_text(source: Source, *, seed: int, pairs: bool) -> Text:
    """Loads the text of a corpus; without a validation split, it holds out documents that the seed chooses.

    With `pairs`, both parts must have pairs of sentences.
    """
    if sum(file.stat().st_size for files in source.files.values() for file in files) > LARGE:
        enable_progress_bars()
    if source.kind == DATASET:
        splits = load_splits(source)
        if not source.files:  # on the Hub: take the local copies
            copies = [Path(file["filename"]) for rows in splits.values() for file in getattr(rows, "cache_files", ())]
            source = replace(source, files={ALL: copies})
        rows = {
            split: as_documents(some, f"{split} of {source.name}", source, source.key(split))
            for split, some in splits.items()
        }
    else:
        rows = {split: read_rows(source, split) for split in SPLITS if split in source.files}
    test = rows.pop("test", None)
    keys = {split: key for split in rows if (key := source.key(split))}
    if "validation" in rows:
        how = f"{len(np.unique(document_numbers(rows['validation']))):,} documents"
    else:
        rows["train"], rows["validation"], how = divide(rows["train"], source, seed, pairs)
        keys = {part: f"{keys['train']} {seed} {pairs} {part}" for part in rows if keys}
    return Text(source, rows["train"], rows["validation"], test, how, by_name(source.digests), keys)


def read_rows(source: Source, split: str) -> Dataset:
    """Reads a split of plain text or of a table as rows of sentences, unless that was done before."""
    files, key = source.files[split], source.key(split)
    if source.kind != TEXT:
        return as_documents(load_rows(files, key), name_of(files), source, key)
    # `datasets` would split a list of files into several calls, each of which would number documents from 0.
    how = {"files": tuple(map(str, files)), "language": source.language}

    def make(folder: Path) -> Dataset:
        with named(f"{source.name} cannot be read as text"):
            return Dataset.from_generator(text_rows, FEATURES, cache_dir=str(folder), gen_kwargs=how)

    return kept_rows(f"{key} rows", make)


def as_documents(rows: Dataset, where: str, source: Source, key: str | None = None) -> Dataset:
    """Turns rows of any columns into rows of sentences: the lines of a text, or what they are split into.

    With a `key`, which stands for all of these, what has to be computed is kept.
    """
    column = source.column_of(rows.column_names)
    check_column(column, rows.column_names, where, NAME_ONE)
    check_texts(rows[column], where)
    if not any(in_slices(rows[column])):
        raise ValueError(f"{where} has no text in its column {column!r}")
    if not hasattr(rows.features[column], "feature"):  # a column of text, not of lists
        return map_rows(rows, split_rows, column, key, language=source.language)
    if source.language:
        raise ValueError(f"the column {column!r} of {where} holds sentences already: leave out --split-sentences")
    return rows.select_columns(column).rename_columns({column: "sentences"})


def map_rows(rows: Dataset, function: Callable[..., Any], column: str, key: str | None, **how: Any) -> Dataset:
    """Maps a column to rows of sentences with a function of some values and their row numbers at a time."""
    common = {"input_columns": column, "remove_columns": rows.column_names, "features": FEATURES, "fn_kwargs": how}
    mapped = partial(rows.map, function, batched=True, batch_size=PIECE, with_indices=True, **common)
    if not key:
        return mapped()
    return kept_rows(f"{key} {function.__name__}", lambda folder: mapped(cache_file_name=str(folder / "rows.arrow")))


def divide(rows: Dataset, source: Source, seed: int, pairs: bool) -> tuple[Dataset, Dataset, str]:
    """Divides a text into a larger part to learn from and a smaller one to measure on; also says how.

    It holds out whole documents or, if there are too few, the end of each.
    """
    least = 2 if pairs else 1  # documents in each part, and sentences in a document
    number = document_numbers(rows)
    column = rows.with_format("arrow")[:]["sentences"].combine_chunks()
    is_blank = pc.equal(pc.utf8_trim_whitespace(column.flatten()), "").to_numpy(zero_copy_only=False)
    lengths = np.bincount(pc.list_parent_indices(column).to_numpy()[~is_blank], minlength=len(rows))
    documents, place = np.unique(number, return_inverse=True)
    candidates = documents[np.bincount(place, weights=lengths) >= least]
    if len(candidates) < 2 * least:
        rows = map_rows(rows, single_rows, "sentences", source.key("train"), number=number)
        chosen, how = choose_ends(document_numbers(rows), source, least)
    else:
        count = max(least, round(HELD_OUT * len(candidates)))
        chosen = np.isin(number, np.random.default_rng(seed).choice(candidates, count, replace=False))
        how = f"{count:,} of {len(documents):,} documents, chosen at random (seed {seed})"
    return rows.select(np.flatnonzero(~chosen)), rows.select(np.flatnonzero(chosen)), how


def choose_ends(number: np.ndarray, source: Source, least: int) -> tuple[np.ndarray, str]:
    """Chooses the last sentences of each document, given each sentence's document number."""
    _, first, size = np.unique(number, return_index=True, return_counts=True)
    held = np.where(size >= 2 * least, np.maximum(least, np.round(HELD_OUT * size)), 0).astype(int)
    if least == 2 and (held > 0).sum() < 2:
        lines = "put blank lines between documents, or give --split-sentences for running text,"
        raise ValueError(
            f"{source.name} has too few documents for next sentences, {(size > 1).sum()} of two or more sentences: "
            f"{'give more text' if source.language else lines} or --no-nsp"
        )
    if not held.any():
        raise ValueError(f"{source.name} is a single sentence: give at least two, so that one can be held out")
    how = f"the end of its {len(size)} document{'s' * (len(size) > 1)}, {held.sum():,} of {len(number):,} sentences"
    return np.arange(len(number)) >= np.repeat(first + size - held, size), how
