"""A csv or parquet file as a table for estimators: its columns as they are, like a DataFrame in memory.

A csv has no types, so its texts are read by the rules for networks: numbers with decimal commas are numbers,
and what can be read in two ways is refused. A type that a parquet file states stays.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from leakscope.data.column_file import ColumnFile, check_roles, column_file
from leakscope.data.columns import Roles, noting
from leakscope.data.csv_form import naming_lines
from leakscope.data.frame_records import FrameRoles, frame_records
from leakscope.data.read_column import read_column
from leakscope.data.text_values import values_of
from leakscope.errors import InputError
from leakscope.frames.columns import from_polars
from leakscope.types import Records

if TYPE_CHECKING:
    import polars as pl

_MICROSECONDS_PER_DAY = 86_400_000_000


def read_file_table(path: Path, roles: Roles) -> Records:
    """The records of a csv or parquet file, with the table that estimators are fitted on.

    Raises:
        InputError: names the file, every column that cannot be read, and the remedy.
    """
    try:
        with naming_lines(path):
            with column_file(path, roles.read_as_text) as file:
                features, table = _table(file, roles)
            people = FrameRoles(roles.label, roles.id, roles.groups, features, roles.task, path.stem)
            records = frame_records(table, people)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    assert records.frame is not None, "a DataFrame has columns"
    return replace(records, frame=replace(records.frame, is_of_file=True))


def _table(file: ColumnFile, roles: Roles) -> tuple[tuple[str, ...], pl.DataFrame]:
    """The features, and a table of them, in order, followed by the other columns that are needed."""
    import polars as pl

    label = check_roles(file, roles)
    others = [name for name in (label, roles.id, *roles.groups) if name is not None]
    features = tuple(c for c in file.names if c not in others) if roles.features is None else roles.features
    if not features:
        raise InputError(f"no feature columns are left beside {label!r}; give features")
    problems: list[str] = []
    columns = []
    for series in file.columns(list(dict.fromkeys([*features, *others]))):
        with noting(problems):
            is_text_of_csv = series.name in features and not file.is_typed
            columns.append(_of_one_type(_as_read(series) if is_text_of_csv else series))
    if problems:
        raise InputError("; ".join(problems))
    return features, pl.DataFrame(columns)


def _of_one_type(series: pl.Series) -> pl.Series:
    """A column that has the same type in every half: with NaN in it, as without; and all categories."""
    import polars as pl

    if isinstance(series.dtype, pl.Categorical):
        return series.cast(pl.Enum(series.drop_nulls().cast(pl.String).unique().sort()))
    can_be_missing = series.dtype.is_integer() or isinstance(series.dtype, pl.Boolean)
    return series.cast(pl.Float64) if can_be_missing and series.null_count() else series


def _as_read(series: pl.Series) -> pl.Series:
    """A column of a csv, as numbers or dates where its texts are nothing else."""
    import polars as pl

    if not isinstance(series.dtype, pl.String):
        return series
    values = values_of(dict(series.drop_nulls().value_counts().iter_rows()))
    if values.problem:
        raise InputError(read_column(from_polars(series.name, series)._replace(note="untyped")).problem)
    if not values.numbers:
        return series
    texts, numbers = list(values.numbers), list(values.numbers.values())
    read = series.replace_strict(texts, numbers, return_dtype=pl.Float64)
    if not values.is_date:
        return read
    return (read * _MICROSECONDS_PER_DAY).round().cast(pl.Int64).cast(pl.Datetime("us"))
