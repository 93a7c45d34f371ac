"""Each record's part in a figure of one target: numbers that add up to the figure.

A figure such as the AUC is a mean over records, up to terms that vanish with many records. Parts of records that
are known one by one tell how much the figure would change with another sample of records, with other members,
or without a reference model (`two_way`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from leakscope.array_types import BoolArray, FloatArray
from leakscope.stats.roc import SplitScores
from leakscope.stats.roc_summary import tpr_at_expected_fpr


def auc_parts(scores: FloatArray, is_member: BoolArray) -> FloatArray:
    """Half of each record's placement among the other side, over its own side's size; (records,)."""
    parts = np.empty(len(scores))
    for side, sign in ((is_member, 1.0), (~is_member, -1.0)):
        own, others = sign * scores[side], np.sort(sign * scores[~side])
        below = np.searchsorted(others, own, side="left") + np.searchsorted(others, own, side="right")
        parts[side] = below / (4 * len(others) * len(own))
    return parts


def rate_parts(is_called: BoolArray, is_member: BoolArray, of_members: float, of_others: float) -> FloatArray:
    """Parts of `of_members * TPR + of_others * FPR` for the records called members; (records,)."""
    n_members = int(is_member.sum())
    weights = np.where(is_member, of_members / n_members, of_others / (len(is_member) - n_members))
    return np.where(is_called, weights, 0.0)


def tpr_parts(
    scores: FloatArray, is_member: BoolArray, sides: SplitScores, threshold: float, budget: float
) -> FloatArray:
    """Parts of the TPR at a threshold that non-members set, so that they have a part in it; (records,).

    A non-member above the threshold moves it up, which costs members: as many as the ROC curve's slope there.
    """
    near = [tpr_at_expected_fpr(sides, fpr)[0] for fpr in (budget / 2, min(2 * budget, 1.0))]
    slope = (near[1] - near[0]) / (1.5 * budget)
    is_called = scores >= threshold
    parts = rate_parts(is_called, is_member, 1.0, -slope)
    return parts + np.where(is_member, 0.0, slope * budget / len(sides.nonmembers))
