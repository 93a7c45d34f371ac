"""Numbers of a table of predictions as programs of many countries export them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from leakscope.array_types import AnyArray
from leakscope.data.column_file import column_values
from leakscope.data.columns import in_rows, refuse_where
from leakscope.errors import InputError

if TYPE_CHECKING:
    import polars as pl

_DECIMAL_COMMA = r"^([+-]?\d*),(\d+(?:[eE][+-]?\d+)?)$"


def numbers_of(series: pl.Series, role: str) -> AnyArray:
    """A column of numbers, also where they are written with decimal commas.

    Raises:
        InputError: a value is missing, NaN or no number; names the column and the first row.
    """
    import polars as pl

    missing = series.is_null().to_numpy()
    refuse_where(missing, f"{role} {series.name!r} has no value", "drop or fill those rows first")
    if isinstance(series.dtype, pl.String):
        bare = series.str.strip_chars()
        decimal = bare.str.replace(_DECIMAL_COMMA, "${1}.${2}")
        numbers = decimal.cast(pl.Float64, strict=False)
        _refuse_texts(series, numbers.is_null().to_numpy(), role)
        series = numbers
    values = column_values(series, role)
    if values.dtype.kind not in "iuf":
        raise InputError(f"{role} {series.name!r} has type {series.dtype}, expected numbers")
    if values.dtype.kind == "f":
        refuse_where(np.isnan(values), f"{role} {series.name!r} is NaN", "drop or fill those rows first")
    return values


def _refuse_texts(series: pl.Series, is_text: AnyArray, role: str) -> None:
    if not is_text.any():
        return
    at = int(np.argmax(is_text))
    text = str(series[at])
    is_percent = text.rstrip().endswith("%")
    remedy = "write percent as shares from 0 to 1" if is_percent else "write numbers, or drop those rows"
    raise InputError(f"{role} {series.name!r} holds {text!r} {in_rows(is_text)}; {remedy}")
