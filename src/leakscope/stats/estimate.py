"""A figure with its interval, as results.json stores it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95% interval.

    Attributes:
        value: the figure; None: undefined.
        low: lower end of the interval; None: there is no interval.
        high: upper end of the interval; None: there is no interval.
    """

    value: float | None
    low: float | None
    high: float | None
