"""Read csv and parquet, files of named columns, with polars."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from leakscope.data.columns import (
    Task,
    check_ids,
    encode_features,
    encode_labels,
    encoded_names,
    refuse_where,
    require_names,
)
from leakscope.data.ids import numbered_ids
from leakscope.data.memory import machine_memory
from leakscope.errors import InputError
from leakscope.types import AnyArray, Records

if TYPE_CHECKING:
    import polars as pl

MISSING_GROUP = "(missing)"


def read_column_file(
    path: Path,
    label: str | None,
    id_column: str | None,
    group_columns: tuple[str, ...],
    feature_columns: tuple[str, ...] | None,
    task: Task,
) -> Records:
    """The records of a csv or parquet file; see `leakscope.data.files.read_table`."""
    frame = _read_frame(path)
    label = _check_roles(frame, label, id_column, group_columns, feature_columns)
    if feature_columns is None:
        taken = {label, id_column, *group_columns}
        feature_columns = tuple(column for column in frame.columns if column not in taken)
    if not feature_columns:
        raise InputError(f"no feature columns are left beside {label!r}; give feature_columns")
    encoded = encode_labels(_plain(frame[label], "label"), label, task)
    columns = [(name, _plain(frame[name], "feature")) for name in feature_columns]
    return Records(
        features=encode_features(columns),
        labels=encoded.labels,
        ids=_ids(frame, id_column),
        name=path.stem,
        groups={name: _group(frame[name]) for name in group_columns},
        class_names=encoded.class_names,
        feature_names=encoded_names(columns),
    )


def _read_frame(path: Path) -> pl.DataFrame:
    import polars as pl

    try:
        # The whole column decides its type: a guess from the first rows fails on the first odd value.
        csv = path.suffix.lower() == ".csv"
        if not csv:
            _refuse_absurd(path)
        frame = pl.read_csv(path, infer_schema_length=None) if csv else pl.read_parquet(path)
    except (
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
        OSError,
    ) as error:  # a panic: damaged parquet
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(f"cannot be read as {path.suffix[1:]}: {reason}") from error
    if frame.is_empty():
        raise InputError("has no rows; give at least two records of different classes")
    return frame


def _refuse_absurd(path: Path) -> None:
    """A small file may say that it holds more rows than the machine has room for."""
    import polars as pl

    scan = pl.scan_parquet(path)
    n_rows, n_columns = int(scan.select(pl.len()).collect().item()), len(scan.collect_schema())
    if n_rows * n_columns > machine_memory():  # a byte a value is less than any of them takes
        raise InputError(
            f"declares {n_rows:,} rows of {n_columns} columns, more than this machine's memory can hold; "
            "give fewer records"
        )


def _check_roles(
    frame: pl.DataFrame,
    label: str | None,
    id_column: str | None,
    group_columns: tuple[str, ...],
    feature_columns: tuple[str, ...] | None,
) -> str:
    """The label, once every named column is known to be there, and neither label nor id is a feature."""
    if frame.width == 1 and any(mark in frame.columns[0] for mark in ";\t|"):
        raise InputError(f"has one column, {frame.columns[0]!r}; separate the columns by commas")
    if label is None:
        raise InputError(f"label is not given; name one of the columns: {', '.join(frame.columns)}")
    require_names("label column", [label], frame.columns)
    require_names("id column", [] if id_column is None else [id_column], frame.columns)
    require_names("group column", group_columns, frame.columns)
    require_names("feature column", feature_columns or (), frame.columns)
    for role, column in (("label", label), ("id", id_column)):
        if column in (feature_columns or ()):
            raise InputError(
                f"{column!r} is the {role} column and cannot be a feature; take it out of features"
            )
    return label


def _plain(series: pl.Series, role: str) -> AnyArray:
    """A column as a plain bool, integer, float or text array; no value may be missing."""
    import polars as pl

    missing = series.is_null().to_numpy()
    refuse_where(missing, f"{role} {series.name!r} has no value", "drop or fill those rows first")
    if isinstance(series.dtype, (pl.String, pl.Categorical, pl.Enum)):
        return _texts(series)
    if isinstance(series.dtype, (pl.Decimal, pl.Int128, pl.UInt128)):  # numpy has none of these
        return series.cast(pl.Float64).to_numpy()
    if series.dtype.is_numeric() or isinstance(series.dtype, pl.Boolean):
        return series.to_numpy()
    raise InputError(
        f"{role} {series.name!r} has type {series.dtype}, expected numbers, bools or text; "
        "convert it or leave it out"
    )


def _ids(frame: pl.DataFrame, id_column: str | None) -> npt.NDArray[np.str_]:
    if id_column is None:
        return numbered_ids("row-", frame.height)
    series = frame[id_column]
    refuse_where(series.is_null().to_numpy(), f"id {id_column!r} has no value", "give each record an id")
    ids = _texts(series)
    check_ids(ids, id_column)
    return ids


def _group(series: pl.Series) -> npt.NDArray[np.str_]:
    import polars as pl

    return _texts(series, pl.lit(MISSING_GROUP))


def _texts(series: pl.Series, missing: pl.Expr | None = None) -> npt.NDArray[np.str_]:
    import polars as pl

    try:
        texts = series.cast(pl.String)
    except pl.exceptions.PolarsError as error:  # bytes, lists, structures
        raise InputError(
            f"column {series.name!r} has type {series.dtype}, which is no text; convert it or leave it out"
        ) from error
    return np.array((texts if missing is None else texts.fill_null(missing)).to_list(), dtype=np.str_)
