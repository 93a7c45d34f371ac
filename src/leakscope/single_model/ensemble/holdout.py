"""Attackers fitted on one part of the public records and judged on the other.

The attacker that is judged is the attacker that scores the private records: it is not fitted again on all
public records, so the validation figures are about this very attacker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.data.predictions import Predictions
from leakscope.errors import InputError
from leakscope.randomness import Purpose, generator, seed_integer
from leakscope.single_model.ensemble.attackers import (
    CALIBRATION_FOLDS,
    Attacker,
    FittedAttacker,
    MembershipScores,
    fit,
)
from leakscope.stats.intervals import clopper_pearson, delong_of_split
from leakscope.stats.roc import split_scores
from leakscope.stats.roc_summary import operating_point_of_split

FPR_BUDGET = 0.05
"""The published attack is judged at this false positive rate."""
TPR_INTERVAL = "Clopper-Pearson at a threshold chosen on the same records"


class Split(NamedTuple):
    """Which public records are learned from and which are judged on; int64, rising."""

    training: IntArray
    validation: IntArray


@dataclass(frozen=True, eq=False)
class Validated:
    """A fitted attacker and its scores of the validation records."""

    fitted: FittedAttacker
    scores: MembershipScores


def split_public(is_member: BoolArray, validation_share: float, seed: int) -> Split:
    """A random share of the members and of the non-members is held out.

    Raises:
        InputError: the share is not between 0 and 1, or a part would have too few of a side.
    """
    if not 0 < validation_share < 1:
        raise InputError(f"validation_share={validation_share}: must be between 0 and 1, like 0.25")
    rng = generator(seed, 0, Purpose.DESIGN)
    held_out = np.zeros(len(is_member), dtype=np.bool_)
    for side, what in ((is_member, "members"), (~is_member, "non-members")):
        index = rng.permutation(np.flatnonzero(side))
        n_held_out = round(validation_share * len(index))
        if n_held_out < 2 or len(index) - n_held_out < CALIBRATION_FOLDS:
            raise InputError(
                f"{len(index)} public {what} are too few: validation_share={validation_share:g} leaves "
                f"{len(index) - n_held_out} to learn from (at least {CALIBRATION_FOLDS}) and {n_held_out} "
                "to judge on (at least 2); give more public records"
            )
        held_out[index[:n_held_out]] = True
    return Split(np.flatnonzero(~held_out), np.flatnonzero(held_out))


def fit_and_validate(
    attackers: Sequence[Attacker], public: Predictions, split: Split, seed: int
) -> list[Validated]:
    """Each attacker, fitted on the training part, with its scores of the validation part."""
    if public.is_member is None:
        raise InputError("the public predictions must say who is a member; add is_member")
    learn, judge = split
    seed32 = seed_integer(seed, 0, Purpose.ESTIMATOR, bits=31)
    found = []
    for attacker in attackers:
        fitted = fit(attacker, public.logits[learn], public.labels[learn], public.is_member[learn], seed32)
        found.append(Validated(fitted, fitted.scores(public.logits[judge], public.labels[judge])))
    return found


def figures(scores: FloatArray, is_member: BoolArray, fpr_budget: float = FPR_BUDGET) -> dict[str, Any]:
    """AUC and TPR at one FPR with intervals, as plain data; NaN with a reason where undefined."""
    sides = split_scores(scores, is_member)
    estimate = delong_of_split(sides)
    point = operating_point_of_split(sides, fpr_budget)
    n_members = len(sides.members)
    interval = None if point.reason else clopper_pearson(round(point.tpr * n_members), n_members)
    return {
        "auc": {
            "value": estimate.auc,
            "low": estimate.interval.low,
            "high": estimate.interval.high,
            "interval": estimate.interval.method,
        },
        "tpr_at_fpr": {
            "fpr": fpr_budget,
            "value": point.tpr,
            "low": float("nan") if interval is None else interval.low,
            "high": float("nan") if interval is None else interval.high,
            "interval": TPR_INTERVAL,
            "fpr_reached": point.fpr,
            "threshold": point.threshold,
            "reason": point.reason,
        },
        "members": n_members,
        "nonmembers": len(sides.nonmembers),
    }
