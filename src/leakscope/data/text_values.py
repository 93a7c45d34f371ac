"""Numbers and dates that are written as text: "1,5", "12,000", "NA" among numbers, "2024-12-31".

A column is decided by all its texts at once. Where two readings are possible, the column is refused: a guess
would be silent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

CODE = re.compile(r"[+-]?0\d+")
"""0049: a number would lose the zeros."""
MISSING_MARKS = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "-"})  # lower case
_INFINITE = frozenset({"inf", "infinity"})
_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DECIMAL_COMMA = re.compile(r"[+-]?(\d+|[1-9]\d{0,2}(\.\d{3})+)(,\d+)?")
_THOUSANDS = re.compile(r"[+-]?(\d+|[1-9]\d{0,2}(,\d{3})+)(\.\d+)?")
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:?\d{2})?)?")
_OTHER_DATE = re.compile(r"(\d{1,2}[./-]\d{1,2}[./-](\d{4}|\d{2})|\d{4}[./]\d{1,2}[./]\d{1,2})([T ][\d:.]+)?")
_WITH_UNIT = re.compile(r"([$€£¥] ?[\d.,' ]*\d|\d[\d.,' ]*[$€£¥%]|\d{1,2}:\d{2}(:\d{2})?)")
_LOOKED_AT = 1000
_FEW_WRONG = 3  # different texts that are no numbers, in a column of numbers
_NUMBERS_SHARE = 0.95  # of the rows of a column of numbers
_EPOCH = datetime(1970, 1, 1)
_SECONDS_PER_DAY = 86_400


class TextValues(NamedTuple):
    """What the texts of a column stand for.

    Attributes:
        numbers: text -> number, None: missing; empty: the texts are texts.
        note: how they were read, for the user.
        problem: why they cannot be read; empty: they can.
        wrong: texts that the problem is about.
        is_date: the numbers are days since 1970.
    """

    numbers: Mapping[str, float | None] = {}
    note: str = ""
    problem: str = ""
    wrong: tuple[str, ...] = ()
    is_date: bool = False


TEXTS = TextValues()
"""Texts that are nothing but texts."""


def values_of(counts: Mapping[str, int], is_typed: bool = False) -> TextValues:
    """What the texts of a column are.

    Args:
        counts: in how many rows each text stands.
        is_typed: somebody saved them as texts; digits alone are then meant as texts.
    """
    texts = [text for text in counts if not _is_mark(text)]
    first = texts[:_LOOKED_AT]
    n_values = sum(_is_number(text) or _is_date(text) for text in first)
    if not n_values or (len(texts) > _LOOKED_AT and n_values < _NUMBERS_SHARE * len(first)):
        return TEXTS
    marks = {text: None for text in counts if _is_mark(text)}
    dates = [text for text in texts if _is_date(text)]
    if dates and len(dates) == len(texts):
        return _dates(texts, marks)
    numbers = [text for text in texts if _is_number(text)]
    wrong = [text for text in texts if not _is_number(text)]
    if wrong:
        n_rows, n_right = sum(counts[t] for t in texts), sum(counts[t] for t in numbers)
        infinite = all(_is_infinite(text) for text in wrong)
        few = len(wrong) <= _FEW_WRONG and n_right >= _NUMBERS_SHARE * n_rows
        if infinite or few:
            return TextValues(problem="holds text among numbers", wrong=tuple(wrong))
        return TEXTS
    return _numbers(numbers, marks, is_typed)


def _numbers(texts: Sequence[str], marks: Mapping[str, None], is_typed: bool) -> TextValues:
    """Texts that are all numbers."""
    if any(CODE.fullmatch(text.strip()) for text in texts):
        return TEXTS
    shown = ", ".join(repr(mark) for mark in sorted(marks)[:3])
    note = f"{shown} read as missing" if marks else ""
    commas = [text for text in texts if "," in text]
    if not commas:
        return TEXTS if is_typed and not marks else _parsed(texts, marks, note)
    is_decimal, is_thousands = (
        all(form.fullmatch(text.strip()) for text in texts) for form in (_DECIMAL_COMMA, _THOUSANDS)
    )
    if is_decimal == is_thousands:
        problem = f"holds numbers with commas, such as {commas[0]!r}, that can be read in two ways"
        if not is_decimal:
            problem = f"holds numbers with commas, such as {commas[0]!r}, of more than one form"
        return TextValues(problem=problem, wrong=tuple(commas))
    if is_decimal:
        plain = [text.replace(".", "").replace(",", ".") for text in texts]
        return _parsed(texts, marks, "; ".join(filter(None, ["decimal comma", note])), plain)
    plain = [text.replace(",", "") for text in texts]
    return _parsed(texts, marks, "; ".join(filter(None, ["thousands separated by commas", note])), plain)


def _parsed(
    texts: Sequence[str], marks: Mapping[str, None], note: str, plain: Iterable[str] | None = None
) -> TextValues:
    numbers = zip(texts, map(float, texts if plain is None else plain), strict=True)
    return TextValues({**dict(numbers), **marks}, note)


def _dates(texts: Sequence[str], marks: Mapping[str, None]) -> TextValues:
    other = [text for text in texts if not _ISO_DATE.fullmatch(text.strip())]
    if other:
        return TextValues(problem=f"holds dates such as {other[0]!r}", wrong=tuple(other))
    days: dict[str, float | None] = {**marks}
    for text in texts:
        try:
            days[text] = days_since_1970(datetime.fromisoformat(text.strip()))
        except ValueError:
            return TextValues(problem=f"holds {text!r}, which is no date", wrong=(text,))
    return TextValues(days, is_date=True)


def days_since_1970(moment: datetime) -> float:
    """Days since 1970, in UTC where the moment names a time zone."""
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return (moment - _EPOCH).total_seconds() / _SECONDS_PER_DAY


def are_measurements(texts: Sequence[str]) -> bool:
    """Whether texts are dates, times, or numbers that are not all whole: nothing that names a record."""
    bare = [text.strip() for text in texts if not _is_mark(text)]
    n_values = sum(_is_number(text) or _is_date(text) or has_unit(text) for text in bare)
    return 2 * n_values > len(bare) and any(
        _is_date(text) or has_unit(text) or (_is_number(text) and not text.isdecimal()) for text in bare
    )


def has_unit(text: str) -> bool:
    """True for a number with a sign of a currency or of percent, and for a time of day."""
    return _WITH_UNIT.fullmatch(text.strip()) is not None


def _is_mark(text: str) -> bool:
    return text.strip().lower() in MISSING_MARKS


def _is_infinite(text: str) -> bool:
    return text.strip().lower().lstrip("+-") in _INFINITE


def _is_number(text: str) -> bool:
    bare = text.strip()
    return any(form.fullmatch(bare) for form in (_PLAIN, _DECIMAL_COMMA, _THOUSANDS))


def _is_date(text: str) -> bool:
    bare = text.strip()
    return bool(_ISO_DATE.fullmatch(bare) or _OTHER_DATE.fullmatch(bare))
