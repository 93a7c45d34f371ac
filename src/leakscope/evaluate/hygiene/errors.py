"""Errors of regression models: outputs that fit a target's own members worse than a constant are not its own.

They were not computed from the features it was trained on, or the list of members is wrong.
"""

from __future__ import annotations

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, IntArray
from leakscope.evaluate.hygiene.accuracy import NAME
from leakscope.evaluate.hygiene.causes import OF_OUTPUTS
from leakscope.evaluate.hygiene.outcome import Outcome, Status

_FAILS_FROM = 1.1  # errors relative to those of a constant


def check_errors(loss: AnyArray | None, in_mask: BoolArray, targets: IntArray, labels: AnyArray) -> Outcome:
    """Compares each target's errors on its members with those of their median label; reports the worst.

    Args:
        loss: squared errors, float (models, records); None: not known.
        in_mask: bool (models, records).
        targets: indices of the targets.
        labels: (records,) or (models, records).
    """
    if loss is None:
        return Outcome(NAME, "not checked", "Errors were not compared with those of a constant: unknown.")
    of_models = np.broadcast_to(labels, in_mask.shape)
    worst = max(_relative_error(loss[t], of_models[t], in_mask[t]) for t in targets.tolist())
    numbers = {"relative_error": worst}
    if np.isnan(worst):
        sentence = "Errors were not compared with those of a constant: the members' labels are all equal."
        return Outcome(NAME, "not checked", sentence, {})
    if worst < 1:
        sentence = "Targets predict the labels of their members better than a constant does."
        return Outcome(NAME, "ok", sentence, numbers)
    sentence = (
        f"On its own members, a target's mean absolute error is {worst:.2f} times that of always naming "
        "their median label."
    )
    status: Status = "failed" if worst >= _FAILS_FROM else "warning"
    return Outcome(NAME, status, sentence, numbers, OF_OUTPUTS)


def _relative_error(loss: AnyArray, labels: AnyArray, is_member: BoolArray) -> float:
    """Mean absolute error on members, relative to that of their median label; NaN where that is 0."""
    members = np.array(is_member)
    errors, own = np.sqrt(loss[members].astype(np.float64)), labels[members].astype(np.float64)
    of_constant = float(np.abs(own - np.median(own)).mean()) if len(own) else 0.0
    return float(errors.mean()) / of_constant if of_constant > 0 else float("nan")
