"""Claims about any text at all: what the tokenizer and the pair maker make of it, found by drawing it at random."""

from __future__ import annotations

import re
import tempfile
import unicodedata

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from tokenizers import Tokenizer, models, pre_tokenizers

from toybert.tokenization_toybert import SPECIAL_TOKENS, ToyBertTokenizer
from toybert.train.data.datasets import NO_PAIRS, PretrainDataset
from toybert.train.data.masking import IGNORED, create_mlm_data

# The same examples each time: a test that fails now and then teaches nothing.
claim = settings(derandomize=True, deadline=None, database=None, max_examples=80)
slow_claim = settings(claim, max_examples=30)  # each example writes files

WORDS = ["the", "cat", "sat", "caf\u00e9", "stra\u00dfe", "don", "t", ".", ",", "!", "?", "'", "-", "\u4f60\u597d"]
# What Unicode calls white space, and Rust with it; Python's str.split also divides at \x1c to \x1f.
WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
SPACES = (" ", "  ", "", "\n", "\t", "\r\n", "\u00a0", "\u3000", "\u200b", "\ufeff", "\x00", "\x1c")

anything = st.text(max_size=30)  # hypothesis draws no surrogates unless told to
# Python's tables and Rust's can be of different years: nobody writes what neither has yet.
assigned = st.text(st.characters(exclude_categories=("Cs", "Cn")), max_size=30)
pieces = st.sampled_from([*WORDS, *SPECIAL_TOKENS, "THE", "Cafe\u0301", "\u0130", "\u03a3", "[mask]", "\U0001f642"])


def mixed(text: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Draws text of known words, odd ones and odd spaces, or any other."""
    parts = st.lists(st.one_of(pieces, st.sampled_from(SPACES), text), max_size=12)
    return st.one_of(text, parts.map("".join), parts.map(" ".join))


texts = mixed(anything)
batches = st.lists(texts, min_size=1, max_size=4)


def make(split_punctuation: bool = True) -> ToyBertTokenizer:
    vocab = {token: index for index, token in enumerate([*SPECIAL_TOKENS, *WORDS])}
    return ToyBertTokenizer(vocab, split_punctuation=split_punctuation)


TOKENIZERS = {True: make(True), False: make(False)}
split = st.sampled_from([True, False]).map(TOKENIZERS.get)
TOKENIZER = TOKENIZERS[True]


def learn(from_texts: list[str], split_punctuation: bool) -> ToyBertTokenizer:
    """Learns every word of some texts; a special token divides words when one encodes, and not when one learns."""
    plain = [re.sub(r"\[(PAD|UNK|CLS|SEP|MASK)\]", " ", text) for text in from_texts]
    return TOKENIZERS[split_punctuation].train_new_from_iterator(plain, vocab_size=1000, show_progress=False)


def normal(text: str) -> str:
    """Returns text as the tokenizer sees it: composed, and each letter in lower case by itself."""
    return "".join(letter.lower() for letter in unicodedata.normalize("NFC", text))


# The tokenizer


@claim
@given(split, texts)
def test_any_text_is_framed_and_every_id_is_of_the_vocabulary(tokenizer: ToyBertTokenizer, text: str) -> None:
    encoded = tokenizer(text)
    ids = encoded.input_ids
    assert (ids[0], ids[-1]) == (2, 3)
    assert all(0 <= index < len(tokenizer) for index in ids)
    assert encoded.token_type_ids == [0] * len(ids)
    assert encoded.attention_mask == [1] * len(ids)
    assert tokenizer.encode(text) == ids
    assert tokenizer(text, add_special_tokens=False).input_ids == ids[1:-1]


@claim
@given(split, texts, texts)
def test_any_pair_is_its_two_texts(tokenizer: ToyBertTokenizer, a: str, b: str) -> None:
    first, second = tokenizer(a).input_ids, tokenizer(b).input_ids
    pair = tokenizer([a], [b])  # alone, the library takes an empty second text for none
    assert pair.input_ids == [first + second[1:]]
    assert pair.token_type_ids == [[0] * len(first) + [1] * (len(second) - 1)]


@claim
@given(split, batches, st.integers(3, 70))
def test_a_text_is_the_same_in_any_batch_but_for_padding_and_cutting(
    tokenizer: ToyBertTokenizer, batch: list[str], longest: int
) -> None:
    encoded = tokenizer(batch, padding=True, truncation=True, max_length=longest)
    alone = [tokenizer(text).input_ids for text in batch]
    size = min(longest, max(map(len, alone)))
    for ids, types, real, whole in zip(
        encoded.input_ids, encoded.token_type_ids, encoded.attention_mask, alone, strict=True
    ):
        kept = whole if len(whole) <= longest else [*whole[: longest - 1], 3]
        padding = size - len(kept)
        assert ids == kept + [0] * padding
        assert types == [0] * size
        assert real == [1] * len(kept) + [0] * padding
    assert [tokenizer(text).input_ids for text in batch] == alone  # the call left no trace


@claim
@given(split, st.lists(texts, min_size=1, max_size=6))
def test_any_list_of_words_is_encoded_and_each_token_knows_its_word(
    tokenizer: ToyBertTokenizer, words: list[str]
) -> None:
    encoded = tokenizer(words, is_split_into_words=True)
    ids = [tokenizer(word, add_special_tokens=False).input_ids for word in words]
    assert encoded.input_ids == [2, *(index for word in ids for index in word), 3]
    assert encoded.word_ids()[1:-1] == [place for place, word in enumerate(ids) for _ in word]


@claim
@given(texts, st.characters(categories=["Cs"]), texts)
def test_a_lone_surrogate_gets_one_clear_error(before: str, lone: str, after: str) -> None:
    text = before + lone + after
    for call in (
        lambda: TOKENIZER(text),
        lambda: TOKENIZER(["a", text]),
        lambda: TOKENIZER("a", text),
        lambda: TOKENIZER([("a", text)]),
        lambda: TOKENIZER(["a", text], is_split_into_words=True),
    ):
        with pytest.raises(ValueError, match="lone surrogate"):
            call()


@claim
@given(st.booleans(), mixed(assigned))
@example(True, "e\u0301 =\u0338 a!\u0301 \u0958 \u037e \u1fef")  # what composes with a mark, or becomes one
@example(False, "caf\u0065\u0301. \u1112\u1161\u11ab")
def test_offsets_cut_the_tokens_out_of_the_text(split_punctuation: bool, text: str) -> None:
    encoded = learn([text], split_punctuation)(text, return_offsets_mapping=True, add_special_tokens=False)
    spans = [*encoded.offset_mapping, (len(text), len(text))]
    assert text[: spans[0][0]].strip(WHITE_SPACE) == ""
    for token, (first, last), (following, _) in zip(encoded.tokens(), spans, spans[1:], strict=False):
        assert first < last <= following
        piece, rest = text[first:last], text[last:following].rstrip(WHITE_SPACE)
        if token in SPECIAL_TOKENS:
            assert (piece, rest) == (token, "")
        else:
            assert normal(piece + rest) == token
        # An accent apart, at a word's end, became one with its letter, and only the letter counts.
        assert not rest or normal(piece + rest)[:-1] == normal(piece)[:-1]


@claim
@given(st.booleans(), st.booleans(), texts)
def test_what_was_decoded_encodes_to_the_same_ids(known: bool, split_punctuation: bool, text: str) -> None:
    tokenizer = learn([text], split_punctuation) if known else TOKENIZERS[split_punctuation]
    ids = tokenizer(text, add_special_tokens=False).input_ids
    decoded = tokenizer.decode(ids)
    assert tokenizer(decoded, add_special_tokens=False).input_ids == ids
    assert tokenizer.decode(tokenizer(decoded, add_special_tokens=False).input_ids) == decoded


@claim
@given(st.booleans(), batches)
def test_a_vocabulary_knows_every_word_that_it_was_learnt_from(split_punctuation: bool, batch: list[str]) -> None:
    tokenizer = learn(batch, split_punctuation)
    assert tokenizer.convert_ids_to_tokens(range(5)) == list(SPECIAL_TOKENS)
    assert sorted(tokenizer.get_vocab().values()) == list(range(len(tokenizer)))
    for text in batch:
        assert tokenizer(text).input_ids.count(1) == text.count("[UNK]")
    assert learn(batch, split_punctuation).get_vocab() == tokenizer.get_vocab()


words = st.one_of(st.sampled_from(["##s", " s", "s", "the", "ca", "cat", "cats"]), st.text(min_size=1, max_size=6))


@claim
@given(st.booleans(), st.lists(words, unique=True, max_size=8), st.lists(words, max_size=8), texts)
@example(False, ["cat", "##s", " s"], ["cat", "s"], "a" * 101)
def test_any_vocabulary_is_a_list_of_whole_words(
    whole: bool, known: list[str], stretches: list[str], text: str
) -> None:
    vocab = {word: index for index, word in enumerate(dict.fromkeys([*SPECIAL_TOKENS, *known]))}
    tokenizer = ToyBertTokenizer(vocab)
    if whole:  # the text as one word, white space and all
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Split("|", "removed")
    control = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    control.model = models.WordLevel(vocab, unk_token="[UNK]")
    for each in (text, "".join(stretches), "|".join(stretches), " ".join(stretches)):
        found, expected = tokenizer(each, return_offsets_mapping=True), control.encode(each)
        assert (found.input_ids, found.tokens()) == (expected.ids, expected.tokens)
        assert (found.offset_mapping, found.word_ids()) == (expected.offsets, expected.word_ids)


@slow_claim
@given(st.booleans(), batches)
def test_a_saved_tokenizer_encodes_alike(split_punctuation: bool, batch: list[str]) -> None:
    tokenizer = learn(batch, split_punctuation)
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        loaded = ToyBertTokenizer.from_pretrained(folder)
    assert dict(loaded(batch, padding=True)) == dict(tokenizer(batch, padding=True))
    assert loaded.get_vocab() == tokenizer.get_vocab()


# The pair maker

documents = st.lists(st.lists(texts, max_size=5), max_size=5)
few_words = st.lists(st.sampled_from(["the", "cat", "sat", "newt", "[SEP]", "."]), max_size=12).map(" ".join)
alike = st.lists(st.lists(few_words, max_size=5), max_size=6)


def encode_all(corpus: list[list[str]]) -> list[list[tuple[int, ...]]]:
    """Returns the ids of each sentence that has any."""
    ids = [[tuple(TOKENIZER(text, add_special_tokens=False).input_ids) for text in document] for document in corpus]
    return [[sentence for sentence in document if sentence] for document in ids]


@slow_claim
@given(st.one_of(documents, alike), st.integers(5, 24), st.integers(0, 3), st.sampled_from([0.15, 0.5, 1.0]))
def test_any_documents_give_right_pairs_or_are_refused(
    corpus: list[list[str]], longest: int, epoch: int, probability: float
) -> None:
    sentences = encode_all(corpus)
    pairs = [(number, document[i], document[i + 1])
             for number, document in enumerate(sentences) for i in range(len(document) - 1)]  # fmt: skip
    false = [[b for other, _, b in pairs if other != number and b != true] for number, _, true in pairs]
    try:
        dataset = PretrainDataset(corpus, TOKENIZER, max_length=longest, mlm_probability=probability)
    except ValueError as error:
        refused = str(error)
        assert not (pairs and all(false)), refused
        assert refused == NO_PAIRS if not pairs else "that could stand as a false next one" in refused
        return
    assert all(false)
    assert len(dataset) == 2 * len(pairs) > 0
    assert dataset.dropped == sum(map(len, corpus)) - sum(map(len, sentences))
    dataset.set_epoch(epoch)
    batch = dataset.__getitems__(range(len(dataset)))
    lengths = batch["attention_mask"].sum(1)
    assert lengths.max() <= longest
    assert (lengths <= torch.from_numpy(dataset.lengths)).all()
    for row, (_, a, b) in enumerate(pair for pair in pairs for _ in range(2)):
        check_row({name: values[row] for name, values in batch.items()}, a, b, false[row // 2], true=row % 2 == 0)


def check_row(
    row: dict[str, torch.Tensor], a: tuple[int, ...], b: tuple[int, ...], others: list[tuple[int, ...]], true: bool
) -> None:
    """Asserts that a row is A and its next sentence, or a false one, with some of their words hidden."""
    real, chosen = row["attention_mask"].bool(), row["labels"] != IGNORED
    ids = torch.where(chosen, row["labels"], row["input_ids"])
    assert (ids[~real] == 0).all()
    first = ids[real & (row["token_type_ids"] == 0)].tolist()
    second = ids[real & (row["token_type_ids"] == 1)].tolist()
    assert (first[0], first[-1], second[-1]) == (2, 3, 3)
    found_a, found_b = tuple(first[1:-1]), tuple(second[:-1])
    assert found_a
    assert found_b
    assert found_a == a[: len(found_a)]
    assert int(row["next_sentence_label"]) == true
    assert any(found_b == other[: len(found_b)] for other in ([b] if true else others))
    words = ids >= len(SPECIAL_TOKENS)
    assert not (chosen & ~words).any()
    assert chosen.any() == words.any()  # no row with a known word is without a target


@claim
@given(st.data())
def test_masking_keeps_its_rules_for_any_ids_and_any_noise(data: st.DataObject) -> None:
    V = data.draw(st.integers(6, 300))
    shape = data.draw(array_shapes(min_dims=1, max_dims=3, max_side=7))
    ids = torch.from_numpy(data.draw(arrays(np.int64, shape, elements=st.integers(0, V - 1))))
    unit = st.floats(0, 1, width=32, exclude_max=True)
    noise = torch.from_numpy(data.draw(arrays(np.float32, (3, *shape), elements=unit)))
    probability = data.draw(st.floats(0, 1, exclude_min=True))
    seen, labels = create_mlm_data(ids, noise, vocab_size=V, mlm_probability=probability)
    chosen, words = labels != IGNORED, ids >= len(SPECIAL_TOKENS)
    assert (chosen.any(-1) == words.any(-1)).all()
    assert not (chosen & ~words).any()
    assert torch.equal(labels[chosen], ids[chosen])
    assert torch.equal(seen[~chosen], ids[~chosen])
    assert ((seen[chosen] >= 4) & (seen[chosen] < V)).all()  # [MASK], or a word
