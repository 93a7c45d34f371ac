"""The mean ROC over targets and its spread, on a grid for logarithmic axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from leakscope.array_types import BoolArray, FloatArray
from leakscope.disk.scratch import RECORDS_AT_ONCE, over_blocks
from leakscope.stats.roc import SplitScores, split_scores
from leakscope.stats.rounding import Rounding
from leakscope.types import Design, Scores

_POINTS = 200
_ROUNDING = 1e-12


class RocBand(NamedTuple):
    """TPR of the best threshold within each FPR; every array float64 (points,).

    Attributes:
        fpr: ascending, from the smallest measurable FPR to 1.
        mean: mean over the targets.
        low: 5% quantile over the targets.
        high: 95% quantile over the targets.
        yes: (FPR, TPR) of a binary attack; None for others.
    """

    fpr: FloatArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray
    yes: tuple[float, float] | None


def roc_bands(
    scores: Mapping[str, Scores], design: Design, rates: Sequence[float] = ()
) -> dict[str, RocBand]:
    """One band per attack; at the measurable ones of these false positive rates only, if any are given."""
    return {label: _band(attack_scores, design, rates) for label, attack_scores in scores.items()}


def rounded_bands(bands: Mapping[str, RocBand], rounding: Rounding) -> dict[str, RocBand]:
    """The same points with rounded rates: exact ones are multiples of one over the number of members."""

    def rounded(rates: FloatArray) -> FloatArray:
        return np.array([rounding.nearest(rate) for rate in rates.tolist()])

    def of(band: RocBand) -> RocBand:
        yes = None if band.yes is None else (rounding.nearest(band.yes[0]), rounding.nearest(band.yes[1]))
        return RocBand(band.fpr, rounded(band.mean), rounded(band.low), rounded(band.high), yes)

    return {label: of(band) for label, band in bands.items()}


def tpr_on_grid(sides: SplitScores, grid: FloatArray) -> FloatArray:
    """TPR of the best threshold whose FPR is within each rate of the grid, ties exact; (grid,)."""
    n_out = len(sides.nonmembers)
    allowed = np.minimum(np.floor(grid * n_out * (1 + _ROUNDING)).astype(np.int64), n_out)
    # Every record that scores above the first non-member beyond the budget is called a member.
    falling = np.append(sides.nonmembers[::-1], -np.inf)
    called = len(sides.members) - np.searchsorted(sides.members, falling[allowed], side="right")
    tpr: FloatArray = np.where(allowed >= n_out, len(sides.members), called) / len(sides.members)
    return tpr


def _band(scores: Scores, design: Design, rates: Sequence[float]) -> RocBand:
    in_mask = design.rows(scores.targets)
    smallest = 1 / int((in_mask.shape[1] - in_mask.sum(axis=1)).min())
    grid = np.geomspace(smallest, 1, _POINTS)
    if rates:
        grid = np.unique([*(rate for rate in rates if rate >= smallest), 1.0])
    curves = np.stack(
        [
            tpr_on_grid(split_scores(row, members), grid)
            for row, members in zip(scores.values, in_mask, strict=True)
        ]
    )
    low, high = np.quantile(curves, [0.05, 0.95], axis=0)
    return RocBand(grid, curves.mean(axis=0), low, high, _yes_rates(scores.values, in_mask))


def _yes_rates(scores: FloatArray, in_mask: BoolArray) -> tuple[float, float] | None:
    """Rates over all targets if the attack has only two scores; None otherwise."""
    low, high = (end([end(row) for row in scores]) for end in (np.min, np.max))

    def counts(columns: slice) -> tuple[bool, int, int]:
        values, members = scores[:, columns], in_mask[:, columns]
        yes = values == high
        is_two = bool((yes | (values == low)).all())
        return is_two, int((yes & ~members).sum()), int((yes & members).sum())

    if low == high or not counts(slice(0, RECORDS_AT_ONCE))[0]:
        return None
    counted = over_blocks(scores.shape[1], counts, scores, in_mask)
    if not all(is_two for is_two, _, _ in counted):
        return None
    n_members = int(in_mask.sum())
    false_positives, true_positives = sum(n for _, n, _ in counted), sum(n for *_, n in counted)
    return false_positives / (in_mask.size - n_members), true_positives / n_members
