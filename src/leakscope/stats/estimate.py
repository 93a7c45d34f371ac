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


@dataclass(frozen=True)
class TwoEstimates(Estimate):
    """A figure with its 95% interval for *records like these*, and the one for *these records*.

    Attributes:
        these_low: lower end for these records: other models trained on random halves of them; None: there is
            no interval.
        these_high: upper end for these records; None: there is no interval.
    """

    these_low: float | None
    these_high: float | None
