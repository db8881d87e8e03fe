"""Lines in, sentences out: text becomes rows of sentences, each row with the number of its document."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import sentencex
from datasets import Dataset, Features, List, Value

PIECE = 100  # sentences in a row at most: a longer document continues in the next rows
STRETCH = 32  # sentences in a document of running text, since a book marks no documents
LONGEST = 1000  # sentences in a document of a stream, which must fit in memory: the rest is another document
NO_UTF8 = re.compile("[\ud800-\udfff]")  # what `surrogateescape` makes of other bytes
PARAGRAPH = 1000  # lines that are split into sentences at a time, at most
FEATURES = Features({"document": Value("int64"), "sentences": List(Value("string"))})


def text_rows(files: Sequence[str], language: str | None) -> Iterator[dict[str, Any]]:
    """Yields files of plain text as rows."""
    for document, sentences in enumerate(documents_in(files, language)):
        for piece in in_pieces(sentences, PIECE):
            yield {"document": document, "sentences": piece}


def streamed_rows(files: Sequence[str], language: str | None) -> Iterator[dict[str, Any]]:
    """Yields files of plain text as rows that are documents, of at most `LONGEST` sentences."""
    for sentences in documents_in(files, language):
        for piece in in_pieces(sentences, LONGEST):
            yield {"sentences": piece}


def documents_in(files: Iterable[str], language: str | None) -> Iterator[Iterator[str]]:
    """Yields each document's sentences; it ends with a blank line, a stretch of running text or a file."""
    for file in files:
        for _, document in groupby(numbered_sentences(read_lines(Path(file)), language), key=itemgetter(0)):
            yield (sentence for _, sentence in document)


def read_lines(path: Path, newline: str | None = None) -> Iterator[str]:
    """Yields the lines of a text, without a byte order mark; `newline` is as in `open`.

    Raises:
        ValueError: a line is not text in UTF-8; the message names the file and the line.
    """
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline=newline) as lines:
        for number, line in enumerate(lines, start=1):
            if "\0" in line:
                raise ValueError(f"line {number} of {path} has a NUL byte: if it is text in UTF-16, save it as UTF-8")
            if not line.isascii() and NO_UTF8.search(line):
                raise ValueError(f"line {number} of {path} is not in UTF-8: if it is text, save it as UTF-8")
            yield line


def numbered_sentences(lines: Iterable[str], language: str | None) -> Iterator[tuple[int, str]]:
    """Yields sentences with document numbers: of running text in a language, or else of lines in BERT's format."""
    number = 0
    if language:
        for number, sentence in enumerate(running_sentences(lines, language)):
            yield number // STRETCH, sentence
        return
    for line in lines:
        if sentence := line.strip():
            yield number, sentence
        else:
            number += 1


def running_sentences(lines: Iterable[str], language: str) -> Iterator[str]:
    """Yields the sentences of running text; blank lines end a paragraph, and with it a sentence."""
    for is_text, paragraph in groupby(lines, key=lambda line: bool(line.strip())):
        for piece in in_pieces(paragraph if is_text else (), PARAGRAPH):
            yield from filter(None, map(str.strip, sentencex.segment(language, " ".join(map(str.strip, piece)))))


def in_pieces(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Yields items in lists of at most `size`."""
    rest = iter(items)
    return iter(lambda: list(islice(rest, size)), [])


def split_rows(texts: list[str], rows: list[int], language: str | None) -> dict[str, list[Any]]:
    """Splits each text, a document, into rows of sentences."""
    made: dict[str, list[Any]] = {"document": [], "sentences": []}
    for row, text in zip(rows, texts, strict=True):
        found = (sentence for _, sentence in numbered_sentences(text.splitlines(), language))
        for piece in in_pieces(found, PIECE):
            made["document"].append(row)
            made["sentences"].append(piece)
    return made


def single_rows(pieces: list[list[str]], rows: list[int], number: np.ndarray) -> dict[str, Any]:
    """Splits rows of sentences into rows of one; `number` is the number of each row's document."""
    sizes = [len(piece) for piece in pieces]
    return {"document": np.repeat(number[rows], sizes), "sentences": [[each] for piece in pieces for each in piece]}


def document_numbers(rows: Dataset) -> np.ndarray:
    """Returns the number of each row's document."""
    if "document" not in rows.column_names:
        return np.arange(len(rows))
    return np.asarray(rows.with_format("numpy")["document"][:])
