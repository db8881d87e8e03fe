"""Claims about the vectors that word embeddings can start from."""

import numpy as np
import pytest
import torch
from helpers import SMALL

from toybert.configuration_toybert import ToyBertConfig
from toybert.modeling_toybert import ToyBertForPreTraining
from toybert.tokenization_toybert import ToyBertTokenizer
from toybert.train.data.tokens import Tokens, tokenise_in_memory
from toybert.train.data.vectors import word_vectors
from toybert.train.loop.network import start_from

# The colours stand in the same places, and so do the animals; "sea" and "ship" share documents, and no place.
DOCUMENTS = [
    [f"the {colour} {animal} ran away .", topic]
    for colour in ("red", "green", "blue")
    for animal in ("dog", "cat", "cow")
    for topic in ("the sea was wide , so no ship came .", "bread is good and the oven hot .")
]
TOKENIZER = ToyBertTokenizer().train_new_from_iterator(DOCUMENTS, vocab_size=100, show_progress=False)
NUMBER = TOKENIZER.get_vocab()


def tokens(documents: list[list[str]]) -> Tokens:
    return tokenise_in_memory(documents, TOKENIZER, np.arange(len(documents)))


def similarity(vectors: np.ndarray, first: str, second: str) -> float:
    a, b = vectors[NUMBER[first]], vectors[NUMBER[second]]
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_words_with_the_same_neighbours_or_topics_get_similar_vectors() -> None:
    vectors = word_vectors(tokens(DOCUMENTS), len(NUMBER), 16, seed=0)
    assert similarity(vectors, "red", "blue") > similarity(vectors, "red", "dog") + 0.3
    assert similarity(vectors, "dog", "cow") > similarity(vectors, "dog", "blue") + 0.3
    assert similarity(vectors, "sea", "ship") > similarity(vectors, "sea", "bread") + 0.3


def test_vectors_are_a_function_of_text_and_seed_and_of_unit_size() -> None:
    text = tokens(DOCUMENTS)
    vectors = word_vectors(text, len(NUMBER), 32, seed=0)
    assert vectors.dtype == np.float32
    assert np.array_equal(vectors, word_vectors(text, len(NUMBER), 32, seed=0))
    assert not np.array_equal(vectors, word_vectors(text, len(NUMBER), 32, seed=1))
    assert 0.7 < vectors.std() < 1.3


@pytest.mark.parametrize("documents", [[["dog"]], [["dog cat"]], [["dog", "cat"], ["cow"]]])
def test_any_text_gives_numbers_and_each_absent_word_a_vector_of_its_own(documents: list[list[str]]) -> None:
    vectors = word_vectors(tokens(documents), len(NUMBER), 64, seed=0)  # wider than there are words
    assert np.isfinite(vectors).all()
    absent = vectors[[NUMBER["[MASK]"], NUMBER["oven"], NUMBER["ship"]]]
    assert np.abs(np.corrcoef(absent) - np.eye(3)).max() < 0.6
    assert 0.6 < absent.std() < 1.4


def test_only_so_many_tokens_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, beginning = tokens(DOCUMENTS), tokens(DOCUMENTS[:3])
    expected = word_vectors(beginning, len(NUMBER), 16, seed=0)
    monkeypatch.setattr("toybert.train.data.vectors.MOST", int(beginning.length.sum()) + 1)  # no room for a text more
    assert np.array_equal(word_vectors(whole, len(NUMBER), 16, seed=0), expected)


def test_only_a_stretch_of_a_long_document_is_company(monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = [sentence for document in DOCUMENTS for sentence in document if len(sentence.split()) == 6]
    apart = tokens([[sentence] for sentence in sentences])
    expected = word_vectors(apart, len(NUMBER), 16, seed=0)
    assert not np.array_equal(word_vectors(tokens([sentences]), len(NUMBER), 16, seed=0), expected)
    monkeypatch.setattr("toybert.train.data.vectors.STRETCH", 6)
    assert np.array_equal(word_vectors(tokens([sentences]), len(NUMBER), 16, seed=0), expected)


def test_a_model_starts_from_the_vectors_and_its_output_stays_tied_to_them() -> None:
    torch.manual_seed(0)
    model = ToyBertForPreTraining(ToyBertConfig(vocab_size=len(NUMBER), **SMALL))
    before = model.bert.embeddings.token.weight.detach().clone()
    vectors = word_vectors(tokens(DOCUMENTS), len(NUMBER), 32, seed=0)
    start_from(model, vectors)
    after = model.bert.embeddings.token.weight
    torch.testing.assert_close(after[1:] - before[1:], torch.from_numpy(vectors[1:]) * 2 * SMALL["initializer_range"])
    assert torch.equal(after[0], before[0])  # padding
    assert model.mlm_head.decoder.weight is after
