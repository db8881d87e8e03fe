"""Text larger than the disk: read as it is needed, by each process its own part, a window of documents at a time."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from accelerate import Accelerator
from accelerate.utils import gather_object, send_to_device
from datasets import Dataset, IterableDataset, load_dataset
from datasets.distributed import split_dataset_by_node
from transformers import PreTrainedTokenizerBase

from toybert.train.data.batches import Batches, LengthBatchSampler
from toybert.train.data.checks import check_column, check_texts, has_text
from toybert.train.data.datasets import Batch
from toybert.train.data.sentences import document_numbers, streamed_rows
from toybert.train.data.source import DATASET, TEXT, Source, reader_of
from toybert.train.data.tables import cell_rows, column_names, named
from toybert.train.data.text import HELD_OUT, NAME_ONE, Text, as_documents
from toybert.train.data.tokens import Tokens, tokenise_in_memory

WINDOW = 2000  # documents in memory at a time, to shuffle and to pair
HEAD = 10_000  # first documents, from which the vocabulary is learnt and the validation documents are taken
ONE_IN = round(1 / HELD_OUT)  # documents is held out: it is never learnt from

Document = Mapping[str, Any]  # a row of a stream
Maker = Callable[[list[Document]], Any]  # makes a dataset, as `DatasetBatches` takes it, of a window's documents


def open_stream(source: Source) -> IterableDataset:
    """Opens a corpus without reading it: text files, tables, or a data set of the Hub."""
    if source.kind == DATASET:
        return load_dataset(source.name, source.config, split="train", streaming=True)
    files = [str(file) for file in source.files["train"]]  # processes share out a list
    if source.kind == TEXT:
        return IterableDataset.from_generator(streamed_rows, gen_kwargs={"files": files, "language": source.language})
    reader = reader_of(source.files["train"][0])
    if reader == "csv":
        column_names(source.files["train"])  # refuses files with different columns
        return IterableDataset.from_generator(cell_rows, gen_kwargs={"files": files})
    return load_dataset(reader, data_files={"train": files}, split="train", streaming=True)


def is_held_out(row: Document, source: Source) -> bool:
    """Tells whether a document is held out, by a hash of its text: so all its copies are, in every process."""
    text = row.get(source.column_of(row))
    said = hashlib.blake2b(json.dumps(text, default=str).encode(), digest_size=8).digest()
    return int.from_bytes(said, "big") % ONE_IN == 0


def load_head(source: Source) -> Text:
    """Loads the first documents of a corpus, split into those to learn the vocabulary from and those held out."""
    rows = list(rows_of(open_stream(source).take(HEAD), source))
    if rows:
        column = source.column_of(rows[0])
        check_column(column, rows[0], source.name, NAME_ONE)
        check_texts([row.get(column) for row in rows], source.name)
        rows = [row for row in rows if has_text(row[column])]
    held_out, learnt = ([row for row in rows if is_held_out(row, source) == held] for held in (True, False))
    if len(held_out) < 2 or len(learnt) < 2:
        raise ValueError(
            f"{source.name} has {len(rows)} document{'s' * (len(rows) != 1)}: too few to stream, leave out --streaming"
        )
    how = f"one document in {ONE_IN}, here {len(held_out):,} of the first {len(rows):,}"
    return Text(source, as_rows(learnt, source), as_rows(held_out, source), None, how)


def rows_of(stream: IterableDataset, source: Source) -> Iterator[Document]:
    """Yields the rows of a stream; an error names the corpus, or the file and the line."""
    with named(f"{source.name} could not be read"):
        yield from stream


def as_rows(documents: list[Document], source: Source) -> Dataset:
    """Turns documents into rows of sentences, like those of a text that is loaded whole."""
    rows = Dataset.from_list(documents)
    return rows if source.kind == TEXT else as_documents(rows, source.name, source)


def in_windows(make: Callable[[Tokens], Any], source: Source, tokenizer: PreTrainedTokenizerBase) -> Maker:
    """Turns a function of tokens into a function of documents, which keeps no text on the disk."""

    def make_window(documents: list[Document]) -> Any:
        rows = as_rows(documents, source)
        return make(tokenise_in_memory(rows["sentences"], tokenizer, document_numbers(rows)))

    return make_window


class StreamedBatches(Batches):
    """Makes batches of this process's part of a stream, over and over, a window of documents at a time.

    The files are shuffled in each pass; within a window, batches are those of a dataset: shuffled rows of similar
    length, false sentences from other documents. A checkpoint keeps where each process's window begins, and a resumed
    run reads from there, not from the beginning.
    """

    def __init__(
        self, source: Source, make: Maker, batch_size: int, steps_an_epoch: int, accelerator: Accelerator, seed: int
    ):
        """Opens this process's part of the stream; rows without text are skipped and counted."""
        stream = open_stream(source)
        self.stream = split_dataset_by_node(stream, accelerator.process_index, accelerator.num_processes)
        self.source, self.make, self.batch_size, self.steps_an_epoch = source, make, batch_size, steps_an_epoch
        self.accelerator, self.seed = accelerator, seed
        self.accumulation = accelerator.gradient_accumulation_steps
        self.begin: dict[str, Any] = {"passes": 0, "stream": None, "without_text": 0}  # of the present window
        self.window = self.batch = 0  # windows before this one, and its batches that were yielded
        self.without_text = 0  # rows skipped up to the end of the present window
        self.batches = self._endless()

    def of_epoch(self, epoch: int, skip: int) -> Iterable[Batch]:
        return islice(self.batches, self.steps_an_epoch * self.accumulation - skip)

    def _endless(self) -> Iterator[Batch]:
        for documents in self._windows():
            dataset = self.make(documents)
            dataset.set_epoch(self.window)
            sampler = LengthBatchSampler(dataset.lengths, self.batch_size, self.seed, dataset.group)
            sampler.set_epoch(self.window)
            for rows in islice(sampler, self.batch, None):
                self.batch += 1
                yield send_to_device(dataset.__getitems__(rows), self.accelerator.device)
            self.window, self.batch = self.window + 1, 0

    def _windows(self) -> Iterator[list[Document]]:
        """Yields windows of `WINDOW` documents; one that spans the end of a pass includes some of the next pass."""
        here = dict(self.begin)
        documents: list[Document] = []
        if here["stream"] is not None:
            self.stream.load_state_dict(here["stream"])
        while True:
            self.stream.set_epoch(1 + self.seed + here["passes"])  # its files in another order, and from the beginning
            found = 0
            for row in rows_of(self.stream, self.source):
                if not has_text(row.get(self.source.column_of(row))):
                    here["without_text"] += 1
                elif not is_held_out(row, self.source):
                    found += 1
                    documents.append(row)
                if len(documents) == WINDOW:
                    yield from self._window(documents, {**here, "stream": self.stream.state_dict()})
                    documents = []
            if not found and here["stream"] is None:
                who = f"process {self.accelerator.process_index}"
                raise ValueError(f"{who} finds no documents in its part of the stream: use fewer processes")
            is_short = self.begin["passes"] == here["passes"] and self.begin["stream"] is None
            here = {**here, "passes": here["passes"] + 1, "stream": None}
            if documents and is_short:  # the whole pass is less than a window
                yield from self._window(documents, here)
                documents = []

    def _window(self, documents: list[Document], end: dict[str, Any]) -> Iterator[list[Document]]:
        """Yields a window, and then records that the next one begins where it ends."""
        self.without_text = end["without_text"]
        yield documents
        self.begin = end

    def notes(self) -> list[str]:
        count = sum(gather_object([self.without_text]))
        return [f"{count:,} rows without text passed over"] if count else []

    def state_dict(self) -> dict[str, Any]:
        """Returns the place of every process, since a checkpoint keeps only the main process's state."""
        return {"places": gather_object([{"begin": self.begin, "window": self.window, "batch": self.batch}])}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state["places"][self.accelerator.process_index])
