"""Text of one's own: whatever holds it, it is loaded as rows of sentences, and a part of it is held out."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
from datasets import Dataset, enable_progress_bars, load_dataset
from datasets.exceptions import DatasetsError

from toybert.train.cli import option
from toybert.train.data.checks import check_texts, in_slices, load_corpus
from toybert.train.data.files import load_rows, one_line, reader_of, tables_in, texts_in
from toybert.train.data.sentences import FEATURES, PIECE, document_numbers, read_text, split_rows

LARGE = 2**24  # bytes of text that take long enough to read for one to want to see how far it is
HELD_OUT = 0.05  # of the documents, to measure on, where the text has no validation split


@dataclass(kw_only=True)
class TextOptions:
    """Holds where the text is, and how to read it."""

    corpus: str = option("A text file, a table, a folder of either, or a data set's id on the Hub.")
    corpus_config: str | None = option("The configuration of that data set, where it has several.", None)
    text_column: str | None = option("A table's column of text or sentences (default: sentences, or else text).", None)
    split_sentences: bool = option("The text is running text, and not a sentence a line.", False)
    language: str = option("Of running text, such as en.", "en")

    def text_files(self) -> dict[str, list[Path]]:
        """Gives the files of plain text that `corpus` names, by splits; none where it is a table or a data set.

        Raises:
            ValueError: it is a folder of both, or one text's name tells its split and another's does not.
        """
        path = Path(self.corpus)
        if not path.is_dir():
            return {"train": [path]} if path.is_file() and not reader_of(path) else {}
        texts = {} if self.has_splits() else texts_in(path)
        tables = sorted(file for file in path.rglob("*") if reader_of(file))
        if texts and tables:
            text = texts["train"][0]
            raise ValueError(f"{path} has texts such as {text.name} and tables such as {tables[0].name}: name one")
        return texts

    def column_of(self, names: Collection[str]) -> str:
        """Gives the column of a table that should hold the text."""
        return self.text_column or ("sentences" if "sentences" in names else "text")

    def has_splits(self) -> bool:
        """Tells whether `corpus` is a folder such as the repository's own, of train.jsonl and others."""
        path = Path(self.corpus)
        return path.is_dir() and ((path / "train.jsonl").is_file() or not any(path.iterdir()))

    def files(self) -> list[Path]:
        """Gives the files that hold the text; of the Hub's, those of the local copy."""
        path = Path(self.corpus)
        if self.has_splits():
            return [file for split in ("train", "validation") if (file := path / f"{split}.jsonl").is_file()]
        if path.is_file():
            return [path]
        if path.is_dir() and (known := self.text_files() or tables_in(path)):
            return [file for some in known.values() for file in some]
        if path.exists():  # `datasets` knows which of them it reads
            return sorted(file for file in path.rglob("*") if file.is_file())
        return [Path(file["filename"]) for rows in load_splits(self).values() for file in rows.cache_files]

    def unread(self) -> list[str]:
        """Gives the names of the files in the folder `corpus` that hold none of the text, for all that is known."""
        path = Path(self.corpus)
        if not path.is_dir():
            return []
        about = ("readme", "license", "licence", "dataset_infos")
        known = {*self.files(), *([path / "test.jsonl"] if self.has_splits() else [])}
        others = [file for file in sorted(path.rglob("*")) if file.is_file() and file not in known]
        return [
            str(file.relative_to(path))
            for file in others
            if file.stem.lower() not in about and not file.name.startswith(".")
        ]


@dataclass
class Text:
    """Holds the splits of a text, each a data set with a column of sentences, and says where validation comes from."""

    training: Dataset
    validation: Dataset
    test: Dataset | None
    held_out: str


def load_text(options: TextOptions, *, seed: int, pairs: bool) -> Text:
    """Loads the text that the options name, and holds a part of it out if it has no validation split.

    Args:
        seed: chooses the documents that are held out.
        pairs: whether there must be pairs of sentences in both parts.

    Raises:
        FileNotFoundError: there is no such file or data set.
        ValueError: it has no text, or something that is no text in UTF-8, or not the column, or too few documents.
    """
    path = Path(options.corpus)
    if sum(file.stat().st_size for file in [path, *path.rglob("*")] if file.is_file()) > LARGE:
        enable_progress_bars()
    if texts := options.text_files():
        said = (options.split_sentences, options.language)
        documents = {split: read_text(files, options.corpus, *said) for split, files in texts.items()}
    else:
        splits = load_splits(options)
        if "train" not in splits:
            raise ValueError(f"{options.corpus} has no split 'train', it has {', '.join(map(str, splits))}")
        known = [split for split in ("train", "validation", "test") if split in splits]
        of = "" if Path(options.corpus).is_file() else "{} of "
        documents = {split: as_documents(splits[split], of.format(split) + options.corpus, options) for split in known}
    if "validation" in documents:
        count = len(np.unique(document_numbers(documents["validation"])))
        return Text(documents["train"], documents["validation"], documents.get("test"), f"{count:,} documents")
    training, validation, how = hold_out(documents["train"], options, seed, pairs)
    return Text(training, validation, documents.get("test"), how)


def load_splits(options: TextOptions) -> dict[str, Dataset]:
    """Loads tables, or whatever else `datasets.load_dataset` reads, as rows by their splits."""
    path, name = Path(options.corpus), options.corpus
    if options.has_splits():
        splits = [split for split in ("validation", "test") if (path / f"{split}.jsonl").is_file()]
        return load_corpus(path, columns=[], splits=["train", *splits])
    if not path.exists() and (
        name.count("/") > 1 or name[:1] in ("/", ".", "~") or path.suffix == ".txt" or reader_of(path)
    ):
        raise FileNotFoundError(f"the corpus {name} does not exist")
    if files := {"train": [path]} if path.is_file() else tables_in(path) if path.is_dir() else {}:
        return {split: load_rows(some) for split, some in files.items()}
    try:
        return load_dataset(name, options.corpus_config)
    except (DatasetsError, ValueError, OSError) as error:
        kind = FileNotFoundError if isinstance(error, OSError) else ValueError
        raise kind(f"{name} could not be read: {one_line(error.__cause__ or error)}") from error


def as_documents(rows: Dataset, where: str, options: TextOptions) -> Dataset:
    """Gives rows of whatever columns as rows of sentences: the lines of a text, or what they are split into.

    Raises:
        ValueError: there is no row, not the column, or something else than text in it.
    """
    column = options.column_of(rows.column_names)
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
            fn_kwargs={"language": options.language if options.split_sentences else None},
        )
    if options.split_sentences:
        raise ValueError(f"the column {column!r} of {where} holds sentences already: leave out --split-sentences")
    rows = rows.select_columns(column)
    return rows if column == "sentences" else rows.rename_column(column, "sentences")


def check_column(column: str, names: Collection[str], where: str) -> None:
    """Refuses a column that is none of a table's.

    Raises:
        ValueError: so it is; the message lists those that there are.
    """
    if column not in names:
        raise ValueError(f"{where} has no column {column!r}, it has {', '.join(names)}: name one with --text-column")


def hold_out(rows: Dataset, options: TextOptions, seed: int, pairs: bool) -> tuple[Dataset, Dataset, str]:
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
        return hold_out_ends(rows, number, options, least)
    count = max(least, round(HELD_OUT * len(candidates)))
    chosen = np.isin(number, np.random.default_rng(seed).choice(candidates, count, replace=False))
    how = f"{count:,} of {len(documents):,} documents, chosen at random (seed {seed})"
    return rows.select(np.flatnonzero(~chosen)), rows.select(np.flatnonzero(chosen)), how


def hold_out_ends(rows: Dataset, number: np.ndarray, options: TextOptions, least: int) -> tuple[Dataset, Dataset, str]:
    """Divides each document of a text that has few of them, for `hold_out`."""
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
            f"{options.corpus} has too few documents for next sentences, {(size > 1).sum()} of two or more sentences: "
            f"{'give more text' if options.split_sentences else lines} or --no-nsp"
        )
    if not held.any():
        raise ValueError(f"{options.corpus} is a single sentence: there must be two at least, one to measure on")
    chosen = np.arange(len(rows)) >= np.repeat(first + size - held, size)
    documents = "one document" if len(size) == 1 else f"{len(size)} documents"
    how = f"the end of its {documents}, {held.sum():,} of {len(rows):,} sentences"
    return rows.select(np.flatnonzero(~chosen)), rows.select(np.flatnonzero(chosen)), how


def single_rows(pieces: list[list[str]], rows: list[int], number: np.ndarray) -> dict[str, list[Any]]:
    """Gives rows of sentences as rows of one."""
    pairs = [(int(number[row]), [sentence]) for row, piece in zip(rows, pieces, strict=True) for sentence in piece]
    return {"document": [document for document, _ in pairs], "sentences": [single for _, single in pairs]}
