"""Masked words: which tokens are chosen to be predicted, and what the model sees in their place."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

IGNORED = -100  # what F.cross_entropy and every library call an absent label


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

    Every token that is not special is chosen with `mlm_probability`. If none is, the one that came nearest is, so that
    each row has a target. Of the chosen, 80 % become [MASK], 10 % become a random word, and 10 % stay as they are.

    Args:
        input_ids: integer (..., S). Special tokens, padding and [UNK] among them, are never chosen.
        noise: float in [0, 1), (3, ..., S): decides which tokens are chosen, what becomes of each, and its random word.
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


def uniforms(key: Sequence[int], rows: np.ndarray, columns: int) -> np.ndarray:
    """Draws numbers in [0, 1), float32 (len(rows), columns), each a pure function of (key, row, column).

    A generator object would need a new seed for every row. This computes all rows at once by splitmix64 (Steele et al.
    2014), whose output is a scrambled counter.
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
