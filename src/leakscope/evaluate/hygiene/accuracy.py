"""Shadow accuracy far from the target's: models that learned something else are no references."""

from __future__ import annotations

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.evaluate.hygiene.outcome import ALARM, Outcome, odd_one
from leakscope.stats.rates import rates_by_model

NAME = "accuracy"
_LEAST_OTHERS = 3
_WARNS_FROM, _FAILS_FROM = 0.02, 0.05


def check_accuracy(correct: AnyArray | None, in_mask: BoolArray, targets: IntArray) -> Outcome:
    """Each target's accuracy on members and non-members against the other models', most deviant first.

    Args:
        correct: bool (models, records); None: the task has no accuracy.
        in_mask: bool (models, records).
        targets: model indices.
    """
    if correct is None or len(in_mask) <= _LEAST_OTHERS:
        why = "there is none" if correct is None else f"{_LEAST_OTHERS} other models are needed"
        return Outcome(NAME, "not checked", f"Accuracy was not compared with other models': {why}.")
    rates = rates_by_model(correct, in_mask)
    found = [
        (*_deviation(rate, n_asked, target), side)
        for side, rate, n_asked in (
            ("members", rates.members, rates.n_members),
            ("non-members", rates.nonmembers, rates.n_nonmembers),
        )
        for target in targets.tolist()
    ]
    p_value, own, others, side = min(found)
    corrected, gap = min(p_value * len(found), 1.0), abs(own - others)
    numbers = {"target": own, "others": others, "p_value": corrected}
    if corrected >= ALARM or gap < _WARNS_FROM or np.isnan(p_value):
        return Outcome(NAME, "ok", "Targets and reference models are equally accurate.", numbers)
    sentence = (
        f"A target gets {own:.1%} of its {side} right, the other models {others:.1%} of theirs: they were "
        "trained otherwise, so what they say about it is not to be trusted."
    )
    return Outcome(NAME, "failed" if gap >= _FAILS_FROM else "warning", sentence, numbers)


def _deviation(accuracy: FloatArray, n_asked: IntArray, target: int) -> tuple[float, float, float]:
    """Two-sided p-value, the target's accuracy and the others' mean."""
    others = np.delete(accuracy, target)
    others = others[~np.isnan(others)]
    own, n = float(accuracy[target]), int(n_asked[target])
    if len(others) < _LEAST_OTHERS or np.isnan(own):
        return 1.0, own, float("nan")
    shrunk = (others.mean() * n + 1) / (n + 2)
    found = odd_one(own, others, shrunk * (1 - shrunk) / n)
    return 2 * min(found.p_lower, found.p_upper), own, found.expected
