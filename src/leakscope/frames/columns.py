"""Columns of any table in plain types: bools, numbers, texts or times of polars, null where nothing is known.

They are for reading and checking. What an estimator gets is never converted.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from leakscope.array_types import AnyArray, IntArray

if TYPE_CHECKING:
    import polars as pl

Note = Literal["", "untyped", "category", "mixed", "object"]
_NO_VALUE = ("NAType", "NaTType", "NoneType")  # of pandas, which need not be installed


class PlainColumn(NamedTuple):
    """A column in plain types.

    Attributes:
        name: of the column.
        series: Boolean, integer, float, String, Date, Datetime, Duration or Time; null where missing.
        note: what the type alone does not say: text of a file without types, which may be numbers; a
            category; texts and numbers mixed; other objects, as text.
    """

    name: str
    series: pl.Series
    note: Note = ""

    def codes(self) -> IntArray:
        """int64 (records,): equal for equal values; missing ones are equal."""
        missing = self.series.is_null().to_numpy()
        if str(self.series.dtype) == "String":
            places: dict[str | None, int] = {}
            return np.array([places.setdefault(v, len(places)) for v in self.series.to_list()], np.int64)
        codes = np.unique(_numbers(self.series), return_inverse=True)[1].astype(np.int64)
        return np.where(missing, -1, codes)


def from_polars(name: str, series: pl.Series) -> PlainColumn:
    """A column of polars."""
    import polars as pl

    dtype = series.dtype
    if isinstance(dtype, (pl.Categorical, pl.Enum)):
        return PlainColumn(name, series.cast(pl.String), "category")
    if isinstance(dtype, pl.Object):
        return from_objects(name, series.to_list())
    if isinstance(dtype, (pl.Decimal, pl.Int128, pl.UInt128, pl.Null)):  # numpy has none of these
        return PlainColumn(name, series.cast(pl.Float64))
    if dtype.is_float():
        return PlainColumn(name, series.fill_nan(None))
    if dtype.is_integer() or isinstance(
        dtype, (pl.Boolean, pl.String, pl.Date, pl.Datetime, pl.Duration, pl.Time)
    ):
        return PlainColumn(name, series)
    return from_objects(name, series.to_list())


def from_pandas(name: str, series: Any) -> PlainColumn:
    """A column of pandas, of any type."""
    dtype, kind = series.dtype, str(getattr(series.dtype, "kind", "O"))
    if hasattr(dtype, "categories"):
        texts = np.array([*map(str, dtype.categories), None], dtype=object)
        return PlainColumn(name, _texts(texts[series.cat.codes.to_numpy()].tolist()), "category")
    if hasattr(dtype, "tz"):
        return from_array(name, series.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())
    if isinstance(dtype, np.dtype):
        return from_array(name, series.to_numpy())
    if kind in "biuf":
        plain = {"b": np.bool_, "i": np.int64, "u": np.uint64, "f": np.float64}[kind]
        values = series.to_numpy(dtype=plain, na_value=np.nan if kind == "f" else 0)
        return _masked(from_array(name, values), series.isna().to_numpy())
    return from_objects(name, series.tolist())


def from_array(name: str, values: AnyArray) -> PlainColumn:
    """A column of an array; NaN and NaT are missing."""
    import polars as pl

    if values.dtype.kind not in "biufUMm":
        return from_objects(name, values.tolist())
    if values.dtype.kind == "U":
        return PlainColumn(name, _texts(values.tolist()))
    if values.dtype.kind in "Mm":
        values = values.astype(f"{values.dtype.kind}8[us]")
    elif values.dtype.kind == "f":
        values = values.astype(np.float32 if values.dtype == np.float16 else values.dtype)
        values = values.astype(np.float64) if values.dtype.itemsize > 8 else values
        return PlainColumn(name, pl.Series(np.ascontiguousarray(values), nan_to_null=True))
    return PlainColumn(name, pl.Series(np.ascontiguousarray(values)))


def from_objects(name: str, values: Sequence[Any]) -> PlainColumn:
    """A column of objects of Python: by what they are."""
    import polars as pl

    known = [None if _is_missing(value) else value for value in values]
    types = {type(value) for value in known if value is not None}
    if all(issubclass(t, str) for t in types) and types:
        return _as_texts(name, known, "")
    if all(issubclass(t, bool | np.bool_) for t in types) and types:
        return PlainColumn(name, pl.Series([v if v is None else bool(v) for v in known], dtype=pl.Boolean))
    if all(issubclass(t, Real | Decimal) and not issubclass(t, bool | np.bool_) for t in types):
        numbers = [v if v is None else _float(v) for v in known]
        return PlainColumn(name, pl.Series(numbers, dtype=pl.Float64, nan_to_null=True))
    if all(issubclass(t, date) for t in types):
        times = [v if v is None else _without_zone(v) for v in known]
        return PlainColumn(name, pl.Series(times, dtype=pl.Datetime("us")))
    is_mixed = all(issubclass(t, str | Real | Decimal | np.bool_) for t in types)
    return _as_texts(name, known, "mixed" if is_mixed else "object")


def _as_texts(name: str, values: Sequence[Any], note: Note) -> PlainColumn:
    show = repr if note == "object" else str
    return PlainColumn(name, _texts([v if v is None else show(v) for v in values]), note)


def _texts(values: Sequence[str | None]) -> pl.Series:
    import polars as pl

    try:
        return pl.Series(values, dtype=pl.String)
    except UnicodeEncodeError:  # half a character, which Python's texts may hold
        safe = [v if v is None else v.encode(errors="backslashreplace").decode() for v in values]
        return pl.Series(safe, dtype=pl.String)


def _is_missing(value: Any) -> bool:
    return type(value).__name__ in _NO_VALUE or (isinstance(value, Real | Decimal) and value != value)


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _without_zone(value: date) -> datetime:
    if not isinstance(value, datetime):
        return datetime.combine(value, time())
    return value.replace(tzinfo=None) if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)


def _masked(column: PlainColumn, missing: AnyArray) -> PlainColumn:
    import polars as pl

    if not missing.any():
        return column
    known = pl.select(pl.when(pl.Series(~missing)).then(column.series)).to_series()
    return column._replace(series=known)


def _numbers(series: pl.Series) -> AnyArray:
    """The values of a column that is not text, 0 where missing."""
    physical = series.to_physical()
    if str(physical.dtype) == "Boolean":
        return physical.fill_null(False).to_numpy()
    return physical.fill_null(0).to_numpy()
