"""The variances of the figures of one attack, from replicates of its scores (`evaluate.uncertainty`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy

from leakscope.array_types import BoolArray, FloatArray
from leakscope.disk.scratch import on_threads
from leakscope.evaluate.uncertainty import Replicates
from leakscope.stats.parts import (
    Ranked,
    advantage_parts,
    advantage_thresholds,
    agreement_of_halves,
    auc_parts,
    ranked,
    rate_parts,
    tpr_parts,
    tpr_slope,
)
from leakscope.stats.thresholds import barriers_of_scores
from leakscope.stats.two_way import NoLeakage, Variance


class CurveVariances(NamedTuple):
    """Variances of the figures of one attack.

    Attributes:
        auc: of the AUC.
        advantage: of the advantage.
        tpr: FPR -> of the TPR at it.
        calibrated: FPR -> of TPR and FPR at a threshold that comes from the other targets.
    """

    auc: Variance
    advantage: Variance
    tpr: dict[float, Variance]
    calibrated: dict[float, tuple[Variance, Variance]]


def curve_variances(
    replicates: Replicates, n_records: int, fprs: Sequence[float], calibrated: Sequence[float] = ()
) -> CurveVariances:
    """The variances of every figure; arguments as in `Replicates.variances` and `_curve_parts`."""
    # One threshold serves all targets for the advantage, and those of the others for calibrated rates.
    own, rates = replicates.uses_references, [NoLeakage(fpr, fpr) for fpr in fprs]
    kinds: list[tuple[bool, NoLeakage | None]] = [(own, NoLeakage(0.5)), (True, NoLeakage(0.0))]
    kinds += [(own, rate) for rate in rates]
    kinds += [(True, NoLeakage(fpr, fpr)) for fpr in calibrated for _ in ("TPR", "FPR")]
    whole, thresholds, value = replicates.whole, np.empty(0), 0.0
    if whole.values.size:
        thresholds = advantage_thresholds(whole.values, whole.in_mask)
        value = float(advantage_parts(whole.values, whole.in_mask, thresholds).sum())
    parts = replicates.of_all(
        lambda scores, in_mask, means: _curve_parts(
            ranked(scores, in_mask), in_mask, means, thresholds, fprs, calibrated
        )
    )
    auc, advantage, *others = replicates.variances_of(parts, n_records, kinds)
    agreement = agreement_of_halves(value, advantage.standard_error(these_records=False))
    own_rates, of_others = dict(zip(fprs, others[: len(fprs)], strict=True)), others[len(fprs) :]
    pairs = zip(calibrated, of_others[::2], of_others[1::2], strict=True)
    return CurveVariances(
        auc,
        advantage.with_records_times(agreement),
        own_rates,
        {fpr: (of_tpr.at_least(own_rates.get(fpr, of_tpr)), of_fpr) for fpr, of_tpr, of_fpr in pairs},
    )


def of_one_target(variance: Variance, n_members: int, n_nonmembers: int) -> Variance:
    """The variance of a rate of one target, or of a difference of rates, where a side may have few records.

    The scatter over few records is itself uncertain, as Student's t allows for. A rate of 0 or 1 has none, so
    that of one success more counts in addition.
    """
    n_fewer = max(min(n_members, n_nonmembers) - 1, 1)
    student = float(scipy.special.stdtrit(n_fewer, 0.995) / scipy.special.ndtri(0.995))
    of_one_more = 1 / (n_members + 2) ** 2 + 1 / (n_nonmembers + 2) ** 2
    return variance._replace(like_these=student**2 * variance.like_these + of_one_more)


def _curve_parts(
    ranks: Ranked,
    in_mask: BoolArray,
    means: FloatArray,
    thresholds: FloatArray,
    fprs: Sequence[float],
    calibrated: Sequence[float],
) -> FloatArray:
    """Parts of AUC, advantage and TPR at each FPR, then of TPR and FPR at each calibrated threshold.

    The thresholds of the advantage are those of all models in every replicate: TPR - FPR is flat where it is
    largest, and where nothing leaks any threshold is as good. Calibrated thresholds are set anew. So the
    number of non-members above them stays, while each non-member may change sides, and the changes that
    records share seem smaller than they are. `curve_variances` therefore takes at least the variance of the
    TPR at a threshold of the target's own.
    """
    if not ranks.scores.size:
        return np.full((2 + len(fprs) + 2 * len(calibrated), len(means), ranks.scores.shape[1]), np.nan)
    slopes = {fpr: tpr_slope(ranks, fpr, means) for fpr in dict.fromkeys([*fprs, *calibrated])}
    rows = [auc_parts(ranks, means), advantage_parts(ranks.scores, in_mask, thresholds, means)]
    rows += [tpr_parts(ranks, fpr, slopes[fpr], means) for fpr in fprs]
    if not calibrated:
        return np.stack(rows)

    def of_others(at: int) -> FloatArray:
        own, slope = np.flatnonzero(means[at]), [float(slopes[fpr][at]) for fpr in calibrated]
        return _calibrated_parts(ranks.scores[own], in_mask[own], calibrated, slope)

    return np.concatenate([rows, np.stack(on_threads(of_others, range(len(means)), in_mask.size), axis=1)])


def _calibrated_parts(
    scores: FloatArray, in_mask: BoolArray, fprs: Sequence[float], slopes: Sequence[float]
) -> FloatArray:
    """Parts of TPR and FPR at each threshold; non-members set it, and move it up where they are many."""
    rows = []
    barriers = barriers_of_scores(scores, in_mask, fprs)
    for highest, tied, slope in zip(barriers.highest.T, barriers.tied.T, slopes, strict=True):
        called = (scores > highest[:, None]).astype(np.float64)
        if tied.any():
            called += tied[:, None] * (scores == highest[:, None])
        of_nonmembers = rate_parts(called, ~in_mask)
        moved = of_nonmembers - of_nonmembers.mean()
        rows += [rate_parts(called, in_mask) - slope * moved, of_nonmembers]
    return np.stack(rows)
