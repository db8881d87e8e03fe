"""Text in, batches out: the corpora, sentence pairs, masking, and batches of similar length.

Everything random here is a pure function of (seed, epoch, row), so that a row gets the same masks and the same
partner in whatever batch, worker or process it is made, and after a resume.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset as TextDataset
from datasets import DatasetDict, load_dataset
from torch import Tensor
from torch.utils.data import Dataset, Sampler
from transformers import PreTrainedTokenizerBase

CORPORA = Path(__file__).parent / "corpora"
IGNORED = -100  # what F.cross_entropy and every library call an absent label
TRIES = 8  # draws for a false next sentence before the nearest acceptable one is taken
NO_PAIRS = "the corpus has no two sentences that follow each other in one document: there are no pairs to make"

Batch = dict[str, Tensor]


def load_corpus(folder: str | Path, columns: Sequence[str]) -> DatasetDict:
    """Loads the splits of a corpus from `folder/{train,validation,test}.jsonl`.

    Raises:
        FileNotFoundError: one of the three files is missing.
        ValueError: one is empty, has a line that is no JSON object in UTF-8, lacks a column, or has no text in it.
    """
    files = {split: str(Path(folder) / f"{split}.jsonl") for split in ("train", "validation", "test")}
    for path in files.values():
        check_json_lines(path)
    corpus = load_dataset("json", data_files=files)
    for split, rows in corpus.items():
        for column in columns:
            if column not in rows.column_names:
                raise ValueError(f"{files[split]} has no column {column!r}, it has {', '.join(rows.column_names)}")
            if column in ("text", "sentences"):
                check_texts(rows[column], files[split])
    return corpus


def check_json_lines(path: str) -> None:
    """Refuses a file that is not made of JSON objects in UTF-8, one a line; the message names the file and the line."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"the corpus file {path} does not exist")
    objects = 0
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
                row = json.loads(text or "{}")
            except ValueError as error:
                raise ValueError(f"line {number} of {path} is not JSON in UTF-8: {error}") from error
            if not isinstance(row, dict):
                raise ValueError(f"line {number} of {path} is no JSON object: {text[:60]}")
            if not isinstance(row.get("sentences", []), list):
                raise ValueError(f"line {number} of {path} has 'sentences' that are no list: {text[:60]}")
            objects += bool(text)
    if not objects:
        raise ValueError(f"the corpus file {path} is empty")


def check_texts(values: Sequence[Any], where: str) -> None:
    """Refuses what is neither a string nor a list of strings.

    Raises:
        ValueError: there is such a value; the message names the first one and its row.
    """
    for row, value in enumerate(values):
        for text in value if isinstance(value, list) else [value]:
            if not isinstance(text, str):
                raise ValueError(f"row {row + 1} of {where} has {text!r} where text should be")


def check_labels(labels: Sequence[Any], num_labels: int, where: str) -> None:
    """Refuses labels that are not class numbers.

    Raises:
        ValueError: a label is not an integer from 0 to `num_labels` - 1; the message names the first one and its row.
    """
    for row, label in enumerate(labels):
        if not isinstance(label, int) or isinstance(label, bool) or not 0 <= label < num_labels:
            raise ValueError(f"row {row + 1} of {where} has the label {label!r}, not one of 0 to {num_labels - 1}")


def uniforms(key: Sequence[int], rows: np.ndarray, columns: int) -> np.ndarray:
    """Draws numbers in [0, 1), float32 (len(rows), columns), each a pure function of (key, row, column).

    A generator object would have to be set up anew for every row; this is the same idea, counting in place of state,
    for all rows at once: splitmix64 (Steele et al. 2014), whose output is a scrambled counter.
    """
    step = np.uint64(0x9E3779B97F4A7C15)

    def scramble(x: np.ndarray) -> np.ndarray:
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))

    with np.errstate(over="ignore"):  # the arithmetic is modulo 2**64
        state = np.zeros(1, dtype=np.uint64)
        for part in key:
            state = scramble(state + np.uint64(part) + step)
        streams = scramble(state + rows.astype(np.uint64)[:, None] * step)  # (rows, 1)
        bits = scramble(streams + np.arange(1, columns + 1, dtype=np.uint64) * step)  # (rows, columns)
    return (bits >> np.uint64(40)).astype(np.float32) * np.float32(2**-24)


def create_mlm_data(
    input_ids: Tensor,
    noise: Tensor,
    *,
    vocab_size: int,
    special_ids: Sequence[int] = (0, 1, 2, 3, 4),
    mask_token_id: int = 4,
    mlm_probability: float = 0.15,
) -> tuple[Tensor, Tensor]:
    """Chooses tokens to predict and hides most of them (section 3.1, task 1, and appendix A.1 of the paper).

    Every token that is not special is chosen with `mlm_probability`, and where none was, the one that came nearest to
    it, so that each row has a target. Of the chosen, 80 % become [MASK], 10 % a random word and 10 % stay as they are.

    Args:
        input_ids: integer (..., S). Special tokens, padding and [UNK] among them, are never chosen.
        noise: float in [0, 1), (3, ..., S): what chooses a token, what is done with it, which random word it gets.
        vocab_size: random words are drawn from its ids without the special ones.

    Returns:
        The ids that the model sees, and the labels: the hidden token where one was chosen, -100 elsewhere.

    Raises:
        ValueError: `mlm_probability` is not above 0 and at most 1, or the shapes do not fit.
    """
    if not 0 < mlm_probability <= 1:
        raise ValueError(f"mlm_probability must be above 0 and at most 1, got {mlm_probability}")
    if noise.shape != (3, *input_ids.shape):
        raise ValueError(f"noise has shape {tuple(noise.shape)}, the ids need {(3, *input_ids.shape)}")
    choice, action, word = noise
    special = torch.isin(input_ids, torch.tensor(special_ids, device=input_ids.device))
    choice = choice.masked_fill(special, 2.0)  # above any probability
    chosen = (choice < mlm_probability) | (choice == choice.amin(-1, keepdim=True))
    chosen = chosen & ~special

    random_words = (word * (vocab_size - len(special_ids))).long()
    for special_id in sorted(special_ids):
        random_words += random_words >= special_id  # step over it

    labels = torch.where(chosen, input_ids, IGNORED)
    masked = torch.where(chosen & (action < 0.8), mask_token_id, input_ids)
    masked = torch.where(chosen & (action >= 0.8) & (action < 0.9), random_words.to(input_ids.dtype), masked)
    return masked, labels


class PretrainDataset(Dataset):
    """Makes pairs of sentences for both of BERT's pre-training tasks, `[CLS] A [SEP] B [SEP]`.

    Every sentence A that has a next one gives two rows: an even one with its true next sentence (`next_sentence_label`
    1) and, after it, one with a false (0), drawn anew each epoch. A batch that holds both (see `LengthBatchSampler`)
    cancels what A by itself seems to say, and the task is learnt sooner. A false B is the next sentence of
    an A in *another* document, of the same length as the true one where there is such a sentence and of the nearest
    length elsewhere: so neither B by itself nor its length tells the answer. Text equal to the true next sentence is
    never a false one.

    `dataset[i]` is one example without padding. `dataset.__getitems__(rows)`, which a DataLoader calls, is a whole
    padded batch, so the loader's `collate_fn` has nothing left to do: give it `as_is`.
    """

    group = 2  # consecutive rows that share their A

    def __init__(
        self,
        documents: Sequence[Sequence[str]],
        tokenizer: PreTrainedTokenizerBase,
        *,
        mlm_probability: float = 0.15,
        max_length: int = 64,
        seed: int = 0,
        related: np.ndarray | None = None,
    ):
        """Tokenises the documents and finds their pairs.

        Args:
            documents: each a list of sentences. Sentences without a word are left out and counted in `dropped`.
            max_length: of a pair with its three special tokens; the longer sentence of a longer pair is cut at its end.
            related: bool (documents, documents). If given, a false B comes only from documents related to A's: with
                those that share A's people or topic, these are hard negatives.

        Raises:
            ValueError: there is no pair, or a sentence for which no false next one exists.
        """
        self.tokenizer, self.mlm_probability, self.seed, self.related = tokenizer, mlm_probability, seed, related
        self.special_ids = sorted(tokenizer.all_special_ids)
        self.mask_token_id = tokenizer.mask_token_id  # the library computes it anew at each access
        self.vocab_size = len(tokenizer)
        self.epoch = 0

        if not len(documents):
            raise ValueError(NO_PAIRS)
        sentences = TextDataset.from_dict({"document": range(len(documents)), "sentences": list(documents)}).map(
            self._tokenise, batched=True, remove_columns=["sentences"], desc="Tokenising", load_from_cache_file=False
        )
        lengths = np.array([len(ids) for ids in sentences["ids"]], dtype=np.int64)
        document = np.array(sentences["document"], dtype=np.int64)
        self.dropped = int((lengths == 0).sum())
        kept = lengths > 0
        lengths, document = lengths[kept], document[kept]
        self._ids = np.array([token for ids in sentences["ids"] for token in ids], dtype=np.int64)
        self._start = np.cumsum(lengths) - lengths
        self._length = lengths

        self._a = np.flatnonzero(document[:-1] == document[1:])
        if not len(self._a):
            raise ValueError(NO_PAIRS)
        self._document = document[self._a]
        # Equal text, equal key: so that a false next sentence can't happen to be the true one.
        texts: dict[bytes, int] = {}
        self._text = np.array(
            [texts.setdefault(self._sentence(b).tobytes(), len(texts)) for b in self._a + 1], dtype=np.int64
        )
        room = max_length - 3
        a, b = lengths[self._a], lengths[self._a + 1]
        self._a_length = np.minimum(a, np.maximum(room // 2, room - b))
        self._b_length = np.minimum(b, room - self._a_length)
        self._check_that_false_sentences_exist()

        b_capped = np.minimum(b, room - 1)
        self._by_length = np.argsort(b_capped, kind="stable")  # pairs, those with a short B first
        ordered = b_capped[self._by_length]
        self._low = np.searchsorted(ordered, b_capped, "left")  # the pairs whose B is as long as this one's
        self._high = np.searchsorted(ordered, b_capped, "right")

    def _tokenise(self, batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
        document, texts = [], []
        for index, sentences in zip(batch["document"], batch["sentences"], strict=True):
            document += [index] * len(sentences)
            texts += sentences
        ids = self.tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"] if texts else []
        return {"document": document, "ids": ids}

    def _sentence(self, index: int | np.integer) -> np.ndarray:
        return self._ids[self._start[index] : self._start[index] + self._length[index]]

    def _check_that_false_sentences_exist(self) -> None:
        def count(*keys: np.ndarray) -> np.ndarray:
            _, where, counts = np.unique(np.stack(keys), axis=1, return_inverse=True, return_counts=True)
            return counts[where.reshape(-1)]

        same_document, same_text = count(self._document), count(self._text)
        possible = len(self._a) - same_document - same_text + count(self._document, self._text)
        if (possible == 0).any():
            row = int(np.flatnonzero(possible == 0)[0])
            text = self.tokenizer.decode(self._sentence(self._a[row] + 1))
            raise ValueError(
                f"no other document has a sentence that could stand as a false next one in place of {text!r}: "
                "next-sentence prediction needs at least two documents, each of two or more sentences of its own"
            )

    def __len__(self) -> int:
        return 2 * len(self._a)

    def set_epoch(self, epoch: int) -> None:
        """Turns to the masks and partners of an epoch."""
        self.epoch = epoch

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens of each row with its true next sentence, by which batches are formed."""
        return np.repeat(self._a_length + self._b_length + 3, 2)

    @property
    def sentences(self) -> set[bytes]:
        """Every sentence of the documents, as the bytes of its ids."""
        return {self._sentence(index).tobytes() for index in range(len(self._length))}

    def rows_without(self, known: set[bytes]) -> np.ndarray:
        """Gives the rows neither of whose sentences is one of those known (see `sentences`)."""
        rows = np.arange(len(self))
        partner = self.partners(rows // 2, 1 - rows % 2)
        pairs = zip(self._a[rows // 2], self._a[partner] + 1, strict=True)
        return rows[[known.isdisjoint(self._sentence(k).tobytes() for k in pair) for pair in pairs]]

    def partners(self, pairs: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Gives, for each pair and label, the pair whose B it gets: itself for 1, an acceptable other one for 0."""
        draws = uniforms((self.seed, self.epoch, 0), pairs, TRIES)
        low, high = self._low[pairs, None], self._high[pairs, None]
        places = low + (draws * (high - low)).astype(np.int64)
        candidates = self._by_length[places]  # (pairs, TRIES)
        accepted = self._accepted(pairs[:, None], candidates)
        partner = candidates[np.arange(len(pairs)), accepted.argmax(1)]
        for k in np.flatnonzero(~accepted.any(1) & (labels == 0)):
            partner[k] = self._nearest(pairs[k], places[k, -1])
        return np.where(labels == 1, pairs, partner)

    def _accepted(self, pairs: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        a, b = self._document[pairs], self._document[candidates]
        accepted = (a != b) & (self._text[pairs] != self._text[candidates])
        return accepted if self.related is None else accepted & self.related[a, b]

    def _nearest(self, pair: int, place: int) -> int:
        """Finds the acceptable false next sentence nearest to a place in the order of length."""
        accepted = self._accepted(np.array([pair]), self._by_length)
        places = np.flatnonzero(accepted)
        if not len(places):
            raise ValueError(f"no related document has a false next sentence for pair {pair}")
        return int(self._by_length[places[np.abs(places - place).argmin()]])

    @property
    def word_counts(self) -> np.ndarray:
        """How often each token of the vocabulary stands in the documents, (V,)."""
        return np.bincount(self._ids, minlength=self.vocab_size)

    def __getitems__(self, rows: Sequence[int]) -> Batch:
        """Gives the rows as one batch, padded to its longest: everything that ToyBertForPreTraining takes."""
        index = np.asarray(rows, dtype=np.int64)
        pair, labels = index // 2, 1 - index % 2
        partner = self.partners(pair, labels)
        a_length = self._a_length[pair][:, None]  # (B, 1), as are the next three
        b_length = np.minimum(self._b_length[pair], self._length[self._a[partner] + 1])[:, None]
        a_start, b_start = self._start[self._a[pair]][:, None], self._start[self._a[partner] + 1][:, None]

        size = a_length + b_length + 3
        column = np.arange(size.max())[None]  # (1, S)
        in_a = (column >= 1) & (column <= a_length)
        in_b = (column >= a_length + 2) & (column <= a_length + b_length + 1)
        source = np.where(in_a, a_start + column - 1, np.where(in_b, b_start + column - a_length - 2, 0))
        ids = np.where(in_a | in_b, self._ids[source], self.tokenizer.pad_token_id)  # (B, S)
        ids[:, 0] = self.tokenizer.cls_token_id
        ids[(column == a_length + 1) | (column == size - 1)] = self.tokenizer.sep_token_id
        real = column < size

        noise = uniforms((self.seed, self.epoch, 1), index, 3 * column.size).reshape(len(index), -1, 3)
        input_ids, mlm_labels = create_mlm_data(
            torch.from_numpy(ids),
            torch.from_numpy(np.ascontiguousarray(noise.transpose(2, 0, 1))),
            vocab_size=self.vocab_size,
            special_ids=self.special_ids,
            mask_token_id=self.mask_token_id,
            mlm_probability=self.mlm_probability,
        )
        return {
            "input_ids": input_ids,
            "token_type_ids": torch.from_numpy(((column >= a_length + 2) & real).astype(np.int64)),
            "attention_mask": torch.from_numpy(real.astype(np.int64)),
            "labels": mlm_labels,
            "next_sentence_label": torch.from_numpy(labels),
        }

    def __getitem__(self, row: int) -> Batch:
        return {name: values[0] for name, values in self.__getitems__([row]).items()}


class FinetuneDataset(Dataset):
    """Makes labelled sentences, `[CLS] text [SEP]`; text over `max_length` tokens is cut at its end.

    Texts without a word are left out and counted in `dropped`.

    Raises:
        ValueError: no text has a word.
    """

    group = 1

    def __init__(
        self, texts: Sequence[str], labels: Sequence[int], tokenizer: PreTrainedTokenizerBase, max_length: int = 64
    ):
        encodings = tokenizer(list(texts), truncation=True, max_length=max_length)
        kept = [row for row, ids in enumerate(encodings["input_ids"]) if len(ids) > 2]  # more than [CLS] and [SEP]
        if not kept:
            raise ValueError("no text has a word in it: there is nothing to learn from or to measure")
        self.dropped = len(encodings["input_ids"]) - len(kept)
        self.encodings = {name: [values[row] for row in kept] for name, values in encodings.items()}
        self.labels = torch.tensor([labels[row] for row in kept])
        self.pad_token_id = tokenizer.pad_token_id

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens of each row."""
        return np.array([len(ids) for ids in self.encodings["input_ids"]])

    def __getitems__(self, rows: Sequence[int]) -> Batch:
        """Gives the rows as one batch, padded to its longest: everything that a classifier takes."""
        batch = {}
        for name, padding in (("input_ids", self.pad_token_id), ("token_type_ids", 0), ("attention_mask", 0)):
            values = [torch.tensor(self.encodings[name][row]) for row in rows]
            batch[name] = torch.nn.utils.rnn.pad_sequence(values, batch_first=True, padding_value=padding)
        return {**batch, "labels": self.labels[list(rows)]}

    def __getitem__(self, row: int) -> Batch:
        return {name: values[0] for name, values in self.__getitems__([row]).items()}


def as_is(batch: Batch) -> Batch:
    """Collates nothing: the datasets of this module give whole batches."""
    return batch


class LengthBatchSampler(Sampler[list[int]]):
    """Yields batches of rows of similar length, in another order and company each epoch.

    The rows are shuffled, sorted by length within windows of some batches, cut into batches, and the batches shuffled:
    little padding, and still no row meets the same neighbours twice. Each `group` of consecutive rows stays together.

    Raises:
        ValueError: the batch size is not a multiple of `group`.
    """

    def __init__(self, lengths: np.ndarray, batch_size: int, seed: int = 0, group: int = 1, window: int = 32):
        if batch_size % group:
            raise ValueError(f"batch_size {batch_size} is not a multiple of {group}, the rows that go together")
        self.lengths, self.batch_size, self.seed, self.group = np.asarray(lengths), batch_size, seed, group
        self.window = window
        self.drop_last = False
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Turns to the order of an epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-len(self.lengths) // self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        random = np.random.default_rng([self.seed, self.epoch])
        order = random.permutation(len(self.lengths) // self.group)[:, None] * self.group + np.arange(self.group)
        order = order.reshape(-1)
        batches = []
        for start in range(0, len(order), self.batch_size * self.window):
            part = order[start : start + self.batch_size * self.window]
            part = part[np.argsort(self.lengths[part], kind="stable")]
            batches += [part[i : i + self.batch_size] for i in range(0, len(part), self.batch_size)]
        full = len(self.lengths) // self.batch_size
        for index in random.permutation(full):
            yield batches[index].tolist()
        for batch in batches[full:]:  # a smaller batch comes last: accelerate shares out and gathers on that premise
            yield batch.tolist()
