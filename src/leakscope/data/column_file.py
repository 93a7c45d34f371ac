"""Reads csv and parquet files with polars: a few columns at a time, never the whole file.

A csv is turned into a parquet in a temporary file first, so that one column can be read without the others.
What is held of a file is what is made of it: features (on disk where they are many), labels, ids and groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from leakscope.array_types import AnyArray
from leakscope.data.columns import Roles, encode_labels, noting, refuse_where, require_names, unique_ids
from leakscope.data.csv_form import csv_problem, naming_lines, refuse_short_rows, refuse_utf_16, scan_csv
from leakscope.data.read_column import ReadColumn, read_column
from leakscope.data.suspicions import likely_mistakes
from leakscope.data.text_values import values_of
from leakscope.disk.mmap_rows import row_blocks
from leakscope.disk.parquet import ParquetFileError, check_parquet
from leakscope.disk.scratch import blocks, evict_pages, machine_memory, temporary
from leakscope.disk.storage import open_regular, temporary_errors, temporary_folder
from leakscope.disk.string_arrays import from_series, numbered_ids
from leakscope.errors import InputError
from leakscope.frames.columns import from_polars
from leakscope.frames.frame import Frame
from leakscope.frames.reading import TableReading
from leakscope.types import Records

if TYPE_CHECKING:
    import polars as pl

MISSING_GROUP = "(missing)"
_READ_AT_ONCE = 1 << 26  # bytes of columns
_LONGEST_LINE = 1 << 24  # bytes
_MOST_COLUMNS = 1 << 17


class ColumnFile(NamedTuple):
    """A parquet file that can be read, column by column; made of a csv, its types are guesses."""

    path: Path
    names: tuple[str, ...]
    n_rows: int
    is_typed: bool = True

    def columns(self, names: Sequence[str]) -> Iterator[pl.Series]:
        """These columns, in this order; few are in memory at once."""
        import polars as pl

        at_once = max(1, _READ_AT_ONCE // (8 * self.n_rows))
        for some in blocks(len(names), at_once):
            frame = pl.read_parquet(self.path, columns=list(names[some]), glob=False, hive_partitioning=False)
            yield from (frame[name] for name in names[some])

    def column(self, name: str) -> pl.Series:
        """One column."""
        return next(self.columns([name]))


@contextmanager
def column_file(path: Path, as_text: Sequence[str] = ()) -> Iterator[ColumnFile]:
    """Opens a csv or parquet file; `as_text` are columns of a csv that are text, whatever they look like.

    Raises:
        InputError: it cannot be read, or has no rows.
    """
    import polars as pl

    # Threads of polars may still write there when it has refused the file.
    with temporary_folder() as folder, _read_errors(path):
        readable = path
        if path.suffix.lower() == ".csv":
            refuse_absurd_text(path)
            readable = folder / "columns.parquet"
            # The whole column decides its type: a guess from the first rows fails on the first odd value.
            overrides = dict.fromkeys(as_text, pl.String)
            scan = scan_csv(path, schema_overrides=overrides, infer_schema_length=None)
            with temporary_errors():
                scan.sink_parquet(readable, compression="lz4")
            written = pl.scan_parquet(readable, glob=False, hive_partitioning=False)
            if written.select(pl.last().is_null().any()).collect().item():
                refuse_short_rows(path)
        else:
            check_parquet(path)
        yield _opened(readable)._replace(is_typed=readable == path)


def refuse_absurd_text(path: Path) -> None:
    """Refuses a csv that is no text or has endless lines, which takes many times its size in memory.

    Raises:
        InputError: says what is wrong with it.
        OSError: it cannot be read.
    """
    with open_regular(path) as file:
        n_columns = 1 + file.readline(_LONGEST_LINE).count(b",")
        if n_columns > _MOST_COLUMNS:
            raise InputError(f"has {n_columns:,} columns; save more than {_MOST_COLUMNS:,} features as npz")
        file.seek(0)
        refuse_utf_16(file.read(2))
        file.seek(0)
        while part := file.read(_LONGEST_LINE):
            if b"\0" in part:
                raise InputError("is not text: it holds zero bytes; save it as UTF-8")
            if len(part) == _LONGEST_LINE and b"\n" not in part:
                raise InputError(
                    f"has a line of more than {_LONGEST_LINE:,} bytes; write one record per line"
                )


def read_column_file(path: Path, roles: Roles) -> Records:
    """The records of a csv or parquet file; see `leakscope.data.files.read_table`."""
    with naming_lines(path), column_file(path, roles.read_as_text) as file:
        label = check_roles(file, roles)
        taken = {label, roles.id, *roles.groups}
        columns = tuple(c for c in file.names if c not in taken) if roles.features is None else roles.features
        if not columns:
            raise InputError(f"no feature columns are left beside {label!r}; give feature_columns")
        problems: list[str] = []
        with noting(problems):
            encoded = encode_labels(label_values(file.column(label)), label, roles.task)
        with noting(problems):
            ids = ids_of(file, roles.id)
        with noting(problems):
            columns_read = _read_columns(file, columns)
        if problems:
            raise InputError("; ".join(problems))
        features, with_missing = _features(columns_read, file.n_rows)
        return Records(
            features=features,
            labels=encoded.labels,
            ids=ids,
            name=path.stem,
            groups={name: group_of(file.column(name)) for name in roles.groups},
            class_names=encoded.class_names,
            feature_names=tuple(name for column in columns_read for name in column.encoded.names),
            frame=None if with_missing is None else Frame(with_missing, "array", is_encoded=True),
            reading=TableReading(
                tuple(column.reading for column in columns_read),
                likely_mistakes(columns_read, encoded.labels, encoded.class_names),
            ),
        )


def _read_columns(file: ColumnFile, names: Sequence[str]) -> list[ReadColumn]:
    """The columns that are features, one after the other on scratch; all problems are reported at once."""
    numbers = temporary().empty((len(names), file.n_rows), np.float32)
    columns = []
    for at, series in enumerate(file.columns(names)):
        plain = from_polars(series.name, series)
        column = read_column(plain if file.is_typed or plain.note else plain._replace(note="untyped"))
        numbers[at] = column.encoded.numbers
        columns.append(column._replace(encoded=column.encoded._replace(numbers=numbers[at])))
        evict_pages(numbers)
    problems = [column.problem for column in columns if column.problem]
    if problems:
        raise InputError("; ".join(problems))
    return columns


def _features(
    columns: Sequence[ReadColumn], n_rows: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32] | None]:
    """float32 (records, features); and, where numbers are missing, the same with NaN, for estimators."""
    encoded = [column.encoded for column in columns]
    shape = n_rows, sum(len(column.names) for column in encoded)
    scratch, has_missing = temporary(), any(column.has_missing for column in encoded)
    features = scratch.empty(shape, np.float32)
    with_missing = scratch.empty(shape, np.float32) if has_missing else None
    for rows in row_blocks(features):
        features[rows] = np.concatenate([c.features(c.numbers[rows]) for c in encoded], axis=1)
        if with_missing is not None:
            some = [c.features(c.numbers[rows], keep_missing=True) for c in encoded]
            with_missing[rows] = np.concatenate(some, axis=1)
        for column in encoded:
            evict_pages(column.numbers)
    return features, with_missing


def _opened(path: Path) -> ColumnFile:
    import polars as pl

    scan = pl.scan_parquet(path, glob=False, hive_partitioning=False)
    names, n_rows = tuple(scan.collect_schema()), int(scan.select(pl.len()).collect().item())
    if not n_rows or not names:
        raise InputError("has no rows; give at least two records of different classes")
    if n_rows > machine_memory():  # every record takes at least one byte
        raise InputError(
            f"declares {n_rows:,} rows of {len(names)} columns, more than this machine's memory can hold; "
            "give fewer records"
        )
    return ColumnFile(path, names, n_rows)


@contextmanager
def _read_errors(path: Path) -> Iterator[None]:
    """Turns errors of polars into one clear line."""
    import polars as pl

    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ParquetFileError) as error:
        raise InputError(csv_problem(path, error)) from error


def check_roles(file: ColumnFile, roles: Roles) -> str:
    """The label, once every named column is known to be there, and neither label nor id is a feature."""
    if roles.label is None:
        raise InputError(f"label is not given; name one of the columns: {', '.join(file.names)}")
    features = roles.features or ()
    require_names("label column", [roles.label], file.names)
    require_names("id column", [] if roles.id is None else [roles.id], file.names)
    require_names("group column", roles.groups, file.names)
    require_names("feature column", features, file.names)
    for role, column in (("label", roles.label), ("id", roles.id)):
        if column in features:
            raise InputError(
                f"{column!r} is the {role} column and cannot be a feature; take it out of features"
            )
    return roles.label


def column_values(series: pl.Series, role: str) -> AnyArray:
    """A column as a plain bool, integer, float or text array; no value may be missing."""
    import polars as pl

    missing = series.is_null().to_numpy()
    refuse_where(missing, f"{role} {series.name!r} has no value", "drop or fill those rows first")
    if isinstance(series.dtype, (pl.String, pl.Categorical, pl.Enum)):
        return texts_of(series)
    if isinstance(series.dtype, (pl.Decimal, pl.Int128, pl.UInt128)):  # numpy has none of these
        return series.cast(pl.Float64).to_numpy()
    if series.dtype.is_numeric() or isinstance(series.dtype, pl.Boolean):
        return series.to_numpy()
    raise InputError(
        f"{role} {series.name!r} has type {series.dtype}, expected numbers, bools or text; "
        "convert it or leave it out"
    )


def label_values(series: pl.Series) -> AnyArray:
    """A column of labels; numbers that are written with commas are numbers."""
    import polars as pl

    values = column_values(series, "label")
    if values.dtype.kind != "U" or not series.str.contains(",", literal=True).any():
        return values
    read = values_of(dict(series.value_counts().iter_rows()))
    if read.problem:
        raise InputError(f"label {series.name!r} {read.problem}; write 1234.5 for a number")
    if not read.numbers:
        return values
    known = [text for text, number in read.numbers.items() if number is not None]
    marked = ~series.is_in(known).to_numpy()
    refuse_where(marked, f"label {series.name!r} has no value", "drop or fill those rows first")
    return series.replace_strict(known, [read.numbers[t] for t in known], return_dtype=pl.Float64).to_numpy()


def ids_of(file: ColumnFile, id_column: str | None) -> npt.NDArray[np.str_]:
    """Ids of the records, by default numbered; unique."""
    if id_column is None:
        return numbered_ids("row-", file.n_rows)
    series = file.column(id_column)
    refuse_where(series.is_null().to_numpy(), f"id {id_column!r} has no value", "give each record an id")
    return unique_ids(texts_of(series), id_column)


def group_of(series: pl.Series) -> npt.NDArray[np.str_]:
    """Labels of a group; a missing one is a group of its own."""
    return texts_of(series, MISSING_GROUP)


def texts_of(series: pl.Series, missing: str = "") -> npt.NDArray[np.str_]:
    """A column as texts."""
    import polars as pl

    try:
        texts = series.cast(pl.String)
    except pl.exceptions.PolarsError as error:  # bytes, lists, structures
        raise InputError(
            f"column {series.name!r} has type {series.dtype}, which is not text; convert it or leave it out"
        ) from error
    try:
        return from_series(texts.fill_null(missing))
    except ValueError as error:
        raise InputError(f"column {series.name!r} {error}; shorten it or leave it out") from error
