"""Regression on features: is the answer high for a record like this one? (after Bertran et al. 2023)

A regression predicts, from a record's features and label, what models that did not see it answer; the
score says how far above that the target's answer stands. As in the paper's Gaussian variant the
prediction is a centre and a spread. The paper learns from the target's own answers about known
non-members; in a population the other models' answers about records they did not see are at hand,
and the target's membership need not be known at all. A record is never scored by a regression that
saw it: records are split into folds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.attacks.base import Attack, cross_fit_folds
from leakscope.errors import InputError
from leakscope.types import Design, Signals

_SMALLEST_SPREAD = 1e-3
_MOST_MODEL_FOLDS = 4


@dataclass(frozen=True, eq=False)
class QuantileRegression(Attack):
    """Log-odds standardised by what they should be, given the record's features.

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
    references = "both"
    source = "Bertran et al. 2023"

    def run(self, signals: Signals, design: Design, targets: IntArray, scores: FloatArray) -> None:
        """(log-odds - predicted centre) / predicted spread. The regressions hold all answers in memory."""
        x = self._inputs(np.broadcast_to(signals.labels, design.in_mask.shape)[0])
        record_fold = np.random.default_rng(self.seed).permutation(len(x)) % self.n_folds
        log_odds = signals.last("log_odds").astype(np.float64)
        for rows, others in cross_fit_folds(design.n_models, targets, _MOST_MODEL_FOLDS):
            centre, spread = _predicted(x, log_odds[others], ~design.in_mask[others], record_fold)
            scores[rows] = (log_odds[targets[rows]] - centre) / spread

    def _inputs(self, labels: AnyArray) -> AnyArray:
        if self.features is not None and len(self.features) != len(labels):
            raise InputError(f"features has {len(self.features)} rows, the bank {len(labels)} records")
        label = labels.reshape(-1, 1).astype(np.float32)
        if self.features is None:
            return label
        flat = np.asarray(self.features, dtype=np.float32).reshape(len(label), -1)
        return np.concatenate([label, flat], axis=1)


def _predicted(
    x: AnyArray, log_odds: FloatArray, out_mask: BoolArray, record_fold: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Centre and spread of OUT answers for each record, from the other folds' records; (columns,) each."""
    n_out = out_mask.sum(axis=0)
    mean = np.where(out_mask, log_odds, 0.0).sum(axis=0) / np.maximum(n_out, 1)
    centre, spread = np.empty(len(x)), np.empty(len(x))
    for fold in np.unique(record_fold):
        asked, known = record_fold == fold, (record_fold != fold) & (n_out > 0)
        fitted = _regression().fit(x[known], mean[known], n_out[known])
        misses = np.where(out_mask[:, known], np.abs(log_odds[:, known] - fitted.predict(x[known])), 0.0)
        usual_miss = misses.sum(axis=0) / n_out[known]
        centre[asked] = fitted.predict(x[asked])
        spread[asked] = _regression().fit(x[known], usual_miss, n_out[known]).predict(x[asked])
    return centre, np.maximum(spread, _SMALLEST_SPREAD)


def _regression() -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(max_iter=50, random_state=0)
