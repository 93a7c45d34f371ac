"""Where the levels of the rating begin: the figures of two unit normal distributions that lie `mu` apart.

docs/rating.md has the table and what it means.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import scipy

from leakscope.evaluate.rating_results import Level

LEVELS: tuple[Level, ...] = ("none found", "low", "moderate", "high", "severe")
"""From least to most; "inconclusive" stands outside of the order."""
SEPARATIONS: Mapping[Level, float] = {"low": 0.25, "moderate": 0.5, "high": 1.0, "severe": 2.0}
"""`mu` of each level's curve."""
_SCALE = 10_000


def tpr_of(level: Level, fpr: float) -> float:
    """The TPR at an FPR from which a level holds."""
    return float(scipy.special.ndtr(SEPARATIONS[level] + scipy.special.ndtri(fpr)))


def auc_of(level: Level) -> float:
    """The AUC from which a level holds; "low" begins at 0.5, where an attack begins to work."""
    return 0.5 if level == "low" else float(scipy.special.ndtr(SEPARATIONS[level] / math.sqrt(2)))


def advantage_of(level: Level) -> float:
    """The advantage from which a level holds."""
    return float(2 * scipy.special.ndtr(SEPARATIONS[level] / 2) - 1)


def as_limit(figure: float) -> float:
    """A figure of a level with four digits, rounded down: a limit is never looser than the level."""
    return math.floor(figure * _SCALE) / _SCALE
