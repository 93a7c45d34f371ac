"""The figures of a rating on one scale, on which level k covers k to k + 1: what a picture of it draws."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from leakscope.evaluate.levels import LEVELS
from leakscope.evaluate.rating import highest
from leakscope.evaluate.rating_results import RatingPart
from leakscope.evaluate.rating_sentences import threshold
from leakscope.evaluate.results import AuditResults

_LEAST_AUC = 0.4
"""Left end of the scale: an AUC below 0.5 is chance, or a mistake of the audit."""


class Placed(NamedTuple):
    """A figure of the rating, and where it and its interval lie on the scale."""

    part: RatingPart
    value: float
    low: float
    high: float


def placed_parts(results: AuditResults) -> list[Placed]:
    """Every figure of the rating that has a value, an interval and a scale.

    The advantage is drawn only where it says more than the AUC: nearly always both say the same.
    """
    parts = results.rating.parts
    of_auc = highest([part.level for part in parts if part.about == "auc"])
    return [
        Placed(part, *(place(part, end) for end in (part.value, part.low, part.high)))
        for part in parts
        if part.value is not None and part.low is not None and part.high is not None and _has_scale(part)
        if part.about != "advantage" or LEVELS.index(part.level) > LEVELS.index(of_auc)
    ]


def place(part: RatingPart, value: float) -> float:
    """Where a value of this figure lies; linear within each level, clipped at both ends."""
    begins = [threshold(part, level) for level in LEVELS[1:]]
    least = _LEAST_AUC if part.about in ("auc", "canaries") else 0.0
    knots = np.array([least, *begins, 1.0], dtype=np.float64)
    return float(np.interp(value, knots, np.arange(len(knots))))


def _has_scale(part: RatingPart) -> bool:
    return threshold(part, "low") is not None
