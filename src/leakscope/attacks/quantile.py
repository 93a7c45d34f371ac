"""Quantile regression: is the answer high for a record like this one? (Bertran et al. 2023)

No shadow models: a regression predicts, from a record's features and label, the distribution of the
target's log-odds over non-members; the score says how far above it the record stands. As in the
paper's Gaussian variant the predicted distribution is a mean and a spread. The attacker knows some
non-members: records are split into folds, and a fold is scored by a regression on the other folds'
non-members.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from leakscope.attacks.base import Attack
from leakscope.errors import InputError
from leakscope.types import AnyArray, Design, FloatArray, IntArray, Signals

_SMALLEST_SPREAD = 1e-3


@dataclass(frozen=True, eq=False)
class QuantileRegression(Attack):
    """Standardised log-odds given the record's features.

    Attributes:
        features: float (columns, ...), the records' features; without them only the label is used.
        n_folds: folds of records.
        seed: of the folds.
    """

    features: AnyArray | None = None
    n_folds: int = 3
    seed: int = 0

    name = "quantile"
    needs = ("log_odds",)

    def run(self, signals: Signals, design: Design, targets: IntArray) -> FloatArray:
        """(log-odds - predicted mean) / predicted spread; float64 (targets, columns)."""
        n_records = design.n_columns
        if self.features is not None and len(self.features) != n_records:
            raise InputError(f"features has {len(self.features)} rows, the bank {n_records} records")
        labels = np.broadcast_to(signals.labels, design.in_mask.shape)
        fold = np.random.default_rng(self.seed).permutation(n_records) % self.n_folds
        log_odds = signals.last("log_odds").astype(np.float64)
        scores = np.empty((len(targets), n_records))
        for row, target in enumerate(targets):
            x = self._inputs(labels[target])
            for held_out in range(self.n_folds):
                asked = fold == held_out
                known = ~asked & ~design.in_mask[target]
                scores[row, asked] = _standardised(
                    x[known], log_odds[target, known], x[asked], log_odds[target, asked]
                )
        return scores

    def _inputs(self, labels: AnyArray) -> AnyArray:
        label = labels.reshape(-1, 1).astype(np.float32)
        if self.features is None:
            return label
        flat = np.asarray(self.features, dtype=np.float32).reshape(len(label), -1)
        return np.concatenate([label, flat], axis=1)


def _standardised(known_x: AnyArray, known_s: FloatArray, x: AnyArray, s: FloatArray) -> FloatArray:
    centre = _regression().fit(known_x, known_s)
    misses = np.abs(known_s - centre.predict(known_x))
    spread = _regression().fit(known_x, misses).predict(x)
    result: FloatArray = (s - centre.predict(x)) / np.maximum(spread, _SMALLEST_SPREAD)
    return result


def _regression() -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(max_iter=50, random_state=0)
