"""Lines in, sentences out: text becomes rows of sentences, each row with the number of its document."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import sentencex
from datasets import Dataset, Features, List, Value
from datasets.exceptions import DatasetsError

PIECE = 100  # sentences a row at most: a document of more goes on in the next rows
STRETCH = 32  # sentences a document of running text, since a book has none
LONGEST = 1000  # sentences a document of a stream, which has to be there as a whole: the rest is another one
PARAGRAPH = 1000  # lines at most that are split into sentences at a time
FEATURES = Features({"document": Value("int64"), "sentences": List(Value("string"))})


def read_text(files: Sequence[Path], name: str, split_sentences: bool, language: str) -> Dataset:
    """Reads files of plain text, unless that was done before; where `datasets` keeps what it makes."""
    digest = hashlib.sha256(Path(__file__).read_bytes())  # the code below is part of it
    for path in files:
        digest.update(f"{path.name} {path.stat().st_size}".encode())
        with path.open("rb") as file:
            while block := file.read(2**20):
                digest.update(block)
    how: dict[str, Any] = {"name": name, "split_sentences": split_sentences, "language": language}
    # A list of files would be taken one by one, in calls that know nothing of each other's documents.
    how |= {"files": tuple(map(str, files)), "key": digest.hexdigest()}
    try:
        return Dataset.from_generator(text_rows, FEATURES, gen_kwargs=how)
    except DatasetsError as error:
        raise (error.__cause__ or error) from None  # what `text_rows` has to say


def text_rows(
    name: str, files: tuple[str, ...], split_sentences: bool, language: str, key: str
) -> Iterator[dict[str, Any]]:
    """Gives files of plain text as rows, each with the number of its document.

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


def streamed_rows(files: list[str], split_sentences: bool, language: str) -> Iterator[dict[str, Any]]:
    """Gives files of plain text as rows that are documents, of at most `LONGEST` sentences."""
    for sentences in documents_in(files, split_sentences, language):
        for piece in in_pieces(sentences, LONGEST):
            yield {"sentences": piece}


def documents_in(files: Iterable[str], split_sentences: bool, language: str) -> Iterator[Iterator[str]]:
    """Gives the sentences of each document; a blank line, a stretch of running text and a file end one."""
    for file in files:
        lines = read_lines(Path(file))
        sentences = running_sentences(lines, language) if split_sentences else single_sentences(lines)
        for _, document in groupby(sentences, key=itemgetter(0)):
            yield (sentence for _, sentence in document)


def read_lines(path: Path) -> Iterator[str]:
    """Gives the lines of a text, whatever ends them, and with or without a byte order mark.

    Raises:
        ValueError: a line is not text in UTF-8; the message names the file and the line.
    """
    with path.open(encoding="utf-8-sig", errors="surrogateescape") as lines:
        for number, line in enumerate(lines, start=1):
            if "\0" in line:
                raise ValueError(f"line {number} of {path} has a NUL byte: it is no text, or UTF-16; save it as UTF-8")
            if re.search("[\ud800-\udfff]", line):
                raise ValueError(f"line {number} of {path} is not in UTF-8: if it is text, save it as UTF-8")
            yield line


def single_sentences(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Gives the sentences of text in BERT's format, one a line, each with a number that a blank line raises."""
    number = 0
    for line in lines:
        if sentence := line.strip():
            yield number, sentence
        else:
            number += 1


def running_sentences(lines: Iterable[str], language: str) -> Iterator[tuple[int, str]]:
    """Gives the sentences of running text, each with the number of its stretch; blank lines end a paragraph."""
    paragraphs = (paragraph for real, paragraph in groupby(lines, key=lambda line: bool(line.strip())) if real)
    count = 0
    for paragraph in paragraphs:
        for piece in in_pieces(paragraph, PARAGRAPH):
            for sentence in split_paragraph(" ".join(line.strip() for line in piece), language):
                yield count // STRETCH, sentence
                count += 1


def split_paragraph(paragraph: str, language: str) -> Iterator[str]:
    """Gives the sentences of a paragraph."""
    return (sentence for part in sentencex.segment(language, paragraph) if (sentence := part.strip()))


def in_pieces(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Gives items in lists of at most `size`."""
    rest = iter(items)
    return iter(lambda: list(islice(rest, size)), [])


def split_rows(texts: list[str], rows: list[int], language: str | None) -> dict[str, list[Any]]:
    """Gives each text, a document, as rows of sentences: those of a language, or else its lines."""
    made: dict[str, list[Any]] = {"document": [], "sentences": []}
    for row, text in zip(rows, texts, strict=True):
        lines = text.splitlines()
        found = running_sentences(lines, language) if language else single_sentences(lines)
        for piece in in_pieces((sentence for _, sentence in found), PIECE):
            made["document"].append(row)
            made["sentences"].append(piece)
    return made


def document_numbers(rows: Dataset) -> np.ndarray:
    """Gives the number of each row's document."""
    if "document" not in rows.column_names:
        return np.arange(len(rows))
    return np.asarray(rows.with_format("numpy")["document"][:])
