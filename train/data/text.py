"""Text of one's own: whatever holds it, it is loaded as rows of sentences, and a part of it is held out."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
from datasets import Dataset, enable_progress_bars
from datasets.exceptions import DatasetsError

from toybert.train.data.checks import check_column, check_texts, in_slices
from toybert.train.data.sentences import FEATURES, PIECE, document_numbers, documents_in, in_pieces, split_rows
from toybert.train.data.source import ALL, DATASET, SPLITS, TEXT, Source
from toybert.train.data.tables import load_rows, load_splits

LARGE = 2**24  # bytes of text that take long enough to read for one to want to see how far it is
HELD_OUT = 0.05  # of the documents, to measure on, where the text has no validation split


@dataclass
class Text:
    """Holds the splits of a text, each a data set with a column of sentences, and says where validation comes from."""

    source: Source
    training: Dataset
    validation: Dataset
    test: Dataset | None
    held_out: str
    record: dict[str, list[str]] = field(default_factory=dict)  # the hashes of its files, by their names
    keys: Mapping[str, str] = field(default_factory=dict)  # stand for what `training` and `validation` hold


def load_text(source: Source, *, seed: int, pairs: bool) -> Text:
    """Loads the text of a corpus, and holds a part of it out if it has no validation split.

    Args:
        seed: chooses the documents that are held out.
        pairs: whether there must be pairs of sentences in both parts.

    Raises:
        FileNotFoundError: there is no such data set.
        ValueError: it has no text, or something that is no text in UTF-8, or not the column, or too few documents.
    """
    if sum(file.stat().st_size for files in source.files.values() for file in files) > LARGE:
        enable_progress_bars()
    if source.kind == DATASET:
        splits = load_splits(source)
        if not source.files:  # on the Hub, of which there are copies here
            copies = [Path(file["filename"]) for rows in splits.values() for file in getattr(rows, "cache_files", ())]
            source = replace(source, files={ALL: copies})
        rows = {split: as_documents(splits[split], split, source) for split in SPLITS if split in splits}
    else:
        rows = {split: read_rows(source, split) for split in SPLITS if split in source.files}
    keys = {split: key for split in rows if (key := source.key(split))}
    if "validation" in rows:
        count = len(np.unique(document_numbers(rows["validation"])))
        training, validation, how = rows["train"], rows["validation"], f"{count:,} documents"
        names = {"train": "training", "validation": "validation"}
        keys = {names[split]: key for split, key in keys.items() if split in names}
    else:
        training, validation, how = divide(rows["train"], source, seed, pairs)
        keys = {part: f"{keys['train']} {seed} {pairs} {part}" for part in ("training", "validation") if keys}
    return Text(source, training, validation, rows.get("test"), how, source.record(), keys)


def read_rows(source: Source, split: str) -> Dataset:
    """Reads a split of plain text or of a table as rows of sentences, unless that was done before."""
    files = source.files[split]
    if source.kind != TEXT:
        return as_documents(load_rows(files, source.key(split)), split, source)
    # A list of files would be taken one by one, in calls that know nothing of each other's documents.
    how: dict[str, Any] = {"files": tuple(map(str, files)), "name": source.name, "key": source.key(split)}
    how |= {"split_sentences": source.split_sentences, "language": source.language}
    try:
        return Dataset.from_generator(text_rows, FEATURES, gen_kwargs=how)
    except DatasetsError as error:
        raise (error.__cause__ or error) from None  # what `text_rows` has to say


def text_rows(
    files: tuple[str, ...], name: str, key: str, split_sentences: bool, language: str
) -> Iterator[dict[str, Any]]:
    """Yields files of plain text as rows, each with the number of its document.

    Args:
        key: of the files' contents; `datasets` remembers rows by the arguments that they were made from.

    Raises:
        ValueError: there is no text in them.
    """
    document = -1
    for document, sentences in enumerate(documents_in(files, split_sentences, language)):
        for piece in in_pieces(sentences, PIECE):
            yield {"document": document, "sentences": piece}
    if document < 0:
        raise ValueError(f"{name} has no text in it")


def as_documents(rows: Dataset, split: str, source: Source) -> Dataset:
    """Turns rows of whatever columns into rows of sentences: the lines of a text, or what they are split into.

    Raises:
        ValueError: there is no row, not the column, or something else than text in it.
    """
    column, where = source.column_of(rows.column_names), source.called(split)
    check_column(column, rows.column_names, where)
    check_texts(rows[column], where)
    if not any(in_slices(rows[column])):
        raise ValueError(f"{where} has no text in its column {column!r}")
    if not hasattr(rows.features[column], "feature"):  # a column of text, not of lists
        return rows.map(
            split_rows,
            batched=True,
            batch_size=PIECE,
            with_indices=True,
            input_columns=column,
            remove_columns=rows.column_names,
            features=FEATURES,
            fn_kwargs={"language": source.language if source.split_sentences else None},
        )
    if source.split_sentences:
        raise ValueError(f"the column {column!r} of {where} holds sentences already: leave out --split-sentences")
    rows = rows.select_columns(column)
    return rows if column == "sentences" else rows.rename_column(column, "sentences")


def divide(rows: Dataset, source: Source, seed: int, pairs: bool) -> tuple[Dataset, Dataset, str]:
    """Divides a text into a larger part to learn from and a smaller one to measure on, and says how it did.

    Some documents are held out as a whole or, where there are not enough of them, the end of each.

    Raises:
        ValueError: there are too few documents or sentences.
    """
    least = 2 if pairs else 1  # documents in either part, and sentences in a document
    number = document_numbers(rows)
    lengths = pc.list_value_length(rows.with_format("arrow")[:]["sentences"]).to_numpy()
    documents, place = np.unique(number, return_inverse=True)
    candidates = documents[np.bincount(place, weights=lengths) >= least]
    if len(candidates) < 2 * least:
        return divide_documents(rows, number, source, least)
    count = max(least, round(HELD_OUT * len(candidates)))
    chosen = np.isin(number, np.random.default_rng(seed).choice(candidates, count, replace=False))
    how = f"{count:,} of {len(documents):,} documents, chosen at random (seed {seed})"
    return rows.select(np.flatnonzero(~chosen)), rows.select(np.flatnonzero(chosen)), how


def divide_documents(rows: Dataset, number: np.ndarray, source: Source, least: int) -> tuple[Dataset, Dataset, str]:
    """Divides each document of a text that has few of them, for `divide`."""
    rows = rows.map(
        single_rows,
        batched=True,
        with_indices=True,
        input_columns="sentences",
        remove_columns=rows.column_names,
        features=FEATURES,
        fn_kwargs={"number": number},
    )
    _, first, size = np.unique(document_numbers(rows), return_index=True, return_counts=True)
    held = np.where(size >= 2 * least, np.maximum(least, np.round(HELD_OUT * size)), 0).astype(int)
    if least == 2 and (held > 0).sum() < 2:
        lines = "put blank lines between documents, or give --split-sentences for running text,"
        raise ValueError(
            f"{source.name} has too few documents for next sentences, {(size > 1).sum()} of two or more sentences: "
            f"{'give more text' if source.split_sentences else lines} or --no-nsp"
        )
    if not held.any():
        raise ValueError(f"{source.name} is a single sentence: there must be two at least, one to measure on")
    chosen = np.arange(len(rows)) >= np.repeat(first + size - held, size)
    documents = "one document" if len(size) == 1 else f"{len(size)} documents"
    how = f"the end of its {documents}, {held.sum():,} of {len(rows):,} sentences"
    return rows.select(np.flatnonzero(~chosen)), rows.select(np.flatnonzero(chosen)), how


def single_rows(pieces: list[list[str]], rows: list[int], number: np.ndarray) -> dict[str, list[Any]]:
    """Turns rows of sentences into rows of one."""
    pairs = [(int(number[row]), [sentence]) for row, piece in zip(rows, pieces, strict=True) for sentence in piece]
    return {"document": [document for document, _ in pairs], "sentences": [single for _, single in pairs]}
