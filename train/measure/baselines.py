"""What can be had without a network: the figures that a model has to beat."""

import re
from collections.abc import Callable, Sequence
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from toybert.train.data.datasets import MaskedDataset, PretrainDataset
from toybert.train.data.masking import IGNORED

MOST_FEATURES = 2**22  # of pairs of words; in a vocabulary of over 2,048 words, some pairs share a feature
MOST_PAIRS = 50_000  # true ones, and as many false: each is a Python object, and a linear model gains nothing from more
C_GRID = (0.01, 0.1, 1.0, 10.0, 100.0)  # inverse strengths of regularisation to choose from on validation data


def unmasked(dataset: MaskedDataset, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns rows as (B, S) ids with no word masked, and their labels."""
    batch = dataset.__getitems__(rows.tolist())
    labels = batch["labels"]
    return torch.where(labels == IGNORED, batch["input_ids"], labels).numpy(), labels.numpy()


class NeighbourCounts:
    """Guesses a word from how often it stood between its two neighbours in training.

    It scores a word w between l and r by p(w | l) p(r | w), each smoothed towards the frequency of the word. Its
    advantage over the model: it sees both neighbours even where they are masked.
    """

    def __init__(self, training: MaskedDataset, smoothing: float = 0.1):
        V = training.vocab_size
        self.bigrams = csr_matrix((V, V))  # a large vocabulary's would not fit into memory
        words = np.zeros(V)
        for start in range(0, len(training), 1024):
            ids, _ = unmasked(training, np.arange(start, min(start + 1024, len(training))))
            left, right = ids[:, :-1].ravel(), ids[:, 1:].ravel()
            real = right != training.tokenizer.pad_token_id
            self.bigrams += csr_matrix((np.ones(real.sum()), (left[real], right[real])), shape=(V, V))
            np.add.at(words, ids.ravel(), 1)
        self.before = self.bigrams.T.tocsr()
        words[training.special_ids] = 0  # never a target
        self.frequency = (words + 1e-3) / (words + 1e-3).sum()
        self.counts = np.asarray(self.bigrams.sum(1)).ravel()  # how often each word is followed by one
        self.smoothing = smoothing

    def unigram(self) -> int:
        """Returns the most frequent word."""
        return int(self.frequency.argmax())

    def between(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Returns the likeliest word between each pair of neighbours."""
        after = self.bigrams[left].toarray() + self.smoothing * self.frequency  # (N, V): c(l, w)
        before = self.before[right].toarray() + self.smoothing * self.frequency[right][:, None]  # (N, V): c(w, r)
        return (after * before / (self.counts + self.smoothing)).argmax(1)


def masked_word_baselines(training: MaskedDataset, held_out: MaskedDataset, content: np.ndarray) -> dict[str, float]:
    """Measures two guesses at the held-out targets: the most frequent word, and the likeliest between the neighbours.

    Args:
        content: bool (V,), the words that are neither punctuation nor function words, for the "content_" figures.
    """
    counts = NeighbourCounts(training)
    truth, between = [], []
    step = min(256, 1 + 2**20 // training.vocab_size)  # rows: each target needs arrays as long as the vocabulary
    for start in range(0, len(held_out), step):
        ids, labels = unmasked(held_out, np.arange(start, min(start + step, len(held_out))))
        row, column = np.nonzero(labels != IGNORED)
        truth.append(labels[row, column])
        between.append(counts.between(ids[row, column - 1], ids[row, column + 1]))
    target, guess = np.concatenate(truth), np.concatenate(between)
    commonest_content = np.where(content, counts.frequency, 0).argmax()
    known = content[target]
    return {
        "unigram_accuracy": float((target == counts.unigram()).mean()),
        "unigram_loss": float(-np.log(counts.frequency[target]).mean()),
        "bigram_accuracy": float((target == guess).mean()),
        "content_unigram_accuracy": float((target[known] == commonest_content).mean()),
        "content_bigram_accuracy": float((target[known] == guess[known]).mean()),
    }


def segments(dataset: PretrainDataset) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray]:
    """Returns the ids of A and of B in each row, with no word masked, and the labels (N,).

    From a dataset of more than `MOST_PAIRS` true pairs, it takes that many and as many false ones, evenly spaced.
    """
    number = len(dataset) // 2
    chosen = np.arange(number) if number <= MOST_PAIRS else np.linspace(0, number - 1, MOST_PAIRS).astype(np.int64)
    every_row = (2 * chosen[:, None] + np.arange(2)).reshape(-1)
    pairs, labels = [], []
    for start in range(0, len(every_row), 1024):
        rows = every_row[start : start + 1024]
        ids, _ = unmasked(dataset, rows)
        batch = dataset.__getitems__(rows.tolist())
        for row, types, real in zip(ids, batch["token_type_ids"].numpy(), batch["attention_mask"].numpy(), strict=True):
            pairs.append((row[(types == 0) & (real == 1)][1:-1], row[types == 1][:-1]))
        labels.append(batch["next_sentence_label"].numpy())
    return pairs, np.concatenate(labels)


def length_features(pairs: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Counts the words of A and of B, and their difference, (N, 3)."""
    return np.array([[len(a), len(b), abs(len(a) - len(b))] for a, b in pairs], dtype=float)


def overlap_features(pairs: list[tuple[np.ndarray, np.ndarray]], content: np.ndarray) -> np.ndarray:
    """Adds to the lengths how many words A and B share, as a share of all too, and how many content words, (N, 7)."""
    rows = []
    for a, b in pairs:
        shared = np.intersect1d(a, b)
        known = int(content[shared].sum())
        rows.append([len(shared), len(shared) / len(np.union1d(a, b)), known, min(known, 1)])
    return np.hstack([length_features(pairs), np.array(rows, dtype=float)])


def word_pair_features(pairs: list[tuple[np.ndarray, np.ndarray]], vocab_size: int) -> csr_matrix:
    """Marks, sparse (N, V * V or less), each pair of a word of A and a word of B."""
    width = min(vocab_size**2, MOST_FEATURES)
    columns = [(np.unique(a)[:, None] * vocab_size + np.unique(b)[None]).ravel() % width for a, b in pairs]
    ends = np.concatenate([[0], np.cumsum([len(row) for row in columns])])
    indices = np.concatenate(columns)
    return csr_matrix((np.ones(len(indices)), indices, ends), shape=(len(pairs), width))


def next_sentence_baselines(
    training: PretrainDataset, held_out: dict[str, PretrainDataset], content: np.ndarray
) -> dict[str, float]:
    """Measures logistic regression on each held-out set: on lengths, on shared words, and on pairs of words.

    Args:
        held_out: the sets, by the prefixes of their figures' names.
    """
    features: dict[str, Callable[[list[tuple[np.ndarray, np.ndarray]]], Any]] = {
        "length_only": length_features,
        "word_overlap": lambda pairs: overlap_features(pairs, content),
        "word_pairs": lambda pairs: word_pair_features(pairs, training.vocab_size),
    }
    pairs, labels = segments(training)
    tests = {prefix: segments(dataset) for prefix, dataset in held_out.items()}
    figures = {}
    for name, extract in features.items():
        # liblinear is fast for many sparse features; with its default tolerance it takes longer for the same figures
        model = LogisticRegression(solver="liblinear", tol=0.1 if name == "word_pairs" else 1e-4)
        model.fit(extract(pairs), labels)
        for prefix, (test_pairs, test_labels) in tests.items():
            figures[f"{prefix}{name}_accuracy"] = float(model.score(extract(test_pairs), test_labels))
    return figures


def words(text: str) -> list[str]:
    """Splits a text as the tokenizer does."""
    return re.findall(r"\w+|[^\w\s]", text.lower())


def bigrams(text: str) -> list[str]:
    """Lists a text's words and its pairs of neighbours."""
    found = words(text)
    return found + [f"{a} {b}" for a, b in pairwise(found)]


def ordered_pairs(text: str) -> list[str]:
    """Lists a text's words and all its pairs of words in their order."""
    found = words(text)
    return found + [f"{a} {b}" for a, b in combinations(found, 2)]


def text_baselines(
    train: tuple[Sequence[str], Sequence[int]],
    validation: tuple[Sequence[str], Sequence[int]],
    test: tuple[Sequence[str], Sequence[int]],
) -> dict[str, float]:
    """Measures the commonest label, and logistic regression on three kinds of features, on the test texts.

    The features are words, words and bigrams, and words and all ordered pairs of words, however far apart. The
    regularisation is chosen on the validation texts.
    """
    majority = np.bincount(train[1]).argmax()
    figures = {"majority_accuracy": float((np.array(test[1]) == majority).mean())}
    if len(set(train[1])) < 2:
        return figures  # there is nothing to tell apart
    for name, analyzer in (("bag_of_words", words), ("bag_of_bigrams", bigrams), ("ordered_pairs", ordered_pairs)):
        models = []
        for C in C_GRID:
            features = CountVectorizer(analyzer=analyzer)
            model = make_pipeline(features, LogisticRegression(C=C, solver="liblinear")).fit(*train)
            models.append((model.score(*validation), model))
        best = max(models, key=lambda scored: scored[0])[1]
        figures[f"{name}_accuracy"] = float(best.score(*test))
    return figures
