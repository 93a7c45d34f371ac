"""What a file of records looks like, from its first rows: enough to guess what its columns are for.

A file of a million rows is looked at in seconds: the first rows are read whole, and of the others only the
columns that decide something.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from leakscope.data.csv_form import csv_problem, scan_csv
from leakscope.disk.parquet import ParquetFileError, check_parquet
from leakscope.errors import InputError, first_line

if TYPE_CHECKING:
    import polars as pl

FIRST_ROWS = 20_000
MOST_CATEGORIES = 256  # of a text that becomes features, one per category
_TEXTS_LOOKED_AT = 1000
_NUMBER_OR_DATE = r"^\s*[+-]?\d[\d.,:/TZ +-]*$"

Kind = Literal["whole", "number", "bool", "text", "other"]


class Column(NamedTuple):
    """A column, by the first rows.

    Attributes:
        name: of the column.
        kind: whole numbers, numbers with fractions, bools, text, or something else, such as dates.
        n_values: how many different values.
        is_unique: whether no value occurs twice.
        is_free_text: texts of so many values that they cannot be features.
    """

    name: str
    kind: Kind
    n_values: int
    is_unique: bool
    is_free_text: bool


class Look(NamedTuple):
    """A file of records: its columns by the first rows, and how many rows there are."""

    path: Path
    columns: tuple[Column, ...]
    n_rows: int

    def column(self, name: str) -> Column:
        """The column of this name."""
        return next(column for column in self.columns if column.name == name)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns."""
        return tuple(column.name for column in self.columns)


def look_at(path: Path) -> Look:
    """Looks at a csv or parquet file.

    Raises:
        InputError: it cannot be read, has no rows, or fewer than two columns.
    """
    import polars as pl

    try:
        scan = _scan(path)
        first = scan.head(FIRST_ROWS).collect()
        n_rows = int(scan.select(pl.len()).collect().item())
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ParquetFileError) as error:
        raise InputError(f"{path}: {csv_problem(path, error)}") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    if len(first.columns) < 2 or not n_rows:
        raise InputError(
            f"{path}: has {len(first.columns)} columns and {n_rows:,} rows; an audit needs records with a "
            "label and at least one feature"
        )
    return Look(path, tuple(_column(first[name]) for name in first.columns), n_rows)


def whole_column(path: Path, name: str) -> pl.Series:
    """A column of all rows, as texts; null where a cell is empty."""
    import polars as pl

    try:
        return _scan(path, as_text=True).select(pl.col(name).cast(pl.String)).collect()[name]
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise InputError(f"{path}: column {name!r} cannot be read: {first_line(error)}") from error


def _scan(path: Path, as_text: bool = False) -> pl.LazyFrame:
    import polars as pl

    if path.suffix.lower() == ".parquet":
        check_parquet(path)
        return pl.scan_parquet(path, glob=False, hive_partitioning=False)
    return scan_csv(path, infer_schema=not as_text, infer_schema_length=FIRST_ROWS, ignore_errors=not as_text)


def _column(series: pl.Series) -> Column:
    kind = _kind(series)
    # Values of other types, such as lists, cannot always be compared.
    values = series.drop_nulls() if kind == "other" else series.drop_nulls().unique(maintain_order=True)
    is_unique = kind != "other" and len(values) == len(series) and len(series) > 1
    is_many = kind == "text" and len(values) > MOST_CATEGORIES
    is_free_text = is_many and not _holds_numbers(values.head(_TEXTS_LOOKED_AT).to_list())
    return Column(series.name, kind, len(values), is_unique, is_free_text)


def _kind(series: pl.Series) -> Kind:
    import polars as pl

    if isinstance(series.dtype, pl.Boolean):
        return "bool"
    if series.dtype.is_integer():
        return "whole"
    if series.dtype.is_float() or isinstance(series.dtype, pl.Decimal):
        numbers = series.cast(pl.Float64).drop_nulls().drop_nans()
        return "whole" if len(numbers) and bool((numbers == numbers.round()).all()) else "number"
    return "text" if isinstance(series.dtype, (pl.String, pl.Categorical, pl.Enum)) else "other"


def _holds_numbers(texts: Sequence[str]) -> bool:
    """Whether most texts are numbers with commas, or dates."""
    return sum(bool(re.match(_NUMBER_OR_DATE, text)) for text in texts) > len(texts) / 2
