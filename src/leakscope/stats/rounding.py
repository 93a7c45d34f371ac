"""Figures rounded so far that nobody can solve them for a count.

A rate of m members is a multiple of 1/m, an AUC one of 1/(2 m (n - m)). With enough digits such a number is a
multiple for few m only, and so tells m. Rounded to steps of at least 1/m it is one for every larger m, and
tells nothing. Statistically nothing is lost: intervals are wider, by about the square root of the number of
records.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    FigureT = TypeVar("FigureT", bound=DataclassInstance)
else:
    FigureT = TypeVar("FigureT")

_SLACK = 2
"""Steps are this many times as wide as one record of the smaller side: several figures may be combined."""
_LEAST_COUNT = 5
_NOISE = 1e-9
_LOWER = ("low", "these_low", "simultaneous_low")
_UPPER = ("high", "these_high", "high_99", "these_high_99", "simultaneous_high")
_PERCENT = re.compile(r"(?<![\w.])(?<!FPR of )(\d+(?:\.\d+)?)%(?! interval| FPR| confidence)")
_DECIMAL = re.compile(r"(?<![\w.])(\d+\.\d+)(?![\w%]|\.\d| times)")
_ONE_MEMBER = re.compile(r"(?<![\w.,])(?<!about )(1 (?:non-)?member)\b")
"""A singular, which would tell the exact number once the number itself is rounded."""
_COUNT = re.compile(
    r"(?<=trained on at least )\d+(?:,\d{3})*|(?<=1/)\d+(?:,\d{3})*"
    r"|(?<![\w.,])(?<!about )\d+(?:,\d{3})*(?= (?:members|non-members|of these records)\b)"
)


def round_up(value: float) -> float:
    """The next of 1, 2, 5 times a power of ten; the least is a millionth."""
    power = 1e-6
    while True:
        for factor in (1, 2, 5):
            if factor * power * (1 + _NOISE) >= value:
                return float(f"{factor * power:.6g}")
        power *= 10


def _round_number(value: float) -> float:
    """The closest of 1, 2, 5 times a power of ten, by its ratio."""
    above = round_up(value)
    below = above / 2 if f"{above:e}"[0] != "5" else above / 2.5
    return above if above / value <= value / below else float(f"{below:.6g}")


@dataclass(frozen=True)
class Rounding:
    """Rounds figures and counts of one set of records.

    Attributes:
        step: figures become multiples of it.
        count_step: the same for counts of members.
    """

    step: float
    count_step: int = _LEAST_COUNT

    @classmethod
    def of(cls, n_records: float, n_fewer: float) -> Rounding:
        """For a set of records.

        Args:
            n_records: its size.
            n_fewer: members or non-members, whichever are fewer; may be an estimate.
        """
        # Halved until it is about right: a step that followed the exact number would tell it.
        halvings = math.floor(math.log2(max(n_records / 2 / max(n_fewer, 1), 1)))
        n_side = max(n_records / 2 / 2**halvings, 1)
        return cls(
            min(_round_number(_SLACK / n_side), 1.0), max(_LEAST_COUNT, int(_round_number(n_side / 5)))
        )

    def nearest(self, value: float) -> float:
        """The nearest multiple of the step."""
        return self._multiple(round(value / self.step))

    def up(self, value: float) -> float:
        """The next multiple of the step above."""
        return self._multiple(math.ceil(value / self.step - _NOISE))

    def down(self, value: float) -> float:
        """The next multiple of the step below."""
        return self._multiple(math.floor(value / self.step + _NOISE))

    def count(self, number: int) -> int:
        """A count, to the nearest multiple of its step, and never 0."""
        return max(round(number / self.count_step), 1) * self.count_step

    def figure(self, figure: FigureT) -> FigureT:
        """A figure with its intervals, which contain the exact ones.

        Ends are placed around the rounded value by rounded widths. Rounded on their own, they would say on
        which side of the rounded value the exact one lies.
        """
        value = getattr(figure, "value", None)
        if value is None or not math.isfinite(value):
            return figure
        middle = self.nearest(value)
        ends = {field.name: self._end(figure, field.name, value, middle) for field in fields(figure)}
        changed = {name: end for name, end in ends.items() if end is not None}
        return replace(figure, value=middle, **changed)

    def _end(self, figure: DataclassInstance, name: str, value: float, middle: float) -> float | None:
        end = getattr(figure, name)
        if name not in (*_LOWER, *_UPPER) or end is None or not math.isfinite(end):
            return None
        if name in _LOWER:
            low = round(middle - self.up(value - end + self.step / 2), 9)
            return max(low, 0.0) if end >= 0 else low
        high = round(middle + self.up(end - value + self.step / 2), 9)
        return min(high, 1.0) if end <= 1 else high

    def text(self, sentence: str) -> str:
        """A sentence with its rates and its counts of members rounded."""

        def percent(match: re.Match[str]) -> str:
            return f"{100 * self.nearest(float(match[1]) / 100):.{_digits(match[1])}f}%"

        def decimal(match: re.Match[str]) -> str:
            return f"{self.nearest(float(match[1])):.{_digits(match[1])}f}"

        return _PERCENT.sub(percent, _DECIMAL.sub(decimal, self.counts_in(sentence)))

    def counts_in(self, sentence: str) -> str:
        """A sentence with its counts of members rounded; down where it says "at least"."""
        is_bound = "at least" in sentence

        def count(match: re.Match[str]) -> str:
            number = int(match[0].replace(",", ""))
            rounded = number // self.count_step * self.count_step if is_bound else self.count(number)
            return f"{rounded:,}"

        return _COUNT.sub(count, _ONE_MEMBER.sub(r"\1s", sentence))

    def _multiple(self, number: int) -> float:
        return float(f"{number * self.step:.9g}")


def _digits(number: str) -> int:
    return len(number.partition(".")[2])
