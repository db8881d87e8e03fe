"""Tokens in, rows out: sentence pairs, masked words, and labelled sentences.

Everything random here is a pure function of (seed, epoch, row), so that a row gets the same masks and the same
partner in whatever batch, worker or process it is made, and after a resume.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerBase

from toybert.train.data.masking import create_mlm_data, uniforms
from toybert.train.data.tokens import Spans, Tokens, pack, tokenise

DRAWS = 8  # draws for a false next sentence before the nearest acceptable one is taken
NO_PAIRS = (
    "the corpus has no two sentences that follow each other in one document: there are no pairs to make, and only "
    "masked words (--no-nsp) to learn from"
)
NO_TEXT = "no text has a word in it: there is nothing to learn from or to measure"

Batch = dict[str, Tensor]


def check_room(max_length: int, least: int) -> None:
    """Refuses rows without room for the special tokens and a word of each text.

    Raises:
        ValueError: `max_length` is below `least`.
    """
    if max_length < least:
        raise ValueError(f"max_length must be at least {least}, got {max_length}")


class MaskedDataset(Dataset):
    """Holds what both datasets for pre-training share: tokens, the stretches of them that make rows, and masking.

    `dataset[i]` is one example without padding. `dataset.__getitems__(rows)`, which a DataLoader calls, is a whole
    padded batch, so the loader's `collate_fn` has nothing left to do: give it `as_is`.
    """

    group = 1  # consecutive rows that go together
    nothing = NO_TEXT  # what there is to say where no row can be made
    spans: Spans | Tokens  # of packed text, or the sentences as they are

    def __init__(
        self,
        documents: Sequence[Sequence[str]] | Tokens,
        tokenizer: PreTrainedTokenizerBase,
        numbers: np.ndarray | None,
        mlm_probability: float,
        seed: int,
    ):
        """Tokenises the documents, unless that was done before; `document` is then the number of each sentence's.

        Args:
            documents: each a list of sentences; a column of `datasets` is never in memory as a whole. Sentences without
                a word are left out and counted in `dropped`. Or the tokens of documents, by their numbers.
            numbers: of each of the documents, where one that goes on in the next row has the same again.

        Raises:
            ValueError: there is no document.
        """
        if not isinstance(documents, Tokens):
            if not len(documents):
                raise ValueError(self.nothing)
            documents = tokenise(documents, tokenizer, numbers)
        self.tokenizer, self.mlm_probability, self.seed = tokenizer, mlm_probability, seed
        self.special_ids = sorted(tokenizer.all_special_ids)
        # The library computes these anew at each access.
        self.cls_id, self.sep_id, self.pad_id = tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id
        self.mask_token_id = tokenizer.mask_token_id
        self.vocab_size = len(tokenizer)
        self.epoch = 0
        self.tokens, self.document = documents, documents.row

    @property
    def dropped(self) -> int:
        """The number of sentences without a word, which are left out."""
        return self.tokens.dropped

    @property
    def unknown(self) -> float:
        """The share of the words that are [UNK] to the model."""
        counts = self.word_counts
        return float(counts[self.tokenizer.unk_token_id] / counts.sum())

    def notes(self) -> list[str]:
        """Says what of the text is split, cut or left out."""
        counts = {
            "sentences without a word left out": self.dropped,
            "sentences split, as longer than their room": getattr(self.spans, "split", 0),
            "pairs whose longer sentence is cut at its end (--pack true splits it)": getattr(self, "cut", 0),
            "sentences left out, as alone in their document (--no-nsp uses them)": getattr(self, "alone", 0),
        }
        return [f"{count:,} {what}" for what, count in counts.items() if count]

    def set_epoch(self, epoch: int) -> None:
        """Turns to the masks and partners of an epoch."""
        self.epoch = epoch

    @property
    def sentences(self) -> np.ndarray:
        """Every sentence (or span of them) of the documents once, as the hash of its ids, uint64 (sentences,)."""
        return np.unique(self.spans.key)

    @property
    def word_counts(self) -> np.ndarray:
        """How often each token of the vocabulary stands in the documents, (V,)."""
        return self.tokens.counts(self.vocab_size)

    def mask(self, ids: np.ndarray, index: np.ndarray) -> tuple[Tensor, Tensor]:
        """Hides words of a batch, (B, S), of the rows `index`, as this epoch does."""
        noise = uniforms((self.seed, self.epoch, 1), index, 3 * ids.shape[1]).reshape(len(index), -1, 3)
        return create_mlm_data(
            torch.from_numpy(ids),
            torch.from_numpy(np.ascontiguousarray(noise.transpose(2, 0, 1))),
            vocab_size=self.vocab_size,
            special_ids=self.special_ids,
            mask_token_id=self.mask_token_id,
            mlm_probability=self.mlm_probability,
        )

    def __len__(self) -> int:
        raise NotImplementedError

    def __getitems__(self, rows: Sequence[int]) -> Batch:
        raise NotImplementedError

    def __getitem__(self, row: int) -> Batch:
        return {name: values[0] for name, values in self.__getitems__([row]).items()}


class MaskedWordDataset(MaskedDataset):
    """Makes rows for masked words alone, `[CLS] tokens [SEP]`: consecutive sentences of one document, or single ones.

    A sentence of more tokens than a row holds becomes several rows.
    """

    def __init__(
        self,
        documents: Sequence[Sequence[str]] | Tokens,
        tokenizer: PreTrainedTokenizerBase,
        *,
        numbers: np.ndarray | None = None,
        packed: bool = True,
        mlm_probability: float = 0.15,
        max_length: int = 64,
        seed: int = 0,
    ):
        """Fills rows with the tokens of the documents.

        Args:
            documents, numbers: see `MaskedDataset`.
            packed: put neighbouring sentences into one row, up to `max_length` tokens with the two special ones.

        Raises:
            ValueError: no sentence has a word.
        """
        super().__init__(documents, tokenizer, numbers, mlm_probability, seed)
        if not len(self.document):
            raise ValueError(self.nothing)
        check_room(max_length, 3)
        together = self.document if packed else np.arange(len(self.document))
        self.spans = pack(self.tokens, together, max_length - 2)

    def __len__(self) -> int:
        return len(self.spans.start)

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens of each row."""
        return self.spans.length + 2

    def rows_without(self, known: np.ndarray) -> np.ndarray:
        """Returns the rows that are not one of those known (see `sentences`)."""
        return np.flatnonzero(~np.isin(self.spans.key, known))

    def __getitems__(self, rows: Sequence[int]) -> Batch:
        """Returns the rows as one batch, padded to its longest: everything that ToyBertForMaskedLM takes."""
        index = np.asarray(rows, dtype=np.int64)
        start, length = self.spans.start[index][:, None], self.spans.length[index][:, None]  # (B, 1)
        column = np.arange(length.max() + 2)[None]  # (1, S)
        inside = (column >= 1) & (column <= length)
        ids = np.where(inside, self.tokens.ids[np.where(inside, start + column - 1, 0)], self.pad_id).astype(np.int64)
        ids[:, 0] = self.cls_id
        ids[column == length + 1] = self.sep_id
        input_ids, labels = self.mask(ids, index)
        return {
            "input_ids": input_ids,
            "token_type_ids": torch.zeros_like(input_ids),
            "attention_mask": torch.from_numpy((column < length + 2).astype(np.int64)),
            "labels": labels,
        }


class PretrainDataset(MaskedDataset):
    """Makes pairs of sentences for both of BERT's pre-training tasks, `[CLS] A [SEP] B [SEP]`.

    Every sentence A that has a next one gives two rows: an even one with its true next sentence (`next_sentence_label`
    1) and, after it, one with a false (0), drawn anew each epoch. A batch that holds both (see `LengthBatchSampler`)
    cancels what A by itself seems to say, and the task is learnt sooner. A false B is the next sentence of
    an A in *another* document, of the same length as the true one where there is such a sentence and of the nearest
    length elsewhere: so neither B by itself nor its length tells the answer. Text equal to the true next sentence is
    never a false one. In packed text, "sentence" means a span of neighbouring ones (see `pack`).
    """

    group = 2  # consecutive rows that share their A
    nothing = NO_PAIRS

    def __init__(
        self,
        documents: Sequence[Sequence[str]] | Tokens,
        tokenizer: PreTrainedTokenizerBase,
        *,
        numbers: np.ndarray | None = None,
        packed: bool = False,
        mlm_probability: float = 0.15,
        max_length: int = 64,
        seed: int = 0,
        related: np.ndarray | None = None,
    ):
        """Finds the pairs of the documents.

        Args:
            documents, numbers: see `MaskedDataset`.
            packed: fill up to half of the room with neighbouring sentences, and split longer ones, so that every token
                is used. Else sentences stay single, and the longer one of a pair that is too long is cut at its end;
                `cut` counts these.
            max_length: of a pair with its three special tokens.
            related: bool (documents, documents). If given, a false B comes only from documents related to A's: with
                those that share A's people or topic, these are hard negatives.

        Raises:
            ValueError: there is no pair, or a sentence for which no false next one exists.
        """
        check_room(max_length, 5)
        super().__init__(documents, tokenizer, numbers, mlm_probability, seed)
        self.related, self.spans, document, room = related, self.tokens, self.document, max_length - 3
        if packed:
            self.spans = pack(self.tokens, document, room // 2, several=True)
            document = self.spans.row
        self._a = np.flatnonzero(document[:-1] == document[1:])
        if not len(self._a):
            raise ValueError(NO_PAIRS)
        paired = np.zeros(len(document), dtype=bool)
        paired[self._a] = paired[self._a + 1] = True
        self.alone = int((~paired).sum())  # without a next one or one before: not used
        self._document = document[self._a]
        # Equal text, equal number: so that a false next sentence can't happen to be the true one. Should two texts
        # share a hash by chance, the one will never be false for the other; nothing else would come of it.
        self._text = np.unique(self.spans.key[self._a + 1], return_inverse=True)[1]
        self._check_that_false_sentences_exist()

        a, b = self.spans.length[self._a], self.spans.length[self._a + 1]
        self._a_length = np.minimum(a, np.maximum(room // 2, room - b))
        self._b_length = np.minimum(b, room - self._a_length)
        self.cut = int((a + b > room).sum())
        b_capped = np.minimum(b, room - 1)
        self._by_length = np.argsort(b_capped, kind="stable")  # pairs, those with a short B first
        ordered = b_capped[self._by_length]
        self._low = np.searchsorted(ordered, b_capped, "left")  # the pairs whose B is as long as this one's
        self._high = np.searchsorted(ordered, b_capped, "right")

    def _check_that_false_sentences_exist(self) -> None:
        def count(numbers: np.ndarray) -> np.ndarray:
            _, where, counts = np.unique(numbers, return_inverse=True, return_counts=True)
            return counts[where]

        same_document, same_text = count(self._document), count(self._text)
        both = count(self._document * (self._text.max() + 1) + self._text)
        possible = len(self._a) - same_document - same_text + both
        if (possible == 0).any():
            b = self._a[np.flatnonzero(possible == 0)[0]] + 1
            start, length = self.spans.start[b], self.spans.length[b]
            text = self.tokenizer.decode(self.tokens.ids[start : start + length])
            raise ValueError(
                f"no other document has a sentence that could stand as a false next one in place of {text!r}: "
                "next-sentence prediction needs at least two documents, each of two or more sentences of its own; "
                "--no-nsp does without"
            )

    def __len__(self) -> int:
        return 2 * len(self._a)

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens of each row with its true next sentence, by which batches are formed."""
        return np.repeat(self._a_length + self._b_length + 3, 2)

    def rows_without(self, known: np.ndarray) -> np.ndarray:
        """Returns the rows neither of whose sentences is one of those known (see `sentences`)."""
        rows = np.arange(len(self))
        partner = self.partners(rows // 2, 1 - rows % 2)
        is_known = np.isin(self.spans.key, known)
        return rows[~is_known[self._a[rows // 2]] & ~is_known[self._a[partner] + 1]]

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

    def __getitems__(self, rows: Sequence[int]) -> Batch:
        """Returns the rows as one batch, padded to its longest: everything that ToyBertForPreTraining takes."""
        index = np.asarray(rows, dtype=np.int64)
        pair, labels = index // 2, 1 - index % 2
        partner = self.partners(pair, labels)
        a_length = self._a_length[pair][:, None]  # (B, 1), as are the next three
        b_length = np.minimum(self._b_length[pair], self.spans.length[self._a[partner] + 1])[:, None]
        a_start = self.spans.start[self._a[pair]][:, None]
        b_start = self.spans.start[self._a[partner] + 1][:, None]

        size = a_length + b_length + 3
        column = np.arange(size.max())[None]  # (1, S)
        in_a = (column >= 1) & (column <= a_length)
        in_b = (column >= a_length + 2) & (column <= a_length + b_length + 1)
        source = np.where(in_a, a_start + column - 1, np.where(in_b, b_start + column - a_length - 2, 0))
        ids = np.where(in_a | in_b, self.tokens.ids[source], self.pad_id).astype(np.int64)  # (B, S)
        ids[:, 0] = self.cls_id
        ids[(column == a_length + 1) | (column == size - 1)] = self.sep_id
        real = column < size

        input_ids, mlm_labels = self.mask(ids, index)
        return {
            "input_ids": input_ids,
            "token_type_ids": torch.from_numpy(((column >= a_length + 2) & real).astype(np.int64)),
            "attention_mask": torch.from_numpy(real.astype(np.int64)),
            "labels": mlm_labels,
            "next_sentence_label": torch.from_numpy(labels),
        }


class FinetuneDataset(Dataset):
    """Makes rows to classify: texts, `[CLS] text [SEP]`, or pairs of them, `[CLS] A [SEP] B [SEP]`.

    Of a row over `max_length` tokens the longer text is cut at its end, as the tokenizer would; such rows are counted
    in `cut`. Rows without a word are left out and counted in `dropped`; `row` has the numbers of the others.

    Raises:
        ValueError: no text has a word.
    """

    group = 1

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
            labels: of each text a class, a number to regress on, or (N, L) 0 and 1; None where there are none.
            pairs: the second text of each row, if it has one.
        """
        if not len(texts):
            raise ValueError(NO_TEXT)
        sides = [texts] if pairs is None else [texts, pairs]
        every = [tokenise(side, tokenizer) for side in sides]
        self.tokens, self.pair_tokens = every[0], every[-1]
        start, length = np.zeros((2, 2, len(texts)), dtype=np.int64)  # of A and B; there may be no B
        for side, tokens in enumerate(every):
            start[side, tokens.row], length[side, tokens.row] = tokens.start, tokens.length
        self.row = np.flatnonzero(length.any(0))
        if not len(self.row):
            raise ValueError(NO_TEXT)
        self.dropped = len(texts) - len(self.row)
        (self._a_start, self._b_start), (a, b) = start[:, self.row], length[:, self.row]

        self.specials = 1 + len(sides)
        check_room(max_length, self.specials + len(sides))
        room = max_length - self.specials
        self._a_length = np.minimum(a, np.maximum((room + (a > b)) // 2, room - b))
        self._b_length = np.minimum(b, room - self._a_length)
        self.cut = int((a + b > room).sum())
        self.labels = None if labels is None else torch.as_tensor(labels[:])[self.row]
        counts = np.sum([tokens.counts(len(tokenizer)) for tokens in every], axis=0)
        self.unknown = float(counts[tokenizer.unk_token_id] / counts.sum())  # share of the words, [UNK] to the model
        self.cls_id, self.sep_id, self.pad_id = tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id

    def __len__(self) -> int:
        return len(self.row)

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens of each row."""
        return self._a_length + self._b_length + self.specials

    def __getitems__(self, rows: Sequence[int]) -> Batch:
        """Returns the rows as one batch, padded to its longest: everything that a classifier takes."""
        index = np.asarray(rows, dtype=np.int64)
        a_length, b_length = self._a_length[index][:, None], self._b_length[index][:, None]  # (B, 1), as are the next
        a_start, b_start = self._a_start[index][:, None], self._b_start[index][:, None]
        size = a_length + b_length + self.specials
        column = np.arange(size.max())[None]  # (1, S)
        in_a = (column >= 1) & (column <= a_length)
        in_b = (column >= a_length + 2) & (column <= a_length + b_length + 1)
        ids = np.where(in_a, self.tokens.ids[np.where(in_a, a_start + column - 1, 0)], self.pad_id)  # (B, S)
        ids = np.where(in_b, self.pair_tokens.ids[np.where(in_b, b_start + column - a_length - 2, 0)], ids)
        ids[:, 0] = self.cls_id
        ids[(column == a_length + 1) | (column == size - 1)] = self.sep_id
        batch = {
            "input_ids": torch.from_numpy(ids.astype(np.int64)),
            "token_type_ids": torch.from_numpy(((column >= a_length + 2) & (column < size)).astype(np.int64)),
            "attention_mask": torch.from_numpy((column < size).astype(np.int64)),
        }
        return batch if self.labels is None else {**batch, "labels": self.labels[index]}

    def __getitem__(self, row: int) -> Batch:
        return {name: values[0] for name, values in self.__getitems__([row]).items()}


def as_is(batch: Batch) -> Batch:
    """Collates nothing: the datasets of this module give whole batches."""
    return batch
