"""An attack, a signal and a dataset of your own, in one file; own_attack.toml uses all three."""

from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

import leakscope


def top_ratio(logits: Tensor, labels: Tensor) -> Tensor:
    """The signal: log of the largest over the second largest probability, negative if the model is wrong."""
    top = logits.topk(2).values
    is_right = logits.argmax(-1) == labels
    return (top[..., 0] - top[..., 1]) * (2 * is_right - 1)


@dataclass(frozen=True)
class Excess(leakscope.Attack):
    """By how much the signal exceeds its mean over the reference models trained without the record.

    Attributes:
        weight: the factor of that mean.
    """

    weight: float = 1.0

    name = "excess"
    needs = ("own_attack:top_ratio",)
    references = "out"

    def score(self, block: leakscope.attacks.Block) -> np.ndarray:
        values = block.signal("own_attack:top_ratio")  # (models, records)
        scores = np.empty((len(block.targets), values.shape[1]))
        for row, target in enumerate(block.targets):
            without = block.is_reference(row) & ~block.in_mask
            mean = (values * without).sum(axis=0) / np.maximum(without.sum(axis=0), 1)
            scores[row] = values[target] - self.weight * mean
        return scores


def noisy_digits(n_records: int = 1_000, flipped: float = 0.1, seed: int = 0) -> leakscope.Records:
    """The dataset: some of the digits, with a share of wrong labels."""
    digits = leakscope.load("digits").take(np.arange(n_records))
    rng = np.random.default_rng(seed)
    is_wrong = rng.random(n_records) < flipped
    labels = np.where(is_wrong, rng.integers(0, 10, n_records), digits.labels)
    return replace(digits, labels=labels, name="noisy digits")
