"""Accuracy: reference models that are far more or less accurate than the target are poor references."""

from __future__ import annotations

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.evaluate.hygiene.outcome import ALARM, CAUSES, Outcome, prediction_test
from leakscope.stats.rates import rates_by_model

NAME = "accuracy"
_LEAST_OTHERS = 3
_WARNS_FROM, _FAILS_FROM = 0.02, 0.05


def check_accuracy(correct: AnyArray | None, in_mask: BoolArray, targets: IntArray) -> Outcome:
    """Compares each target's accuracy with that of the other models, and reports the most deviant.

    Args:
        correct: bool (models, records); None: the task has no accuracy.
        in_mask: bool (models, records).
        targets: indices of the targets.
    """
    if correct is None or len(in_mask) <= _LEAST_OTHERS:
        reason = "the task has none" if correct is None else f"it takes {_LEAST_OTHERS} other models"
        return Outcome(NAME, "not checked", f"Accuracy was not compared with that of other models: {reason}.")
    rates = rates_by_model(correct, in_mask)
    deviations = [
        (*_deviation(rate, n_records, target), side)
        for side, rate, n_records in (
            ("members", rates.members, rates.n_members),
            ("non-members", rates.nonmembers, rates.n_nonmembers),
        )
        for target in targets.tolist()
    ]
    p_value, own, others, side = min(deviations)
    corrected, gap = min(p_value * len(deviations), 1.0), abs(own - others)
    numbers = {"target": own, "others": others, "p_value": corrected}
    if corrected >= ALARM or gap < _WARNS_FROM or np.isnan(p_value):
        return Outcome(NAME, "ok", "Targets and reference models have similar accuracy.", numbers)
    sentence = (
        f"A target has an accuracy of {own:.1%} on its {side}, the other models have {others:.1%} on theirs. "
        "Attacks that use them as references are not reliable."
    )
    causes = CAUSES if len(targets) == 1 else ()
    return Outcome(NAME, "failed" if gap >= _FAILS_FROM else "warning", sentence, numbers, causes)


def _deviation(accuracy: FloatArray, n_records: IntArray, target: int) -> tuple[float, float, float]:
    """Two-sided p-value, the target's accuracy and the others' mean."""
    others = np.delete(accuracy, target)
    others = others[~np.isnan(others)]
    own, n = float(accuracy[target]), int(n_records[target])
    if len(others) < _LEAST_OTHERS or np.isnan(own):
        return 1.0, own, float("nan")
    shrunk = (others.mean() * n + 1) / (n + 2)
    test = prediction_test(own, others, shrunk * (1 - shrunk) / n)
    return 2 * min(test.p_lower, test.p_upper), own, test.expected
