"""Text in, token ids out: split once, kept in a file, and mapped into memory from there."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tokenizers
from datasets.utils import tqdm
from transformers import PreTrainedTokenizerBase

from toybert.train.data.kept import kept
from toybert.train.data.sentences import document_numbers
from toybert.train.data.source import CODE, Source
from toybert.train.data.text import Text

ROWS = 1000  # rows of a column that are read at a time
TEXTS = 10_000  # texts that are Python objects at a time, however many a row holds
BLOCK = 1000  # sentences in a block, which is packed by itself
IDS = 2**20  # ids that are counted at a time
ABOUT_A_TEXT = np.dtype([("row", np.int64), ("length", np.int64), ("key", np.uint64)])


class Tokens:
    """Holds the tokens of many texts: those of text i are `ids[start[i] : start[i] + length[i]]`.

    Texts without a token are left out and counted in `dropped`. `row` is the row of the column that each text came
    from, or the number that was given to it. `key` is equal for texts with equal tokens, and
    differs otherwise: with 64 bits of a hash, the chance that any two of a million texts collide is 1 in 37 million.
    """

    def __init__(self, ids: np.ndarray, texts: np.ndarray, path: Path | None = None):
        """Takes the ids of all texts, one after the other, and the facts about each (`ABOUT_A_TEXT`)."""
        self.ids, self.path = ids, path
        used = texts["length"] > 0
        self.start = (np.cumsum(texts["length"]) - texts["length"])[used]
        self.row, self.length, self.key = (texts[name][used] for name in ("row", "length", "key"))
        self.dropped = int((~used).sum())

    def __reduce__(self) -> Any:
        return (load_tokens, (self.path,)) if self.path else super().__reduce__()  # another process maps the file too

    def counts(self, vocab_size: int) -> np.ndarray:
        """Counts how often each token occurs in the texts, (V,)."""
        parts = (self.ids[start : start + IDS] for start in range(0, len(self.ids), IDS))
        return sum((np.bincount(part, minlength=vocab_size) for part in parts), np.zeros(vocab_size, dtype=np.int64))


@dataclass(frozen=True)
class TokenisedText:
    """Holds what the main process makes of a text, for all processes to learn from."""

    source: Source
    training: Tokens
    validation: Tokens
    documents: int  # to learn from
    held_out: str  # describes the validation text


def tokenise_text(text: Text, tokenizer: PreTrainedTokenizerBase) -> TokenisedText:
    """Tokenises the training and the held-out part of a text; each row has the number of its document."""
    training, validation = (
        tokenise(rows["sentences"], tokenizer, document_numbers(rows), text.keys.get(part))
        for part, rows in (("train", text.training), ("validation", text.validation))
    )
    documents = len(np.unique(document_numbers(text.training)))
    return TokenisedText(text.source, training, validation, documents, text.held_out)


def tokenise(
    texts: Sequence[Any], tokenizer: PreTrainedTokenizerBase, numbers: np.ndarray | None = None, key: str | None = None
) -> Tokens:
    """Tokenises texts, without special tokens, or loads the tokens if the same tokenizer did so before.

    The result is kept in the cache of `datasets` (`HF_DATASETS_CACHE`), in the folder `toybert` (see kept.py).

    Args:
        texts: strings or lists of strings; a column of `datasets` never becomes Python objects as a whole.
        numbers: a number for each of them, in place of its row.
        key: stands for the texts and their numbers; without one, they are hashed.
    """
    rows = as_dataset(texts)
    backend = json.loads(tokenizer.backend_tokenizer.to_str())  # type: ignore[attr-defined]
    settings = {name: value for name, value in backend.items() if name not in ("truncation", "padding")}
    how = json.dumps([CODE, tokenizers.__version__, settings, key or content_key(rows, numbers)])
    name = f"{hashlib.sha256(how.encode()).hexdigest()}.npy"
    return kept(name, lambda path: write_tokens(path, encode_rows(rows, tokenizer, numbers)), load_tokens)


def tokenise_in_memory(texts: Sequence[Any], tokenizer: PreTrainedTokenizerBase, numbers: np.ndarray) -> Tokens:
    """Tokenises a few texts, and keeps nothing on the disk."""
    nothing = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=ABOUT_A_TEXT)
    ids, about = zip(nothing, *encode_rows(as_dataset(texts), tokenizer, numbers), strict=True)
    return Tokens(np.concatenate(ids), np.concatenate(about))


def write_tokens(path: Path, parts: Iterator[tuple[np.ndarray, np.ndarray]]) -> None:
    """Writes all ids, as `np.save` does but a part at a time, and then the facts about each text."""
    about, count = [np.zeros(0, dtype=ABOUT_A_TEXT)], 0
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.int32)), "fortran_order": False}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header | {"shape": (0,)})  # as long as for any other number
        for ids, texts in parts:
            file.write(ids.tobytes())
            about, count = [*about, texts], count + len(ids)
        np.save(file, np.concatenate(about))
        file.seek(0)
        np.lib.format.write_array_header_1_0(file, header | {"shape": (count,)})


def load_tokens(path: Path) -> Tokens:
    """Loads what `write_tokens` wrote; the ids stay in the file."""
    ids = np.load(path, mmap_mode="r")
    with path.open("rb") as file:
        file.seek(ids.offset + ids.nbytes)
        return Tokens(np.asarray(ids), np.load(file), path)


def as_dataset(texts: Sequence[Any]) -> datasets.Dataset:
    """Turns texts into a dataset of one column; a column of `datasets` is not copied."""
    if isinstance(texts, datasets.Column) and isinstance(texts.source, datasets.Dataset):
        return texts.source.select_columns(texts.column_name)
    return datasets.Dataset.from_dict({"text": list(texts)})


def content_key(rows: datasets.Dataset, numbers: np.ndarray | None) -> str:
    """Hashes the content of texts: their fingerprint in `datasets` changes with their file."""
    digest = hashlib.sha256(b"" if numbers is None else numbers.tobytes())
    for table in rows.with_format("arrow").iter(batch_size=ROWS):
        for part in table.combine_chunks().to_batches():
            digest.update(part.serialize())
    return digest.hexdigest()


def encode_rows(
    rows: datasets.Dataset, tokenizer: PreTrainedTokenizerBase, numbers: np.ndarray | None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields the ids of some texts at a time, and the facts about each text."""
    row = np.arange(len(rows)) if numbers is None else numbers
    with tqdm(total=len(rows), desc="Tokenising", unit=" rows") as bar:
        for first in range(0, len(rows), ROWS):
            table = rows.with_format("arrow")[first : first + ROWS]
            texts, of = table.column(0).combine_chunks(), row[first : first + ROWS]
            if pa.types.is_nested(texts.type):
                of, texts = np.repeat(of, pc.list_value_length(texts).to_numpy()), texts.flatten()
            for start in range(0, len(texts), TEXTS):
                yield encode(texts[start : start + TEXTS].to_pylist(), of[start : start + TEXTS], tokenizer)
            bar.update(len(table))


def encode(texts: list[str], row: np.ndarray, tokenizer: PreTrainedTokenizerBase) -> tuple[np.ndarray, np.ndarray]:
    """Returns the texts' ids, one after the other, and the facts about each text."""
    only_ids = {"add_special_tokens": False, "return_attention_mask": False, "return_token_type_ids": False}
    lists = tokenizer(texts, verbose=False, **only_ids)["input_ids"]
    about = np.empty(len(texts), dtype=ABOUT_A_TEXT)
    about["row"], about["length"] = row, [len(ids) for ids in lists]
    ends = about["length"].cumsum()
    ids = np.fromiter(chain.from_iterable(lists), dtype=np.int32, count=ends[-1])
    about["key"] = hashes(ids, ends - about["length"], ends)
    return ids, about


def hashes(ids: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Returns 64 bits of a hash of each stretch of ids."""
    places = zip(starts, ends, strict=True)
    digests = (hashlib.blake2b(ids[start:end].tobytes(), digest_size=8).digest() for start, end in places)
    return np.frombuffer(b"".join(digests), dtype=np.uint64)


@dataclass
class Spans:
    """Holds where stretches of tokens lie: those of span i are `ids[start[i] : start[i] + length[i]]`.

    `row` is the number of a span's document, `key` the hash of its tokens, as in `Tokens`. `split` counts
    the sentences that were too long for one span.
    """

    start: np.ndarray
    length: np.ndarray
    row: np.ndarray
    key: np.ndarray
    split: int


def pack(tokens: Tokens, document: np.ndarray, room: int, several: bool = False) -> Spans:
    """Packs neighbouring sentences of a document into spans of at most `room` tokens; each token is in exactly one.

    A longer sentence becomes several spans.

    Args:
        document: the number of each sentence's document, (len(tokens.start),).
        several: whether every document of two or more sentences must become two or more spans, to make pairs.
    """
    parts = -(-tokens.length // room)  # of each sentence
    sentence = np.repeat(np.arange(len(parts)), parts)
    part = np.arange(len(sentence)) - np.repeat(np.cumsum(parts) - parts, parts)
    begin, end = (tokens.start[sentence] + tokens.length[sentence] * n // parts[sentence] for n in (part, part + 1))
    document = document[sentence]
    # Whether a document or a block of sentences begins with this part. Ids were once stored and packed in such blocks;
    # they are kept so that a seed still leads to the same weights.
    is_new = (np.diff(document, prepend=-1) != 0) | (np.diff(sentence // BLOCK, prepend=-1) != 0)
    most = np.full(len(begin), room)
    if several:
        place = np.cumsum(is_new) - 1
        most = np.minimum(most, -(-np.bincount(place, end - begin)[place] // 2))
    opens, start = is_new.copy(), 0  # whether a span begins with this part, and where the present span began
    for number, (new, first, last, limit) in enumerate(zip(is_new, begin, end, most, strict=True)):
        if new or last - start > limit:
            opens[number], start = True, first
    starts, ends = begin[opens], end[np.roll(opens, -1)]  # a span ends where another begins, and the last at the end
    return Spans(starts, ends - starts, document[opens], hashes(tokens.ids, starts, ends), int((parts > 1).sum()))
