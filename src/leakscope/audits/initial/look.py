"""What a file of records looks like, from its first rows: enough to guess what its columns are for.

A file of a million rows is looked at in seconds: the first rows are read whole, and of the others only the
columns that decide something.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Literal, NamedTuple

from leakscope.data.csv_form import csv_problem, refuse_short_rows, scan_csv
from leakscope.data.text_values import are_measurements, values_of
from leakscope.disk.parquet import ParquetFileError, check_parquet
from leakscope.errors import InputError, first_line

if TYPE_CHECKING:
    import polars as pl

FIRST_ROWS = 20_000
_MOST_SPACES = 3  # of a name, such as "van der Berg, Anna"
MOST_CATEGORIES = 256  # of a text that becomes features, one per category

Kind = Literal["whole", "number", "bool", "text", "other"]


class Column(NamedTuple):
    """A column, by the first rows.

    Attributes:
        name: of the column.
        kind: whole numbers, numbers with fractions, bools, text, or something else, such as dates.
        n_values: how many different values.
        is_unique: whether no value occurs twice.
        is_free_text: texts of so many values that they cannot be features.
        can_be_id: whether its values name records: texts or whole numbers, but no dates, amounts, sentences.
    """

    name: str
    kind: Kind
    n_values: int
    is_unique: bool
    is_free_text: bool
    can_be_id: bool


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
        n_rows, n_empty = scan.select(pl.len(), pl.last().null_count().alias("n_empty")).collect().row(0)
        if n_empty and path.suffix.lower() == ".csv":
            refuse_short_rows(path)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ParquetFileError) as error:
        raise InputError(f"{path}: {csv_problem(path, error)}") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    if len(first.columns) < 2 or not n_rows:
        raise InputError(
            f"{path}: has {len(first.columns)} columns and {n_rows:,} rows; an audit needs records with a "
            "label and at least one feature"
        )
    is_typed = path.suffix.lower() == ".parquet"
    return Look(path, tuple(_column(first[name], is_typed) for name in first.columns), n_rows)


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


def _column(series: pl.Series, is_typed: bool) -> Column:
    kind = _kind(series)
    # Values of other types, such as lists, cannot always be compared.
    values = series.drop_nulls() if kind == "other" else series.drop_nulls().unique(maintain_order=True)
    is_unique = kind != "other" and len(values) == len(series) and len(series) > 1
    counts = _counts(series) if kind == "text" else {}
    is_free_text = len(counts) > MOST_CATEGORIES and not _are_numbers(counts, is_typed)
    is_name = kind == "text" and not are_measurements([*counts]) and not _are_sentences(counts)
    can_be_id = kind == "whole" or is_name
    return Column(series.name, kind, len(values), is_unique, is_free_text, can_be_id)


def _are_sentences(texts: Iterable[str]) -> bool:
    """Whether at least half of the texts have more words than a name: reports state ids, and not notes."""
    return median([text.count(" ") for text in texts] or [0]) > _MOST_SPACES


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


def _counts(series: pl.Series) -> dict[str, int]:
    """In how many rows each text stands."""
    import polars as pl

    texts = series.drop_nulls().cast(pl.String)
    return dict(zip(texts.unique(maintain_order=True), texts.unique_counts(), strict=True))


def _are_numbers(counts: dict[str, int], is_typed: bool) -> bool:
    """Whether an audit reads texts as numbers or dates, or refuses them because they nearly are."""
    values = values_of(counts, is_typed)
    return bool(values.numbers or values.problem)
