"""How reports write a figure, its interval, and a list of names."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def number(value: float | None) -> str:
    """Three decimals."""
    return "undefined" if value is None else f"{value:.3f}"


def percent(share: float | None) -> str:
    """A share in percent, with one decimal."""
    return "undefined" if share is None else f"{100 * share:.1f}%"


def significant(value: float) -> str:
    """Three significant digits, never as a power of ten where it is large: "0.123", "2,470"."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 1000 else f"{rounded:.3g}"


def with_interval(
    value: float | None,
    low: float | None,
    high: float | None,
    written: Callable[[float | None], str] = number,
) -> str:
    """A figure with its interval, if it has one; `written` is `number` or `percent`."""
    if value is None or low is None or high is None:
        return written(value)
    return f"{written(value)} ({written(low)} to {written(high)})"


def counted(number: int, noun: str) -> str:
    """So many of them: "1 model", "1,200 models"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def enumeration(names: Sequence[str], before_last: str = "and") -> str:
    """Names in a sentence: a, b and c."""
    *others, last = names
    return f"{', '.join(others)} {before_last} {last}" if others else last
