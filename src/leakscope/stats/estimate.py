"""A figure with its interval, as results.json stores it."""

from __future__ import annotations

import math
from dataclasses import dataclass

FEWEST_RECORDS = 10
"""Figures of a set of fewer records are not measured."""


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

    @property
    def has_interval(self) -> bool:
        """Whether both ends are known."""
        return all(end is not None and math.isfinite(end) for end in (self.low, self.high))


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


def why_few_records(n_records: int) -> str | None:
    """Why nothing is measured on a set of this many records; None where it is."""
    if n_records >= FEWEST_RECORDS:
        return None
    records = "record is" if n_records == 1 else "records are"
    return f"{n_records} {records} too few to measure; it takes at least {FEWEST_RECORDS}"
