"""Words in, vectors out: what the word embeddings can start from, in place of random numbers."""

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix, hstack
from sklearn.utils.extmath import randomized_svd

from toybert.train.data.tokens import Tokens

REACH = 2  # words to either side that count as near
MOST = 2**19  # tokens that are counted, so that a large text takes no more time and memory
STRETCH = 256  # tokens of a document that are company for each other: in a book, all words would be
CONTEXTS = 1000  # words that the others are counted beside, the commonest, so that memory grows with V and not V^2
POWER = 0.25  # of the singular values: words that differ in little only, such as names, must not fall together


def word_vectors(tokens: Tokens, vocab_size: int, width: int, seed: int) -> np.ndarray:
    """Makes vectors, float32 (V, width), that are similar where words have the same neighbours and the same company.

    Half of a vector stands for the words within `REACH` places, each place apart, and half for those in the same
    document or stretch of it: positive pointwise mutual information, smoothed, reduced by a singular value
    decomposition (Levy, Goldberg & Dagan 2015). All are turned at random, which spreads the largest parts over all
    dimensions; their standard deviation is about 1. Words that do not occur, the special tokens among them, get random
    vectors.
    """
    random = np.random.default_rng(seed)
    ends = np.cumsum(tokens.length)
    texts = max(1, int(np.searchsorted(ends, MOST, side="right")))
    length = tokens.length[:texts]
    text = np.repeat(np.arange(texts), length)
    ids = tokens.ids[np.arange(len(text)) - np.repeat(ends[:texts] - length - tokens.start[:texts], length)]
    count = np.bincount(ids, minlength=vocab_size)
    common = np.argsort(-count, kind="stable")[:CONTEXTS]

    near = []
    for distance in range(1, REACH + 1):
        same = text[distance:] == text[:-distance]
        first, second = ids[:-distance][same], ids[distance:][same]
        after = counts(first, second, vocab_size, vocab_size)
        near += [after[:, common], after.T.tocsr()[:, common]]
    place = np.arange(len(ids))
    begins = np.diff(tokens.row[:texts][text], prepend=-1) != 0  # a document
    begins |= (place - np.maximum.accumulate(np.where(begins, place, 0))) % STRETCH == 0
    within = counts(ids, np.cumsum(begins) - 1, vocab_size, int(begins.sum())).minimum(1)
    company = (within @ within[common].T).tocoo()
    company.data[company.row == common[company.col]] = 0  # every word keeps itself company
    halves = [(hstack([information(part) for part in near], format="csr"), width // 2)]
    halves += [(information(company.tocsr()), width - width // 2)]
    vectors = np.hstack([principal(matrix, size, seed) for matrix, size in halves])

    vectors @= np.linalg.qr(random.standard_normal((width, width)))[0]
    absent = count == 0
    vectors[absent] = random.standard_normal((int(absent.sum()), width))
    return vectors.astype(np.float32)


def counts(rows: np.ndarray, columns: np.ndarray, height: int, width: int) -> csr_matrix:
    """Counts how often each row goes with each column, (height, width)."""
    return coo_matrix((np.ones(len(rows)), (rows, columns)), shape=(height, width)).tocsr()


def information(joint: csr_matrix) -> csr_matrix:
    """Turns counts into positive pointwise mutual information: by how much more often than by chance, in nats."""
    entries = joint.tocoo()
    entries.eliminate_zeros()
    rows, columns = (np.asarray(joint.sum(axis)).ravel() for axis in (1, 0))
    chance = columns**0.75 / max((columns**0.75).sum(), 1)  # else rare contexts seem to tell the most
    value = np.log(entries.data / rows[entries.row] / chance[entries.col])
    return coo_matrix((np.maximum(value, 0), (entries.row, entries.col)), shape=joint.shape).tocsr()


def principal(matrix: csr_matrix, size: int, seed: int) -> np.ndarray:
    """Reduces rows to their `size` principal parts, (V, size), with a standard deviation of 1."""
    known = min(size, *matrix.shape)
    left, singular, _ = randomized_svd(matrix, known, random_state=seed)
    parts = np.zeros((matrix.shape[0], size))
    parts[:, :known] = left * singular**POWER
    return parts / max(parts[parts.any(1)].std() if parts.any() else 0.0, 1e-9)
