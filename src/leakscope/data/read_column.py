"""From a column in plain types to features of a network, with a reading that the user can check.

A missing number becomes the mean of the column, and a feature of its own says where it was missing. A missing
text is a category. Means are taken over all records, members and not, so they reveal no membership.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.data.columns import in_rows, listed
from leakscope.data.text_values import TextValues, has_unit, values_of
from leakscope.frames.columns import PlainColumn
from leakscope.frames.reading import ColumnKind, ColumnReading

if TYPE_CHECKING:
    import polars as pl

MOST_CATEGORIES = 256
"""Of one text column; more is an identifier or free text, and would not fit."""
_SHOWN = 3
_MICROSECONDS_PER_DAY = 86_400_000_000
_REMEDIES = {
    "among": "correct those cells, leave them empty, or leave the column out",
    "two ways": "write 1234.5 for a number, without separators",
    "more than": "write 1234.5 for a number, without separators",
    "dates": "write year, month and day, as in 2024-12-31",
    "no date": "correct it, or leave the cell empty",
}


class EncodedFeature(NamedTuple):
    """One column on its way to features.

    Attributes:
        numbers: float32 (records,), NaN where missing; of a text, the place of its category.
        names: of the features it becomes: one, or one per category, and one more where values are missing.
        is_text: whether its numbers stand for categories.
        mean: of the numbers that are not missing.
    """

    numbers: npt.NDArray[np.float32]
    names: tuple[str, ...]
    is_text: bool
    mean: float = 0.0

    @property
    def has_missing(self) -> bool:
        """Whether a number is missing, so that a feature says where."""
        return not self.is_text and len(self.names) > 1

    def features(
        self, numbers: npt.NDArray[np.float32], keep_missing: bool = False
    ) -> npt.NDArray[np.float32]:
        """The features of some of the numbers, without NaN unless these are kept; (records, names)."""
        if self.is_text:
            return np.eye(len(self.names), dtype=np.float32)[numbers.astype(np.int64)]
        if not self.has_missing:
            return numbers[:, None]
        missing = np.isnan(numbers)
        known = numbers if keep_missing else np.where(missing, np.float32(self.mean), numbers)
        return np.stack([known, missing.astype(np.float32)], axis=1)


class ReadColumn(NamedTuple):
    """A column that was read.

    Attributes:
        reading: how, in words.
        encoded: what a network gets.
        problem: why a network cannot use it; empty: it can.
        warnings: likely mistakes.
    """

    reading: ColumnReading
    encoded: EncodedFeature
    problem: str = ""
    warnings: tuple[str, ...] = ()


def read_column(column: PlainColumn) -> ReadColumn:
    """Reads a feature: numbers as they are, text one-hot in alphabetical order, named like "city=Paris"."""
    import polars as pl

    name, series = column.name, column.series
    if isinstance(series.dtype, pl.String):
        return _text_column(column)
    if isinstance(series.dtype, pl.Boolean):
        return _number_column(name, _floats(series), "yes or no", "0 and 1")
    if isinstance(series.dtype, (pl.Date, pl.Datetime)):
        days = _floats(series.cast(pl.Datetime("us")).to_physical()) / _MICROSECONDS_PER_DAY
        return _number_column(name, days, "date", "days since 1970")
    if isinstance(series.dtype, pl.Duration):
        days = _floats(series.cast(pl.Duration("us")).to_physical()) / _MICROSECONDS_PER_DAY
        return _number_column(name, days, "duration", "days")
    if isinstance(series.dtype, pl.Time):
        days = _floats(series.to_physical()) / (1000 * _MICROSECONDS_PER_DAY)
        return _number_column(name, days, "duration", "days")
    return _number_column(name, _floats(series), "number")


def _floats(series: pl.Series) -> FloatArray:
    """float64 (records,), NaN where missing."""
    import polars as pl

    values: FloatArray = series.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    return values


def _number_column(
    name: str, values: FloatArray, kind: ColumnKind, encoding: str = "", note: str = ""
) -> ReadColumn:
    missing = np.isnan(values)
    with np.errstate(over="ignore"):  # what float32 cannot hold is a problem, below
        numbers = values.astype(np.float32)
    infinite = ~np.isfinite(numbers) & ~missing
    problem = ""
    if infinite.any():
        problem = _in_rows(name, "is infinite, or too large for 32-bit numbers,", infinite)
        problem += "; correct those cells or leave the column out"
        numbers[infinite] = np.nan
    n_missing = int(missing.sum())
    without = missing | infinite
    mean = 0.0 if without.all() else float(numbers[~without].mean(dtype=np.float64))
    filled = "mean and a column for missing ones" if n_missing else ""
    reading = ColumnReading(
        name, kind, missing=n_missing, encoding=", ".join(filter(None, [encoding, filled])), note=note
    )
    names = (name, f"{name}=missing") if without.any() else (name,)
    return ReadColumn(reading, EncodedFeature(numbers, names, False, mean), problem)


def _text_column(column: PlainColumn) -> ReadColumn:
    name, series = column.name, column.series
    categories, codes = _distinct(series)
    n_missing = int((codes < 0).sum())
    if column.note in ("", "untyped", "mixed"):
        number = dict(zip(categories, np.bincount(codes[codes >= 0], minlength=1).tolist(), strict=False))
        values = values_of(number, is_typed=column.note == "")
        if values.numbers:
            return _numbers_in_text(name, values, categories, codes)
        if values.problem:
            read = _categories(column, categories, codes)
            problem = _problem(name, values, categories, codes)
            return read._replace(problem=problem, warnings=(problem,))
    read = _categories(column, categories, codes)
    if column.note == "mixed":
        mixed = f"{name!r} mixes values of several types; all are read as text"
        read = read._replace(warnings=(*read.warnings, mixed))
    elif column.note == "" and categories and all(map(_is_digits, categories)):
        digits = f"{name!r} is text, though every value is a number; save it as numbers if they are meant"
        read = read._replace(warnings=(*read.warnings, digits))
    elif categories and all(map(has_unit, categories)):
        units = f"{name!r} is text, such as {categories[0]!r}; write plain numbers if they are meant"
        read = read._replace(warnings=(*read.warnings, units))
    return read._replace(reading=replace(read.reading, missing=n_missing))


def _distinct(series: pl.Series) -> tuple[list[str], IntArray]:
    """The different texts in alphabetical order, and the place of each row's, -1 where missing."""
    import polars as pl

    categories = series.drop_nulls().unique().sort()
    places = series.cast(pl.Enum(categories)).to_physical().cast(pl.Int64).fill_null(-1)
    return categories.to_list(), places.to_numpy()


def _numbers_in_text(name: str, values: TextValues, categories: list[str], codes: IntArray) -> ReadColumn:
    table = np.array([*(values.numbers[text] for text in categories), None], dtype=np.float64)
    if values.is_date:
        read = _number_column(name, table[codes], "date", "days since 1970")
    else:
        read = _number_column(name, table[codes], "number", note=values.note)
    return read._replace(reading=replace(read.reading, is_text=True))


def _problem(name: str, values: TextValues, categories: list[str], codes: IntArray) -> str:
    texts = set(values.wrong)
    wrong = np.array([*(text in texts for text in categories), False])[codes]
    remedy = next(text for part, text in _REMEDIES.items() if part in values.problem)
    where = _in_rows(name, values.problem, wrong)
    shown = f": {listed([*map(repr, values.wrong)], _SHOWN)}" if "among" in values.problem else ""
    return f"{where}{shown}; {remedy}"


def _in_rows(name: str, problem: str, rows: BoolArray) -> str:
    return f"feature {name!r} {problem} {in_rows(rows)}"


def _categories(column: PlainColumn, categories: list[str], codes: IntArray) -> ReadColumn:
    """One-hot; of more texts than that allows, the length."""
    name, n = column.name, len(categories)
    kind: ColumnKind = "category" if column.note == "category" else "text"
    if n <= MOST_CATEGORIES and column.note != "object":
        names = tuple(f"{name}={text}" for text in categories)
        if (codes < 0).any():
            names, codes = (*names, f"{name}=missing"), np.where(codes < 0, n, codes)
        encoded = EncodedFeature(codes.astype(np.float32), names, is_text=True)
        return ReadColumn(ColumnReading(name, kind, n, 0, "one-hot"), encoded)
    kind = "object" if column.note == "object" else "free text" if kind == "text" else kind
    problem = (
        f"feature {name!r} has {n:,} different text values (at most {MOST_CATEGORIES}) and looks like an "
        "identifier or free text; name it as the id, or list the features to use"
    )
    if kind == "object":
        problem = f"feature {name!r} holds neither numbers nor text; convert it or leave it out"
    lengths = np.array([*map(len, categories), 0], dtype=np.float32)[codes]
    encoded = EncodedFeature(lengths, (f"{name} length",), is_text=False, mean=float(lengths.mean()))
    return ReadColumn(ColumnReading(name, kind, n), encoded, problem)


def _is_digits(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return not (len(text) > 1 and text.startswith("0") and text.isdigit())
