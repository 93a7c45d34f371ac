"""Confidence: references that are far more or less certain than the target were not trained like it.

A model's confidence is its mean absolute log-odds; of a regression model, the mean absolute residual is
compared. Of a language model it is the mean loss: log-odds of a document are near 0 where its tokens have a
probability of one half, and far from 0 both for a model that knows the document and for one that does not.
Accuracy misses a recipe that changes only this: another regularization, another number of epochs,
another temperature.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray
from leakscope.disk.scratch import over_blocks
from leakscope.evaluate.hygiene.causes import OF_REFERENCES
from leakscope.evaluate.hygiene.outcome import Outcome, UsualSpread, prediction_test

NAME = "confidence"
Quantity = Literal["log-odds", "residuals", "loss"]
_LEAST_OTHERS = 3
_WARNS_FROM, _FAILS_FROM = 1.25, 1.5
_ALARM = 0.005  # a factor this large is rare between trainings of one recipe, so less evidence will do
_USUAL = UsualSpread(0.1**2, 4)
"""The logarithm of the confidence usually varies by a tenth between trainings of one recipe."""
_LARGEST = 50.0  # log-odds beyond this mean certainty, and float32 rounds there


def check_confidence(
    values: AnyArray | None, in_mask: BoolArray, target: int, quantity: Quantity = "log-odds"
) -> Outcome:
    """Compares the target's confidence, on members and on non-members, with that of its references.

    Args:
        values: float (models, records), what is compared; None: not known.
        in_mask: bool (models, records).
        target: index of the target.
        quantity: what the values are: log-odds of the true class, residuals of a regression, or the loss of
            documents.
    """
    if values is None or len(in_mask) <= _LEAST_OTHERS:
        reason = "it is not known" if values is None else f"it takes {_LEAST_OTHERS} reference models"
        return Outcome(
            NAME, "not checked", f"Confidence was not compared with that of other models: {reason}."
        )
    sides = zip(("members", "non-members"), mean_confidence(values, in_mask), strict=True)
    deviations = [(*_deviation(by_model, target), side) for side, by_model in sides]
    p_value, log_ratio, side = min(deviations)
    ratio = float(np.exp(log_ratio))
    numbers = {"ratio": ratio, "p_value": min(2 * p_value, 1.0)}
    excess = max(ratio, 1 / ratio)
    if numbers["p_value"] >= _ALARM or excess < _WARNS_FROM:
        fits = "is about as confident" if quantity == "log-odds" else "errs about as much"
        return Outcome(NAME, "ok", f"The target {fits} as its reference models.", numbers)
    sentence = (
        f"On its {side}, the target {_differs(excess, ratio > 1, quantity)}. Attacks that use them as "
        "references are not reliable."
    )
    return Outcome(NAME, "failed" if excess >= _FAILS_FROM else "warning", sentence, numbers, OF_REFERENCES)


def _differs(excess: float, is_higher: bool, quantity: Quantity) -> str:
    if quantity == "residuals":
        size = "large" if is_higher else "small"
        return f"has residuals {excess:.1f} times as {size} as the reference models have on theirs"
    if quantity == "loss":
        size = "high" if is_higher else "low"
        return f"has a mean loss {excess:.1f} times as {size} as the reference models have on theirs"
    return (
        f"is {excess:.1f} times {'more' if is_higher else 'less'} confident than the reference models are on "
        "theirs (mean absolute log-odds)"
    )


def mean_confidence(values: AnyArray, in_mask: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Mean absolute value of each model's members and non-members; float64 (models,), NaN without any."""

    def totals(columns: slice) -> FloatArray:
        size, mask = np.abs(np.clip(values[:, columns], -_LARGEST, _LARGEST)), in_mask[:, columns]
        members = np.where(mask, size, 0).sum(axis=1, dtype=np.float64)
        return np.stack([members, size.sum(axis=1, dtype=np.float64) - members, mask.sum(axis=1)])

    blocks = over_blocks(in_mask.shape[1], totals, values, in_mask)
    members, others, n_members = np.sum(blocks, axis=0)  # (models,) each
    with np.errstate(invalid="ignore", divide="ignore"):
        return members / n_members, others / (in_mask.shape[1] - n_members)


def _deviation(confidence: FloatArray, target: int) -> tuple[float, float]:
    """Two-sided p-value and log ratio of the target's confidence to that of the others."""
    logs = np.log(np.maximum(confidence, 1e-12))
    others = np.delete(logs, target)
    others = others[~np.isnan(others)]
    if len(others) < _LEAST_OTHERS or np.isnan(logs[target]):
        return 1.0, 0.0
    test = prediction_test(float(logs[target]), others, usual=_USUAL)
    return 2 * min(test.p_lower, test.p_upper), float(logs[target]) - test.expected
