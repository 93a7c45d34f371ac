"""How well the targets fit their members and the other records, at every checkpoint of a bank."""

from __future__ import annotations

import numpy as np
import scipy

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.disk.scratch import over_blocks
from leakscope.evaluate.results import CheckpointFit
from leakscope.signals.registry import CLASSIFICATION, task_of
from leakscope.stats.rates import rates_by_model
from leakscope.types import Design, Signals


def checkpoint_fits(signals: Signals, design: Design, targets: IntArray) -> tuple[CheckpointFit, ...]:
    """Means over targets; none where the task has no accuracy."""
    if "correct" not in signals.arrays:
        return ()
    in_mask = design.rows(targets)
    n_classes = len(np.unique(signals.labels))
    has_classes = "log_odds" in signals.arrays and task_of(signals.labels, signals.arrays) == CLASSIFICATION
    return tuple(
        _fit(
            epoch,
            _rows(signals.arrays["correct"][:, at], targets),
            _rows(signals.arrays["log_odds"][:, at], targets) if has_classes else None,
            in_mask,
            n_classes,
        )
        for at, epoch in enumerate(signals.epochs)
    )


def _fit(
    epoch: int, correct: AnyArray, log_odds: AnyArray | None, in_mask: BoolArray, n_classes: int
) -> CheckpointFit:
    rates = rates_by_model(correct, in_mask)
    confidence = None if log_odds is None else _confidence(correct, log_odds, in_mask, n_classes)
    return CheckpointFit(epoch, float(rates.members.mean()), float(rates.nonmembers.mean()), confidence)


def _confidence(correct: AnyArray, log_odds: AnyArray, in_mask: BoolArray, n_classes: int) -> float | None:
    """Mean probability of the predicted class on non-members, at least.

    A bank stores the log-odds of the true class. Where the prediction is wrong, the predicted class has at
    least its share of the remaining probability; with two classes, all of it.
    """

    def totals(columns: slice) -> FloatArray:
        of_label = scipy.special.expit(np.asarray(log_odds[:, columns], dtype=np.float64))
        others = (1 - of_label) / max(n_classes - 1, 1)
        predicted = np.where(correct[:, columns], of_label, np.maximum(of_label, others))
        outside = ~in_mask[:, columns]
        return np.array([np.where(outside, predicted, 0).sum(), outside.sum()])

    total, n = np.sum(over_blocks(in_mask.shape[1], totals, correct, log_odds, in_mask), axis=0)
    return float(total / n) if n and np.isfinite(total) else None


def _rows(values: AnyArray, targets: IntArray) -> AnyArray:
    """The targets' rows; the array itself, not a copy, where these are all models."""
    is_all = len(targets) == len(values) and bool((targets == np.arange(len(values))).all())
    return values if is_all else values[targets]
