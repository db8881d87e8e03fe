"""Text larger than the disk: read as it is needed, by each process its own part, a window of documents at a time."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
from accelerate import Accelerator
from accelerate.utils import gather_object, send_to_device
from datasets.distributed import split_dataset_by_node
from datasets.exceptions import DatasetsError

from toybert.train.data.batches import Batches, LengthBatchSampler
from toybert.train.data.checks import check_texts, is_text
from toybert.train.data.datasets import Batch
from toybert.train.data.files import one_line, reader_of, table_source, tables_in
from toybert.train.data.sentences import streamed_rows
from toybert.train.data.text import Text, TextOptions, as_documents, check_column

WINDOW = 2000  # documents that are there at a time, to shuffle and to make pairs among
HEAD = 10_000  # documents at the beginning, from which the vocabulary is learnt and those to measure on are taken
HELD_OUT = 20  # one document in so many is never learnt from


def open_stream(options: TextOptions) -> datasets.IterableDataset:
    """Opens what the options name without reading it: text files, tables, or a data set of the Hub.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: there are tables of several kinds, or their first rows are not as they should be.
    """
    path = Path(options.corpus)
    source: dict[str, Any]
    if texts := options.text_files():
        source = {"split_sentences": options.split_sentences, "language": options.language}
        source["files"] = [str(file) for file in texts["train"]]  # a list is what processes share out
        return datasets.IterableDataset.from_generator(streamed_rows, gen_kwargs=source)
    if tables := tables_in(path).get("train") if path.is_dir() else [path] if reader_of(path) else None:
        source, _ = table_source(tables, most=HEAD)
    else:
        source = {"path": options.corpus, "name": options.corpus_config}
    return datasets.load_dataset(**source, split="train", streaming=True)


def is_held_out(row: dict[str, Any], options: TextOptions) -> bool:
    """Tells whether a document is one to measure on, by what it says: so its copies are too, in every process."""
    text = row.get(options.column_of(row))
    said = hashlib.blake2b(json.dumps(text, default=str).encode(), digest_size=8).digest()
    return int.from_bytes(said, "big") % HELD_OUT == 0


def head_of(stream: datasets.IterableDataset, options: TextOptions) -> Text:
    """Gives the first documents of a stream, those to learn the vocabulary from apart from those to measure on.

    Raises:
        ValueError: there are too few.
    """
    rows = list(rows_of(stream.take(HEAD), options))
    if rows:
        column = options.column_of(rows[0])
        check_column(column, rows[0], options.corpus)
        check_texts([row.get(column) for row in rows], options.corpus)
    held_out, learnt = ([row for row in rows if is_held_out(row, options) == held] for held in (True, False))
    if len(held_out) < 2 or len(learnt) < 2:
        documents = f"{len(rows)} document{'s' * (len(rows) != 1)}"
        raise ValueError(f"{options.corpus} has {documents}: too few to stream, leave out --streaming")
    how = f"one document in {HELD_OUT}, here {len(held_out):,} of the first {len(rows):,}"
    return Text(as_rows(learnt, options), as_rows(held_out, options), None, how)


def rows_of(stream: datasets.IterableDataset, options: TextOptions) -> Iterator[dict[str, Any]]:
    """Yields the rows of a stream.

    Raises:
        ValueError: one cannot be read; of files of text, the message names the file and the line.
    """
    try:
        yield from stream
    except (DatasetsError, pa.ArrowException, ValueError, OSError) as error:
        if options.text_files():
            raise
        raise ValueError(f"{options.corpus} could not be read: {one_line(error.__cause__ or error)}") from error


def has_text(row: dict[str, Any], options: TextOptions) -> bool:
    """Tells whether there is text in a row."""
    return is_text(row.get(options.column_of(row)))


def as_rows(documents: list[dict[str, Any]], options: TextOptions) -> datasets.Dataset:
    """Gives some documents as rows of sentences, as those of a text that is there as a whole."""
    rows = datasets.Dataset.from_list(documents)
    return rows if options.text_files() else as_documents(rows, options.corpus, options)


class StreamedBatches(Batches):
    """Makes batches of this process's part of a stream, over and over, a window of documents at a time.

    The files are shuffled in each pass; within a window, batches are those of a dataset: shuffled rows of similar
    length, false sentences from other documents. A checkpoint keeps where each process's window begins, and a resumed
    run reads from there, not from the beginning.
    """

    def __init__(
        self,
        stream: datasets.IterableDataset,
        make: Callable[[list[dict[str, Any]]], Any],
        options: TextOptions,
        batch_size: int,
        steps_an_epoch: int,
        accelerator: Accelerator,
        seed: int,
    ):
        """Takes this process's part of the stream.

        Args:
            make: makes a dataset, as `DatasetBatches` takes it, of a window's documents.
            options: tell where a document's text is; without any, it is passed over and counted.
        """
        self.stream = split_dataset_by_node(stream, accelerator.process_index, accelerator.num_processes)
        self.make, self.options, self.batch_size, self.steps_an_epoch = make, options, batch_size, steps_an_epoch
        self.accelerator, self.seed = accelerator, seed
        self.accumulation = accelerator.gradient_accumulation_steps
        self.begin: dict[str, Any] = {"passes": 0, "stream": None, "without_text": 0}  # of the present window
        self.window = self.batch = 0  # how many came before, and how many of its batches were given
        self.without_text = 0  # rows that were passed over, up to the end of the present window
        self.batches: Iterator[Batch] | None = None

    def of_epoch(self, epoch: int, skip: int) -> Iterable[Batch]:
        if self.batches is None:
            self.batches = self._endless()
        return islice(self.batches, self.steps_an_epoch * self.accumulation - skip)

    def _endless(self) -> Iterator[Batch]:
        for documents in self._windows():
            dataset = self.make(documents)
            # It stays mapped; a text larger than the disk must not end up there.
            dataset.tokens.path.unlink(missing_ok=True)
            dataset.set_epoch(self.window)
            sampler = LengthBatchSampler(dataset.lengths, self.batch_size, self.seed, dataset.group)
            sampler.set_epoch(self.window)
            for rows in islice(sampler, self.batch, None):
                self.batch += 1
                yield send_to_device(dataset.__getitems__(rows), self.accelerator.device)
            self.window, self.batch = self.window + 1, 0

    def _windows(self) -> Iterator[list[dict[str, Any]]]:
        """Yields the documents of each window: `WINDOW` of them, at the end of a pass with some of the next one."""
        passes, place, without_text = self.begin["passes"], self.begin["stream"], self.begin["without_text"]
        if place is not None:
            self.stream.load_state_dict(place)
        documents: list[dict[str, Any]] = []
        while True:
            self.stream.set_epoch(1 + self.seed + passes)  # its files in another order, and from the beginning
            found = 0
            for row in rows_of(self.stream, self.options):
                if not has_text(row, self.options):
                    without_text += 1
                elif not is_held_out(row, self.options):
                    found += 1
                    documents.append(row)
                if len(documents) == WINDOW:
                    self.without_text = without_text
                    yield documents
                    self.begin = {"passes": passes, "stream": self.stream.state_dict(), "without_text": without_text}
                    documents = []
            if not found and place is None:
                raise ValueError(
                    f"process {self.accelerator.process_index} has no part of the stream to learn from: start fewer"
                )
            passes, place = passes + 1, None
            if documents and self.begin["passes"] == passes - 1 and self.begin["stream"] is None:  # less than a window
                self.without_text = without_text
                yield documents
                self.begin, documents = {"passes": passes, "stream": None, "without_text": without_text}, []

    def state_dict(self) -> dict[str, Any]:
        """Gives the place of every process: a checkpoint keeps what the main one says."""
        return {"places": gather_object([{"begin": self.begin, "window": self.window, "batch": self.batch}])}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state["places"][self.accelerator.process_index])
