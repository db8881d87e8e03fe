"""Text in, token ids out: split once, kept in an Arrow file, and mapped into memory from there."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tokenizers
from transformers import PreTrainedTokenizerBase

ROWS = 1000  # of a column, that are hashed or mapped at a time
TRIES = 5  # to open what other processes may take away
TEXTS = 10_000  # that are Python objects at a time, however many a row holds


class Tokens:
    """Holds the tokens of many texts: those of text i are `ids[start[i] : start[i] + length[i]]`.

    The ids stay in the file. Texts without a token are left out and counted in `dropped`. `row` is the row of the
    column that each text came from. `key` is the same for two texts that have the same tokens, and else another one:
    64 bits of a hash, so that among a million texts any two share one by chance in 1 of 37 million cases.
    """

    def __init__(self, path: Path):
        self.path = path
        file = pa.memory_map(str(path)).read_buffer()
        table = pa.ipc.open_stream(file).read_all()  # its columns are stretches of the file, nothing is copied
        self._chunks = table["ids"].chunks
        # The whole file, seen as numbers: the ids are stretches of it, and between them are ones that nobody reads.
        # One array for all stretches is what lets a batch be gathered in one go.
        self.ids = np.frombuffer(file, dtype=np.int32, count=file.size // 4)
        start = [np.zeros(0, dtype=np.int64)]
        for chunk in self._chunks:
            first = (chunk.values.buffers()[1].address - file.address) // 4
            start.append(first + chunk.offsets.to_numpy()[:-1].astype(np.int64))
        length = pc.list_value_length(table["ids"]).to_numpy()
        kept = length > 0
        self.start, self.length = np.concatenate(start)[kept], length[kept].astype(np.int64)
        self.row, self.key = table["row"].to_numpy()[kept], table["key"].to_numpy()[kept]
        self.dropped = int((~kept).sum())

    def __reduce__(self) -> tuple[type["Tokens"], tuple[Path]]:
        return Tokens, (self.path,)  # a worker process maps the file too

    def counts(self, vocab_size: int) -> np.ndarray:
        """Counts how often each token stands in the texts, (V,)."""
        counts = np.zeros(vocab_size, dtype=np.int64)
        for chunk in self._chunks:
            counts += np.bincount(chunk.values.to_numpy(), minlength=vocab_size)
        return counts


@dataclass
class Spans:
    """Holds where stretches of tokens lie: those of span i are `ids[start[i] : start[i] + length[i]]`.

    `row` is the number of the document that a span is of, `key` the hash of its tokens, as in `Tokens`. `split` counts
    the sentences that were too long for one span.
    """

    start: np.ndarray
    length: np.ndarray
    row: np.ndarray
    key: np.ndarray
    split: int


def pack(tokens: Tokens, document: np.ndarray, room: int, several: bool = False) -> Spans:
    """Packs neighbouring sentences of a document into spans of at most `room` tokens; each token is in exactly one.

    A sentence of more tokens becomes several spans. Sentences that are not neighbours in the file, as where one of its
    chunks ends, are not packed together.

    Args:
        document: the number of each sentence's document, (len(tokens.start),).
        several: whether every document of two or more sentences shall give two or more spans, for pairs of them.
    """
    parts = -(-tokens.length // room)  # of each sentence
    sentence = np.repeat(np.arange(len(parts)), parts)
    part = np.arange(len(sentence)) - np.repeat(np.cumsum(parts) - parts, parts)
    begin = tokens.start[sentence] + tokens.length[sentence] * part // parts[sentence]
    end = tokens.start[sentence] + tokens.length[sentence] * (part + 1) // parts[sentence]
    document = document[sentence]
    if not len(begin):
        return Spans(begin, begin, document, tokens.key, 0)

    breaks = np.flatnonzero((document[1:] != document[:-1]) | (begin[1:] != end[:-1])) + 1
    edges = np.concatenate([[0], breaks, [len(begin)]])  # between stretches without a gap
    stretch = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
    limit = np.full(len(edges) - 1, room)
    if several:
        limit = np.minimum(limit, -(-(end[edges[1:] - 1] - begin[edges[:-1]]) // 2))
    after = np.searchsorted(end, begin + limit[stretch], side="right")  # the first that a span begun here can't take
    after = np.clip(after, np.arange(len(begin)) + 1, edges[stretch + 1])
    first = follow(after)
    start, length = begin[first], end[after[first] - 1] - begin[first]
    return Spans(start, length, document[first], span_keys(tokens.ids, start, length), int((parts > 1).sum()))


def follow(after: np.ndarray) -> np.ndarray:
    """Gives 0, after[0], after[after[0]] and so on, as long as they are places in the array."""
    visited = np.zeros(len(after), dtype=bool)
    place = 0
    while place < len(after):
        visited[place] = True
        place = after.item(place)
    return np.flatnonzero(visited)


def span_keys(ids: np.ndarray, start: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Gives 64 bits of a hash of each span's ids."""
    pairs = zip(start, start + length, strict=True)
    return np.fromiter(
        (int.from_bytes(hash_of(ids[a:b]), "little") for a, b in pairs), dtype=np.uint64, count=len(start)
    )


def hash_of(ids: np.ndarray) -> bytes:
    """Gives 64 bits of a hash of a text's ids."""
    return hashlib.blake2b(ids.tobytes(), digest_size=8).digest()


def tokenise(texts: Sequence[Any], tokenizer: PreTrainedTokenizerBase) -> Tokens:
    """Splits texts, without special tokens, or finds that the same texts were split by the same tokenizer before.

    The result is kept where `datasets` keeps what it makes (`HF_DATASETS_CACHE`), in the folder `toybert`.

    Args:
        texts: at least one string or list of strings; a column of `datasets` never becomes Python objects as a whole.
    """
    rows = as_rows(texts)
    key = content_key(rows, tokenizer)
    path = Path(datasets.config.HF_DATASETS_CACHE) / "toybert" / f"{key}.arrow"
    path.parent.mkdir(parents=True, exist_ok=True)
    tries = 0
    while True:
        try:
            rows.with_format("arrow").map(
                encode,
                batched=True,
                batch_size=ROWS,
                with_indices=True,
                remove_columns=rows.column_names,
                fn_kwargs={"tokenizer": tokenizer},
                cache_file_name=str(path),
                new_fingerprint=key,
                desc="Tokenising",
            )
            return Tokens(path)
        except FileNotFoundError:  # a streamed run of the same text has just taken the file away, which it has mapped
            tries += 1
            if tries == TRIES:
                raise


def as_rows(texts: Sequence[Any]) -> datasets.Dataset:
    """Gives texts as a dataset of one column; those of a column of `datasets` stay where they are."""
    if isinstance(texts, datasets.Column) and isinstance(texts.source, datasets.Dataset):
        return texts.source.select_columns(texts.column_name)
    return datasets.Dataset.from_dict({"text": list(texts)})


def content_key(rows: datasets.Dataset, tokenizer: PreTrainedTokenizerBase) -> str:
    """Gives a name for what `encode` makes of these texts, the same in every process.

    The fingerprint of `datasets` would be another one for the same text in another file, and, since a tokenizer
    remembers how its last call padded and cut, for the same tokenizer after its first call.
    """
    backend = json.loads(tokenizer.backend_tokenizer.to_str())  # type: ignore[attr-defined]
    settings = {name: value for name, value in backend.items() if name not in ("truncation", "padding")}
    digest = hashlib.sha256(Path(__file__).read_bytes())  # the code below is part of it
    digest.update(json.dumps([tokenizers.__version__, settings]).encode())
    for table in rows.with_format("arrow").iter(batch_size=ROWS):
        for part in table.combine_chunks().to_batches():
            digest.update(part.serialize())
    return digest.hexdigest()


def encode(table: pa.Table, rows: Sequence[int], *, tokenizer: PreTrainedTokenizerBase) -> pa.Table:
    """Gives each text's row, its ids, and a hash of them."""
    texts, row = table.column(0).combine_chunks(), np.array(rows, dtype=np.int64)
    if not pa.types.is_string(texts.type) and not pa.types.is_large_string(texts.type):
        row = np.repeat(row, pc.list_value_length(texts).to_numpy())
        texts = texts.flatten()
    starts = range(0, max(len(texts), 1), TEXTS)
    parts = [encode_some(texts[start : start + TEXTS].to_pylist(), tokenizer) for start in starts]
    ids, keys = (pa.chunked_array(arrays) for arrays in zip(*parts, strict=True))
    return pa.table({"row": row, "ids": ids, "key": keys})


def encode_some(texts: list[str], tokenizer: PreTrainedTokenizerBase) -> tuple[pa.Array, pa.Array]:
    """Gives the texts' ids, and 64 bits of a hash of them."""
    only_ids = {"add_special_tokens": False, "return_attention_mask": False, "return_token_type_ids": False}
    lists = tokenizer(texts, verbose=False, **only_ids)["input_ids"] if texts else []
    ends = np.cumsum([0, *(len(ids) for ids in lists)], dtype=np.int32)
    flat = np.fromiter(chain.from_iterable(lists), dtype=np.int32, count=ends[-1])
    hashes = b"".join(hash_of(flat[a:b]) for a, b in pairwise(ends))
    return pa.ListArray.from_arrays(ends, flat), pa.array(np.frombuffer(hashes, dtype=np.uint64))
