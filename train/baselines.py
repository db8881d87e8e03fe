"""What can be had without a network: the numbers beside which a model's own have to stand."""

from collections.abc import Sequence

import numpy as np
import torch
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from toybert.train.data import IGNORED, PretrainDataset

C_GRID = (0.01, 0.1, 1.0, 10.0, 100.0)  # inverse strengths of regularisation to choose from on validation data


def unmasked(dataset: PretrainDataset, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gives rows as (B, S) ids with nothing hidden, and the labels."""
    batch = dataset.__getitems__(rows.tolist())
    labels = batch["labels"]
    return torch.where(labels == IGNORED, batch["input_ids"], labels).numpy(), labels.numpy()


class NeighbourCounts:
    """Guesses a word from how often it stood between its two neighbours in training.

    It scores a word w between l and r by p(w | l) p(r | w), each smoothed towards the words' own frequencies. It sees
    both neighbours even where they are masked for the model, which favours it.
    """

    def __init__(self, training: PretrainDataset, smoothing: float = 0.1):
        V = training.vocab_size
        self.bigrams = np.zeros((V, V))
        words = np.zeros(V)
        for start in range(0, len(training), 1024):
            ids, _ = unmasked(training, np.arange(start, min(start + 1024, len(training))))
            left, right = ids[:, :-1].ravel(), ids[:, 1:].ravel()
            real = right != training.tokenizer.pad_token_id
            np.add.at(self.bigrams, (left[real], right[real]), 1)
            np.add.at(words, ids.ravel(), 1)
        words[training.special_ids] = 0  # never a target
        self.frequency = (words + 1e-3) / (words + 1e-3).sum()
        self.smoothing = smoothing

    def unigram(self) -> int:
        """Gives the most frequent word."""
        return int(self.frequency.argmax())

    def between(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Gives the likeliest word between each pair of neighbours."""
        after = self.bigrams[left] + self.smoothing * self.frequency  # (N, V): c(l, w)
        before = self.bigrams[:, right].T + self.smoothing * self.frequency[right][:, None]  # (N, V): c(w, r)
        return (after * before / (self.bigrams.sum(1) + self.smoothing)).argmax(1)


def masked_word_baselines(
    training: PretrainDataset, held_out: PretrainDataset, content: np.ndarray
) -> dict[str, float]:
    """Gives the accuracies of the most frequent word, and of the word between its neighbours, at the held-out targets.

    Args:
        content: bool (V,), the words that are neither punctuation nor function words; "content_" figures are theirs.
    """
    counts = NeighbourCounts(training)
    truth, between = [], []
    for start in range(0, len(held_out), 256):
        ids, labels = unmasked(held_out, np.arange(start, min(start + 256, len(held_out))))
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


def pair_features(dataset: PretrainDataset, content: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gives two lengths and their difference (N, 3), what A and B share (N, 4), and the labels (N,)."""
    lengths, overlaps, labels = [], [], []
    for start in range(0, len(dataset), 1024):
        rows = np.arange(start, min(start + 1024, len(dataset)))
        ids, _ = unmasked(dataset, rows)
        batch = dataset.__getitems__(rows.tolist())
        for row, types, real in zip(ids, batch["token_type_ids"].numpy(), batch["attention_mask"].numpy(), strict=True):
            a, b = row[(types == 0) & (real == 1)][1:-1], row[types == 1][:-1]
            words_a, words_b = set(a.tolist()), set(b.tolist())
            shared = words_a & words_b
            shared_content = sum(content[word] for word in shared)
            lengths.append([len(a), len(b), abs(len(a) - len(b))])
            overlaps.append([len(shared), len(shared) / len(words_a | words_b), shared_content, min(shared_content, 1)])
        labels.append(batch["next_sentence_label"].numpy())
    return np.array(lengths, float), np.array(overlaps, float), np.concatenate(labels)


def next_sentence_baselines(
    training: PretrainDataset, held_out: dict[str, PretrainDataset], content: np.ndarray
) -> dict[str, float]:
    """Gives the accuracies of logistic regression on lengths and on shared words, on each held-out set.

    `held_out` maps a prefix of the figures' names to a set.
    """
    lengths, overlaps, labels = pair_features(training, content)
    by_length = LogisticRegression(max_iter=1000).fit(lengths, labels)
    by_overlap = LogisticRegression(max_iter=1000).fit(np.hstack([lengths, overlaps]), labels)
    figures = {}
    for prefix, dataset in held_out.items():
        lengths, overlaps, labels = pair_features(dataset, content)
        figures[f"{prefix}length_only_accuracy"] = float(by_length.score(lengths, labels))
        figures[f"{prefix}word_overlap_accuracy"] = float(by_overlap.score(np.hstack([lengths, overlaps]), labels))
    return figures


def text_baselines(
    train: tuple[Sequence[str], Sequence[int]],
    validation: tuple[Sequence[str], Sequence[int]],
    test: tuple[Sequence[str], Sequence[int]],
) -> dict[str, float]:
    """Gives the test accuracies of the commonest label and of logistic regression on words, and on words and bigrams.

    The regularisation is chosen on the validation set.
    """
    majority = np.bincount(train[1]).argmax()
    figures = {"majority_accuracy": float((np.array(test[1]) == majority).mean())}
    for name, longest in (("bag_of_words", 1), ("bag_of_bigrams", 2)):
        models = []
        for C in C_GRID:
            words = CountVectorizer(ngram_range=(1, longest), token_pattern=r"\w+|[^\w\s]")
            model = make_pipeline(words, LogisticRegression(C=C, max_iter=5000)).fit(*train)
            models.append((model.score(*validation), model))
        best = max(models, key=lambda scored: scored[0])[1]
        figures[f"{name}_accuracy"] = float(best.score(*test))
    return figures
