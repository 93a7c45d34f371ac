"""The rating of an audit as results.json holds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from leakscope.types import Prose

Level = Literal["none found", "low", "moderate", "high", "severe", "inconclusive"]


@dataclass(frozen=True)
class RatingPart:
    """One figure that the rating rests on.

    Attributes:
        about: the AUC of the strongest attack, an advantage, a TPR at a low FPR, the most exposed 1% of
            records, the AUC on the canaries, individually exposed records, or the gate.
        what: the figure by name.
        level: the level that the lower end of its interval reaches.
        at_most: the level that the upper end reaches: a leak of this size may have been missed.
        value: the figure; None: the gate has none.
        low: lower end of its interval; None: there is none.
        high: upper end of its interval; None: there is none.
        fpr: FPR of a TPR; None for other figures.
    """

    about: Literal["auc", "advantage", "tpr", "worst", "canaries", "exposed", "gate"]
    what: Prose
    level: Level
    at_most: Level
    value: float | None
    low: float | None
    high: float | None
    fpr: float | None


@dataclass(frozen=True)
class Rating:
    """How much leaks, in one word.

    Attributes:
        level: the highest level of the parts; "inconclusive" where nothing follows from the audit.
        at_most: the highest level that the upper ends allow.
        parts: the figures that it rests on.
        reason: why the rating is inconclusive; None where it is not.
    """

    level: Level
    at_most: Level
    parts: tuple[RatingPart, ...]
    reason: Prose | None
