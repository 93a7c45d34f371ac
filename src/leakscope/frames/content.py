"""What a table holds, exactly: plain arrays in which different tables differ.

A bank is used again only where its records are the same, so nothing may be rounded or converted here: the
number 1 and the text "1" differ, and so do a missing value and NaN where an estimator can tell them apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from leakscope.array_types import AnyArray

if TYPE_CHECKING:
    import polars as pl


def pandas_content(series: Any) -> list[AnyArray]:
    """The values of a column of pandas."""
    dtype = series.dtype
    if hasattr(dtype, "categories"):
        return [series.cat.codes.to_numpy(), exact_texts([dtype.ordered, *dtype.categories])]
    if isinstance(dtype, np.dtype) and dtype.kind != "O":
        return [plain_array(series.to_numpy())]
    return [exact_texts(series.tolist())]


def polars_content(series: pl.Series) -> list[AnyArray]:
    """The values of a column of polars."""
    import polars as pl

    dtype = series.dtype
    if dtype.is_float() or (dtype.is_integer() and dtype not in (pl.Int128, pl.UInt128)):
        return [series.is_null().to_numpy(), series.fill_null(0).to_numpy()]
    return [exact_texts(series.to_list())]


def plain_array(values: AnyArray) -> AnyArray:
    """Times as numbers, everything else as it is; the type is part of the table's content besides."""
    return values.view(np.int64) if values.dtype.kind in "Mm" else values


def exact_texts(values: Sequence[Any]) -> AnyArray:
    """The values with their types, as bytes."""
    types = sorted({type(value).__qualname__ for value in values})
    shown = values if types == ["str"] else [f"{type(value).__qualname__} {value!r}" for value in values]
    texts = [str(len(values)), *types, *map(repr, shown)]
    return np.frombuffer("\n".join(texts).encode(errors="backslashreplace"), dtype=np.uint8)
