"""Tokens in, rows out: sentence pairs, masked words, and labelled sentences.

Everything random here is a pure function of (seed, epoch, row), so that a row gets the same masks and the same
partner in whatever batch, worker or process it is made, and after a resume.
"""

from collections.abc import Sequence
from functools import cached_property
from itertools import cycle

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerBase

from toybert.train.data.masking import create_mlm_data, uniforms
from toybert.train.data.tokens import Spans, Tokens, pack, tokenise

DRAWS = 8  # draws for a false next sentence before the nearest acceptable one is taken
NO_PAIRS = (
    "no two sentences of the corpus follow each other in a document, so there are no pairs to learn: give --no-nsp "
    "to learn masked words alone"
)
NO_TEXT = "no text has a word in it: there is nothing to learn from or to measure"

Batch = dict[str, Tensor]


def room_for(texts: int, max_length: int) -> int:
    """Returns how many tokens the texts of a row can have, besides [CLS] and a [SEP] after each text."""
    if max_length < 1 + 2 * texts:
        raise ValueError(f"max_length must be at least {1 + 2 * texts}, got {max_length}")
    return max_length - 1 - texts


class RowDataset(Dataset):
    """Holds what all datasets share: tokens, and how rows are assembled from them.

    `dataset[i]` is one row without padding. `dataset.__getitems__(rows)`, which a DataLoader calls, is a whole
    padded batch, so the loader's `collate_fn` has nothing left to do: give it `as_is`.
    """

    group = 1  # consecutive rows that go together
    side_lengths: np.ndarray  # of A, and of B if there is one, in each group of rows, (1 or 2, groups)

    def __init__(self, tokenizer: PreTrainedTokenizerBase, *sides: Tokens):
        """Takes the tokens of all texts or, if A and B are from two columns, of each column."""
        self.tokenizer, self.sides, self.tokens = tokenizer, sides, sides[0]
        # The library computes these anew at each access.
        self.cls_id, self.sep_id, self.pad_id = tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id
        self.vocab_size = len(tokenizer)

    @property
    def word_counts(self) -> np.ndarray:
        """How often each token of the vocabulary occurs in the texts, (V,)."""
        return np.sum([tokens.counts(self.vocab_size) for tokens in self.sides], axis=0)

    @cached_property
    def unknown(self) -> float:
        """The share of the words that are [UNK] to the model."""
        counts = self.word_counts
        return float(counts[self.tokenizer.unk_token_id] / counts.sum())

    def assemble(self, starts: np.ndarray, lengths: np.ndarray) -> Batch:
        """Makes a padded batch of rows, `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`.

        A, and B if there is one, are the `lengths` tokens from `starts` on, both arrays (1 or 2, B).
        """
        sizes = 1 + (lengths + 1).sum(0)[:, None]  # (B, 1)
        column = np.arange(sizes.max())[None]  # (1, S)
        ids = np.full((len(sizes), sizes.max()), self.pad_id)  # (B, S)
        ids[:, 0] = self.cls_id
        types = np.zeros_like(ids)
        first = np.ones_like(sizes)  # the column in which a row's text begins
        for side, (tokens, start, length) in enumerate(zip(cycle(self.sides), starts[..., None], lengths[..., None])):
            place = column - first  # in the text, (B, S)
            inside = (place >= 0) & (place < length)
            ids[inside] = tokens.ids[(start + place)[inside]]
            ids[place == length] = self.sep_id
            types[(place >= 0) & (place <= length)] = side
            first = first + length + 1
        arrays = {"input_ids": ids, "token_type_ids": types, "attention_mask": (column < sizes).astype(np.int64)}
        return {name: torch.from_numpy(values) for name, values in arrays.items()}

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens of each row, by which batches are formed."""
        return np.repeat(1 + (self.side_lengths + 1).sum(0), self.group)

    def __len__(self) -> int:
        return self.side_lengths.shape[1] * self.group

    def __getitems__(self, rows: Sequence[int]) -> Batch:
        raise NotImplementedError

    def __getitem__(self, row: int) -> Batch:
        return {name: values[0] for name, values in self.__getitems__([row]).items()}


class MaskedDataset(RowDataset):
    """Holds what both datasets for pre-training share: the stretches of tokens that make rows, and masking."""

    spans: Spans | Tokens  # of packed text, or the sentences as they are
    cut = alone = 0  # pairs that are cut, and sentences that have no neighbour

    def __init__(
        self,
        documents: Sequence[Sequence[str]] | Tokens,
        tokenizer: PreTrainedTokenizerBase,
        numbers: np.ndarray | None,
        mlm_probability: float | Sequence[float],
        seed: int,
    ):
        """Tokenises the documents, unless that was done before.

        Args:
            documents: each a list of sentences; a column of `datasets` is never in memory as a whole. Sentences without
                a word are left out and counted in `dropped`. Or the tokens of documents, already numbered.
            numbers: the number of each row's document; a document of several rows repeats its number.
            mlm_probability: the share of words to predict, or that of each epoch, the last one in any later epoch too.
        """
        tokens = documents if isinstance(documents, Tokens) else tokenise(documents, tokenizer, numbers)
        super().__init__(tokenizer, tokens)
        self.dropped = tokens.dropped
        self.shares, self.seed, self.epoch = np.atleast_1d(mlm_probability), seed, 0
        self.special_ids, self.mask_token_id = sorted(tokenizer.all_special_ids), tokenizer.mask_token_id

    def notes(self) -> list[str]:
        """Returns notes on the text that is split, cut or left out."""
        counts = {
            "sentences without a word left out": self.dropped,
            "sentences split, as they were too long": getattr(self.spans, "split", 0),
            "pairs whose longer sentence is cut at its end (--pack true splits it)": self.cut,
            "sentences left out, as they are alone in their document (--no-nsp uses them)": self.alone,
        }
        return [f"{count:,} {what}" for what, count in counts.items() if count]

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch, which decides the masks and partners."""
        self.epoch = epoch

    @property
    def sentences(self) -> np.ndarray:
        """The hashes of the ids of all distinct sentences (or spans) of the documents, uint64 (sentences,)."""
        return np.unique(self.spans.key)

    def spans_of(self, rows: np.ndarray) -> np.ndarray:
        """Returns the numbers of the spans that make rows in this epoch, (1 or 2, B)."""
        raise NotImplementedError

    def rows_without(self, known: np.ndarray) -> np.ndarray:
        """Returns the rows without any of the known sentences (see `sentences`)."""
        rows = np.arange(len(self))
        return rows[~np.isin(self.spans.key, known)[self.spans_of(rows)].any(0)]

    def __getitems__(self, rows: Sequence[int]) -> Batch:
        """Returns the rows as one batch, padded to its longest, with all that a model for this task takes."""
        index = np.asarray(rows, dtype=np.int64)
        spans = self.spans_of(index)
        length = np.minimum(self.side_lengths[:, index // self.group], self.spans.length[spans])
        batch = self.assemble(self.spans.start[spans], length)
        shape = batch["input_ids"].shape  # (B, S)
        noise = uniforms((self.seed, self.epoch, 1), index, 3 * shape[1]).reshape(*shape, 3)
        batch["input_ids"], batch["labels"] = create_mlm_data(
            batch["input_ids"],
            torch.from_numpy(noise).permute(2, 0, 1),
            vocab_size=self.vocab_size,
            special_ids=self.special_ids,
            mask_token_id=self.mask_token_id,
            mlm_probability=float(self.shares[min(self.epoch, len(self.shares) - 1)]),
        )
        return batch


class MaskedWordDataset(MaskedDataset):
    """Makes rows for masked words alone, `[CLS] tokens [SEP]`: consecutive sentences of one document, or single ones.

    A sentence too long for a row becomes several rows.
    """

    def __init__(
        self,
        documents: Sequence[Sequence[str]] | Tokens,
        tokenizer: PreTrainedTokenizerBase,
        *,
        numbers: np.ndarray | None = None,
        packed: bool = True,
        mlm_probability: float | Sequence[float] = 0.15,
        max_length: int = 64,
        seed: int = 0,
    ):
        """Fills rows with the tokens of the documents.

        Args:
            documents, numbers, mlm_probability: see `MaskedDataset`.
            packed: put neighbouring sentences into one row, up to `max_length` tokens with the two special ones.

        Raises:
            ValueError: no sentence has a word.
        """
        room = room_for(1, max_length)
        super().__init__(documents, tokenizer, numbers, mlm_probability, seed)
        document = self.tokens.row
        if not len(document):
            raise ValueError(NO_TEXT)
        self.spans = pack(self.tokens, document if packed else np.arange(len(document)), room)
        self.side_lengths = self.spans.length[None]

    def spans_of(self, rows: np.ndarray) -> np.ndarray:
        return rows[None]


class PretrainDataset(MaskedDataset):
    """Makes pairs of sentences for both of BERT's pre-training tasks, `[CLS] A [SEP] B [SEP]`.

    Every sentence A that has a next one makes two rows: an even row with the true next sentence (`next_sentence_label`
    1) and, after it, a row with a false one (0), drawn anew each epoch. Both share a batch (see `LengthBatchSampler`),
    so that A alone tells nothing about the label, and the task is learnt faster. A false B is the next sentence of an A
    in *another* document. It has the length of the true one or, if no such sentence exists, the nearest length: so
    neither B alone nor its length tells the answer. Text equal to the true next sentence is never a false one.
    In packed text, "sentence" means a span of neighbouring ones (see `pack`).
    """

    group = 2  # consecutive rows that share their A

    def __init__(
        self,
        documents: Sequence[Sequence[str]] | Tokens,
        tokenizer: PreTrainedTokenizerBase,
        *,
        numbers: np.ndarray | None = None,
        packed: bool = False,
        mlm_probability: float | Sequence[float] = 0.15,
        max_length: int = 64,
        seed: int = 0,
        related: np.ndarray | None = None,
    ):
        """Finds the pairs of the documents.

        Args:
            documents, numbers, mlm_probability: see `MaskedDataset`.
            packed: fill up to half of the room with neighbouring sentences, and split longer ones. Otherwise sentences
                stay single, and a pair that is too long has its longer one cut at its end; `cut` counts such pairs.
            max_length: of a pair with its three special tokens.
            related: bool (documents, documents). A false B then comes from a related document: a hard negative.

        Raises:
            ValueError: there is no pair, or some sentence has no possible false next one.
        """
        room = room_for(2, max_length)
        super().__init__(documents, tokenizer, numbers, mlm_probability, seed)
        self.spans = pack(self.tokens, self.tokens.row, room // 2, several=True) if packed else self.tokens
        self.related, document = related, self.spans.row
        self._a = np.flatnonzero(document[:-1] == document[1:])
        if not len(self._a):
            raise ValueError(NO_PAIRS)
        self.alone = len(document) - len(np.union1d(self._a, self._a + 1))  # with no neighbour: not used
        self._document = document[self._a]
        # Equal texts have equal numbers, so that a false next sentence can't happen to be the true one. If two texts
        # share a hash by chance, neither is ever a false one for the other; nothing else changes.
        self._text = np.unique(self.spans.key[self._a + 1], return_inverse=True)[1]
        self._check_that_false_sentences_exist()

        a, b = self.spans.length[self._a], self.spans.length[self._a + 1]
        self.cut = int((a + b > room).sum())
        a_length = np.minimum(a, np.maximum(room // 2, room - b))
        self.side_lengths = np.stack([a_length, np.minimum(b, room - a_length)])  # with the true next sentence
        most = np.minimum(b, room - 1)
        self._by_length = np.argsort(most, kind="stable")  # pairs, those with a short B first
        # Where, in that order, the pairs with a B of the same length begin and end.
        self._low, self._high = (np.searchsorted(most[self._by_length], most, side) for side in ("left", "right"))

    def _check_that_false_sentences_exist(self) -> None:
        """Refuses text in which some true next sentence has no possible false one to replace it."""

        def count(numbers: np.ndarray) -> np.ndarray:
            _, where, counts = np.unique(numbers, return_inverse=True, return_counts=True)
            return counts[where]

        both = self._document * (self._text.max() + 1) + self._text
        possible = len(self._a) - count(self._document) - count(self._text) + count(both)
        if not possible.all():
            b = self._a[possible.argmin()] + 1
            start, length = self.spans.start[b], self.spans.length[b]
            text = self.tokenizer.decode(self.tokens.ids[start : start + length])
            raise ValueError(
                f"no other document has a sentence that could stand as a false next one in place of {text!r}: "
                "next-sentence prediction needs at least two documents, each with two or more sentences of its own; "
                "--no-nsp needs no pairs"
            )

    def partners(self, pairs: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Returns, for each pair and label, the pair whose B it gets: itself for 1, an acceptable other one for 0."""
        draws = uniforms((self.seed, self.epoch, 0), pairs, DRAWS)
        low, high = self._low[pairs, None], self._high[pairs, None]
        places = low + (draws * (high - low)).astype(np.int64)
        candidates = self._by_length[places]  # (pairs, DRAWS)
        accepted = self._accepted(pairs[:, None], candidates)
        partner = candidates[np.arange(len(pairs)), accepted.argmax(1)]
        for k in np.flatnonzero(~accepted.any(1) & (labels == 0)):
            partner[k] = self._nearest(pairs[k], places[k, -1])
        return np.where(labels == 1, pairs, partner)

    def _accepted(self, pairs: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """Tells which candidates have a B that can be a false one for the pairs."""
        a, b = self._document[pairs], self._document[candidates]
        accepted = (a != b) & (self._text[pairs] != self._text[candidates])
        return accepted if self.related is None else accepted & self.related[a, b]

    def _nearest(self, pair: int, place: int) -> int:
        """Finds the acceptable false next sentence nearest to a place in the order of length."""
        places = np.flatnonzero(self._accepted(np.array([pair]), self._by_length))
        if not len(places):
            raise ValueError(f"no related document has a false next sentence for pair {pair}")
        return int(self._by_length[places[np.abs(places - place).argmin()]])

    def spans_of(self, rows: np.ndarray) -> np.ndarray:
        partner = self.partners(rows // 2, 1 - rows % 2)
        return np.stack([self._a[rows // 2], self._a[partner] + 1])

    def __getitems__(self, rows: Sequence[int]) -> Batch:
        """Returns the rows as one batch, padded to its longest, with all that ToyBertForPreTraining takes."""
        label = 1 - torch.as_tensor(rows, dtype=torch.int64) % 2
        return {**super().__getitems__(rows), "next_sentence_label": label}


class FinetuneDataset(RowDataset):
    """Makes rows to classify: texts, `[CLS] text [SEP]`, or pairs of them, `[CLS] A [SEP] B [SEP]`.

    In a row over `max_length` tokens, the longer text is cut at its end, as the tokenizer does; `cut` counts such rows.
    Rows without a word are left out and counted in `dropped`; `row` has the numbers of the others.
    """

    def __init__(
        self,
        texts: Sequence[str],
        labels: Sequence[int] | Tensor | None,
        tokenizer: PreTrainedTokenizerBase,
        max_length: int = 64,
        pairs: Sequence[str] | None = None,
    ):
        """Tokenises the texts, unless that was done before.

        Args:
            labels: a class or a regression target for each text, or (N, L) of 0 and 1; None if there are none.
            pairs: the second text of each row, if it has one.

        Raises:
            ValueError: no text has a word.
        """
        columns = [texts] if pairs is None else [texts, pairs]
        room = room_for(len(columns), max_length)
        super().__init__(tokenizer, *(tokenise(column, tokenizer) for column in columns))
        start, length = np.zeros((2, len(columns), len(texts)), dtype=np.int64)
        for side, tokens in enumerate(self.sides):
            start[side, tokens.row], length[side, tokens.row] = tokens.start, tokens.length
        self.row = np.flatnonzero(length.any(0))
        if not len(self.row):
            raise ValueError(NO_TEXT)
        self.dropped = len(texts) - len(self.row)
        self.labels = None if labels is None else torch.as_tensor(labels[:])[self.row]

        self._start, length = start[:, self.row], length[:, self.row]  # (1 or 2, N)
        a, b = length[0], length[1:].sum(0)  # without a B, as if each were empty
        self.cut = int((a + b > room).sum())
        a_length = np.minimum(a, np.maximum((room + (a > b)) // 2, room - b))
        self.side_lengths = np.stack([a_length, np.minimum(b, room - a_length)])[: len(columns)]

    def __getitems__(self, rows: Sequence[int]) -> Batch:
        """Returns the rows as one batch, padded to its longest, with all that a classifier takes."""
        index = np.asarray(rows, dtype=np.int64)
        batch = self.assemble(self._start[:, index], self.side_lengths[:, index])
        return batch if self.labels is None else {**batch, "labels": self.labels[index]}


def as_is(batch: Batch) -> Batch:
    """Returns a batch unchanged: the datasets of this module make whole batches."""
    return batch
