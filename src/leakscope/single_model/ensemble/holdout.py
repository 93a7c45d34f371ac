"""Attackers are fitted on one part of the public records and evaluated on the other.

The attacker that is evaluated is the one that scores the private records. It is not fitted again on all
public records, so the validation figures describe exactly this attacker.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.errors import InputError
from leakscope.randomness import Purpose, generator
from leakscope.single_model.ensemble.attackers import CALIBRATION_FOLDS
from leakscope.single_model.results import AucFigure, Figures, TprFigure
from leakscope.stats.intervals import clopper_pearson, delong_of_split
from leakscope.stats.roc import split_scores
from leakscope.stats.roc_summary import operating_point_of_split

FPR_BUDGET = 0.05
"""The publication reports the true positive rate at this false positive rate."""
TPR_INTERVAL = "Clopper-Pearson at a threshold chosen on the same records"


class Split(NamedTuple):
    """Which public records attackers are fitted on and which they are evaluated on; int64, ascending."""

    training: IntArray
    validation: IntArray


def split_public(is_member: BoolArray, validation_share: float, seed: int) -> Split:
    """Holds out a random share of the members and of the non-members.

    Raises:
        InputError: the share is not between 0 and 1, or leaves too few members or non-members in a part.
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
                f"{len(index) - n_held_out} to fit on (at least {CALIBRATION_FOLDS}) and {n_held_out} "
                "to evaluate on (at least 2); give more public records"
            )
        held_out[index[:n_held_out]] = True
    return Split(np.flatnonzero(~held_out), np.flatnonzero(held_out))


def figures(scores: FloatArray, is_member: BoolArray, fpr_budget: float = FPR_BUDGET) -> Figures:
    """AUC and TPR at one FPR with intervals; None with a reason where undefined."""
    split = split_scores(scores, is_member)
    estimate = delong_of_split(split)
    point = operating_point_of_split(split, fpr_budget)
    n_members = len(split.members)
    interval = None if point.reason else clopper_pearson(round(point.tpr * n_members), n_members)
    low, high = (None, None) if interval is None else (interval.low, interval.high)
    ends = estimate.interval
    return Figures(
        auc=AucFigure(estimate.auc, ends.low, ends.high, ends.method),
        tpr_at_fpr=TprFigure(
            fpr=fpr_budget,
            value=_finite(point.tpr),
            low=low,
            high=high,
            interval=TPR_INTERVAL,
            fpr_reached=_finite(point.fpr),
            threshold=_finite(point.threshold),
            reason=point.reason,
        ),
        members=n_members,
        nonmembers=len(split.nonmembers),
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
