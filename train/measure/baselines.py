"""What can be reached without a network: the figures that a model has to beat."""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import combinations

import numpy as np
import torch
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from toybert.train.data.datasets import Batch, MaskedDataset, PretrainDataset
from toybert.train.data.masking import IGNORED

MOST_FEATURES = 2**22  # of pairs of words; in a vocabulary of over 2,048 words, some pairs share a feature
MOST_PAIRS = 50_000  # true ones, and as many false: each is a Python object, and a linear model gains nothing from more
SMOOTHING = 0.1  # occurrences added to those of each word, shared out by the frequency of its neighbours
C_GRID = (0.01, 0.1, 1.0, 10.0, 100.0)  # inverse strengths of regularisation to choose from on validation data
WORD = r"\w+|[^\w\s]"  # what the tokenizer takes for a word

Pairs = list[tuple[np.ndarray, np.ndarray]]  # the ids of A and of B
Labelled = tuple[Sequence[str], Sequence[int]]  # texts and their labels


def unmasked(dataset: MaskedDataset, rows: Sequence[int], size: int = 1024) -> Iterator[tuple[np.ndarray, Batch]]:
    """Yields rows in batches of a size: the ids with no word masked, (B, S), and the batch as the model sees it."""
    for start in range(0, len(rows), size):
        batch = dataset.__getitems__(rows[start : start + size])
        yield torch.where(batch["labels"] == IGNORED, batch["input_ids"], batch["labels"]).numpy(), batch


class NeighbourCounts:
    """Guesses a word from how often it stood between its two neighbours in training.

    It scores a word w between l and r by p(w | l) p(r | w), each smoothed towards the frequency of the word. Its
    advantage over the model: it sees both neighbours even where they are masked.
    """

    def __init__(self, training: MaskedDataset):
        V = training.vocab_size
        self.bigrams = csr_matrix((V, V))  # sparse: a large vocabulary's would not fit into memory
        words = np.zeros(V)
        for ids, _ in unmasked(training, range(len(training))):
            left, right = ids[:, :-1].ravel(), ids[:, 1:].ravel()
            real = right != training.tokenizer.pad_token_id
            self.bigrams += csr_matrix((np.ones(real.sum()), (left[real], right[real])), shape=(V, V))
            words += np.bincount(ids.ravel(), minlength=V)
        self.before = self.bigrams.T.tocsr()
        words[training.special_ids] = 0  # never a target
        self.frequency = (words + 1e-3) / (words + 1e-3).sum()
        self.counts = np.asarray(self.bigrams.sum(1)).ravel()  # how often each word is followed by one

    def between(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Returns the likeliest word between each pair of neighbours."""
        after = self.bigrams[left].toarray() + SMOOTHING * self.frequency  # (N, V): c(l, w)
        before = self.before[right].toarray() + SMOOTHING * self.frequency[right][:, None]  # (N, V): c(w, r)
        return (after * before / (self.counts + SMOOTHING)).argmax(1)


def commonest_word(training: MaskedDataset, held_out: MaskedDataset) -> float:
    """Measures the most frequent word of the training text as the answer at the held-out targets of epoch 0."""
    counts = training.word_counts
    counts[training.special_ids] = 0  # never a target
    held_out.set_epoch(0)
    labels = [batch["labels"].numpy() for _, batch in unmasked(held_out, range(len(held_out)))]
    targets = np.concatenate([each[each != IGNORED] for each in labels])
    return float((targets == counts.argmax()).mean())


def guesses(training: MaskedDataset, held_out: MaskedDataset) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns how frequent each word is in training (V,); and, at each held-out target (N,), the true word's id and the
    likeliest word between its neighbours.
    """
    counts = NeighbourCounts(training)
    truth, between = [], []
    step = min(256, 1 + 2**20 // training.vocab_size)  # rows: each target needs arrays as long as the vocabulary
    for ids, batch in unmasked(held_out, range(len(held_out)), step):
        row, column = np.nonzero(batch["labels"].numpy() != IGNORED)
        truth.append(ids[row, column])
        between.append(counts.between(ids[row, column - 1], ids[row, column + 1]))
    return counts.frequency, np.concatenate(truth), np.concatenate(between)


def masked_word_baselines(training: MaskedDataset, held_out: MaskedDataset, content: np.ndarray) -> dict[str, float]:
    """Measures two guesses at the held-out targets: the commonest word, and the likeliest one between the neighbours.

    The "content_" figures count only the targets that `content`, bool (V,), marks (see `content_words`).
    """
    frequency, target, guess = guesses(training, held_out)
    commonest_content = np.where(content, frequency, 0).argmax()
    known = content[target]
    return {
        "unigram_accuracy": float((target == frequency.argmax()).mean()),
        "unigram_loss": float(-np.log(frequency[target]).mean()),
        "bigram_accuracy": float((target == guess).mean()),
        "content_unigram_accuracy": float((target[known] == commonest_content).mean()),
        "content_bigram_accuracy": float((target[known] == guess[known]).mean()),
    }


def segments(dataset: PretrainDataset) -> tuple[Pairs, np.ndarray]:
    """Returns the ids of A and of B in each row, with no word masked, and the labels (N,).

    From a dataset of more than `MOST_PAIRS` true pairs, it takes that many and as many false ones, evenly spaced.
    """
    number = len(dataset) // 2
    chosen = np.arange(number) if number <= MOST_PAIRS else np.linspace(0, number - 1, MOST_PAIRS).astype(np.int64)
    pairs: Pairs = []
    labels: list[int] = []
    for ids, batch in unmasked(dataset, (2 * chosen[:, None] + np.arange(2)).ravel().tolist()):
        for row, types, real in zip(ids, batch["token_type_ids"].numpy(), batch["attention_mask"].numpy(), strict=True):
            pairs.append((row[(types == 0) & (real == 1)][1:-1], row[types == 1][:-1]))
        labels += batch["next_sentence_label"].tolist()
    return pairs, np.array(labels)


def length_features(pairs: Pairs) -> np.ndarray:
    """Counts the words of A and of B, and their difference, (N, 3)."""
    return np.array([[len(a), len(b), abs(len(a) - len(b))] for a, b in pairs], dtype=float)


def overlap_features(pairs: Pairs, content: np.ndarray) -> np.ndarray:
    """Adds to the lengths the number and share of words that A and B have in common, and of content words, (N, 7)."""
    rows = []
    for a, b in pairs:
        shared = np.intersect1d(a, b)
        known = int(content[shared].sum())
        rows.append([len(shared), len(shared) / len(np.union1d(a, b)), known, min(known, 1)])
    return np.hstack([length_features(pairs), np.array(rows, dtype=float)])


def word_pair_features(pairs: Pairs, vocab_size: int) -> csr_matrix:
    """Marks, sparse (N, V * V or less), each pair of a word of A and a word of B."""
    width = min(vocab_size**2, MOST_FEATURES)
    columns = [(np.unique(a)[:, None] * vocab_size + np.unique(b)[None]).ravel() % width for a, b in pairs]
    ends = np.concatenate([[0], np.cumsum([len(row) for row in columns])])
    indices = np.concatenate(columns)
    return csr_matrix((np.ones(len(indices)), indices, ends), shape=(len(pairs), width))


def next_sentence_baselines(
    training: PretrainDataset, held_out: dict[str, PretrainDataset], content: np.ndarray
) -> dict[str, float]:
    """Measures models of lengths, shared words and word pairs on held-out sets, by the prefixes of their figures."""
    pairs, labels = segments(training)
    tests = {prefix: segments(dataset) for prefix, dataset in held_out.items()}
    figures = {}
    for name, extract in (
        ("length_only", length_features),
        ("word_overlap", partial(overlap_features, content=content)),
        ("word_pairs", partial(word_pair_features, vocab_size=training.vocab_size)),
    ):
        # liblinear is fast for many sparse features; with its default tolerance it takes longer for the same figures
        model = LogisticRegression(solver="liblinear", tol=0.1 if name == "word_pairs" else 1e-4)
        model.fit(extract(pairs), labels)
        for prefix, (test_pairs, test_labels) in tests.items():
            figures[f"{prefix}{name}_accuracy"] = float(model.score(extract(test_pairs), test_labels))
    return figures


def ordered_pairs(text: str) -> list[str]:
    """Lists a text's words and all its pairs of words in their order."""
    found = re.findall(WORD, text.lower())
    return found + [f"{a} {b}" for a, b in combinations(found, 2)]


def text_baselines(train: Labelled, validation: Labelled, test: Labelled) -> dict[str, float]:
    """Measures the commonest label, and logistic regression on three kinds of features, on the test texts.

    The features are words, words and bigrams, and words and all ordered pairs of words, however far apart. The
    regularisation is chosen on the validation texts.
    """
    majority = np.bincount(train[1]).argmax()
    figures = {"majority_accuracy": float((np.array(test[1]) == majority).mean())}
    if len(set(train[1])) < 2:
        return figures  # there is nothing to tell apart
    for name, features in (
        ("bag_of_words", CountVectorizer(token_pattern=WORD)),
        ("bag_of_bigrams", CountVectorizer(token_pattern=WORD, ngram_range=(1, 2))),
        ("ordered_pairs", CountVectorizer(analyzer=ordered_pairs)),
    ):
        counts = features.fit_transform(train[0])
        models = [LogisticRegression(C=C, solver="liblinear").fit(counts, train[1]) for C in C_GRID]
        chosen_on = features.transform(validation[0])
        best = max(models, key=lambda model: model.score(chosen_on, validation[1]))
        figures[f"{name}_accuracy"] = float(best.score(features.transform(test[0]), test[1]))
    return figures
