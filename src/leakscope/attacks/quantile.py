"""Regression: is the output high for a record with this label? (after Bertran et al. 2023)

A regression predicts, from a record's label, the log-odds (log-density, where models predict numbers) that
models give a record they were not trained on; the score is how far above the prediction the target's lie. As
in the paper's Gaussian variant the prediction is a center and a spread. The paper fits the target's own
outputs on known non-members, and regresses on the record's features. In a population the outputs of the other
models on records they were not trained on serve instead, and the target's membership need not be known. A
record is never scored by a regression fitted to it: records are split into folds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.attacks.base import Attack, cross_fit_folds
from leakscope.attacks.blocks import Blocks
from leakscope.attacks.label_fit import REGRESSION, LabelFit
from leakscope.types import Design, Signals

_SMALLEST_SPREAD = 1e-3
_MOST_MODEL_FOLDS = 4


@dataclass(frozen=True)
class QuantileRegression(Attack):
    """Log-odds (of a regression: log-density) standardized by what is expected for the record's label.

    Attributes:
        n_folds: folds of records.
        seed: of the folds.
    """

    n_folds: int = 3
    seed: int = 0

    name = "quantile"
    needs = ("log_odds",)
    needs_in_regression = (REGRESSION,)
    references = "out"
    in_memory = True
    orders_records = True
    source = "Bertran et al. 2023"

    def run(self, signals: Signals, design: Design, targets: IntArray, scores: FloatArray) -> None:
        """(fit - predicted center) / predicted spread."""
        labels = np.broadcast_to(signals.labels, design.in_mask.shape)[0]
        x = labels.reshape(-1, 1).astype(np.float32)
        blocks = Blocks(signals, design, targets, self.reads_from(signals))
        units = blocks.unit_numbers(slice(None))
        fold_of_unit = np.random.default_rng(self.seed).permutation(int(units.max()) + 1) % self.n_folds
        record_fold = fold_of_unit[units]
        fit = LabelFit.to(blocks).of(blocks.whole())
        for rows, others in cross_fit_folds(design.n_models, targets, _MOST_MODEL_FOLDS):
            center, spread = _predicted(x, fit[others], ~design.in_mask[others], record_fold)
            scores[rows] = (fit[targets[rows]] - center) / spread


def _predicted(
    x: AnyArray, fit: FloatArray, out_mask: BoolArray, record_fold: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Center and spread of the OUT fit for each record, from the records of other folds; (records,) each."""
    n_out = out_mask.sum(axis=0)
    mean = np.where(out_mask, fit, 0.0).sum(axis=0) / np.maximum(n_out, 1)
    center, spread = np.empty(len(x)), np.empty(len(x))
    for fold in np.unique(record_fold):
        here, known = record_fold == fold, (record_fold != fold) & (n_out > 0)
        fitted = _regression().fit(x[known], mean[known], n_out[known])
        misses = np.where(out_mask[:, known], np.abs(fit[:, known] - fitted.predict(x[known])), 0.0)
        mean_miss = misses.sum(axis=0) / n_out[known]
        center[here] = fitted.predict(x[here])
        spread[here] = _regression().fit(x[known], mean_miss, n_out[known]).predict(x[here])
    return center, np.maximum(spread, _SMALLEST_SPREAD)


def _regression() -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(max_iter=50, random_state=0)
