"""Lines in, sentences out: text becomes rows of sentences, each row with the number of its document."""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import sentencex
from datasets import Dataset, Features, List, Value

PIECE = 100  # sentences a row at most: a document of more goes on in the next rows
STRETCH = 32  # sentences a document of running text, since a book has none
LONGEST = 1000  # sentences a document of a stream, which has to be there as a whole: the rest is another one
NO_UTF8 = re.compile("[\ud800-\udfff]")  # what `surrogateescape` makes of other bytes
PARAGRAPH = 1000  # lines at most that are split into sentences at a time
FEATURES = Features({"document": Value("int64"), "sentences": List(Value("string"))})


def streamed_rows(files: list[str], split_sentences: bool, language: str) -> Iterator[dict[str, Any]]:
    """Yields files of plain text as rows that are documents, of at most `LONGEST` sentences."""
    for sentences in documents_in(files, split_sentences, language):
        for piece in in_pieces(sentences, LONGEST):
            yield {"sentences": piece}


def documents_in(files: Iterable[str], split_sentences: bool, language: str) -> Iterator[Iterator[str]]:
    """Yields the sentences of each document; a blank line, a stretch of running text and a file end one."""
    for file in files:
        lines = read_lines(Path(file))
        sentences = running_sentences(lines, language) if split_sentences else single_sentences(lines)
        for _, document in groupby(sentences, key=itemgetter(0)):
            yield (sentence for _, sentence in document)


def read_lines(path: Path, newline: str | None = None) -> Iterator[str]:
    """Yields the lines of a text, whatever ends them, and with or without a byte order mark.

    Args:
        newline: as `open` takes it.

    Raises:
        ValueError: a line is not text in UTF-8; the message names the file and the line.
    """
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline=newline) as lines:
        for number, line in enumerate(lines, start=1):
            if "\0" in line:
                raise ValueError(f"line {number} of {path} has a NUL byte: it is no text, or UTF-16; save it as UTF-8")
            if not line.isascii() and NO_UTF8.search(line):
                raise ValueError(f"line {number} of {path} is not in UTF-8: if it is text, save it as UTF-8")
            yield line


def single_sentences(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yields the sentences of text in BERT's format, one a line, each with a number that a blank line raises."""
    number = 0
    for line in lines:
        if sentence := line.strip():
            yield number, sentence
        else:
            number += 1


def running_sentences(lines: Iterable[str], language: str) -> Iterator[tuple[int, str]]:
    """Yields the sentences of running text, each with the number of its stretch; blank lines end a paragraph."""
    paragraphs = (paragraph for real, paragraph in groupby(lines, key=lambda line: bool(line.strip())) if real)
    count = 0
    for paragraph in paragraphs:
        for piece in in_pieces(paragraph, PARAGRAPH):
            for sentence in split_paragraph(" ".join(line.strip() for line in piece), language):
                yield count // STRETCH, sentence
                count += 1


def split_paragraph(paragraph: str, language: str) -> Iterator[str]:
    """Yields the sentences of a paragraph."""
    return (sentence for part in sentencex.segment(language, paragraph) if (sentence := part.strip()))


def in_pieces(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Yields items in lists of at most `size`."""
    rest = iter(items)
    return iter(lambda: list(islice(rest, size)), [])


def split_rows(texts: list[str], rows: list[int], language: str | None) -> dict[str, list[Any]]:
    """Returns each text, a document, as rows of sentences: those of a language, or else its lines."""
    made: dict[str, list[Any]] = {"document": [], "sentences": []}
    for row, text in zip(rows, texts, strict=True):
        lines = text.splitlines()
        found = running_sentences(lines, language) if language else single_sentences(lines)
        for piece in in_pieces((sentence for _, sentence in found), PIECE):
            made["document"].append(row)
            made["sentences"].append(piece)
    return made


def document_numbers(rows: Dataset) -> np.ndarray:
    """Returns the number of each row's document."""
    if "document" not in rows.column_names:
        return np.arange(len(rows))
    return np.asarray(rows.with_format("numpy")["document"][:])
