"""Predictions with one row per model and record, put side by side: one row per record.

Whoever appends the predictions of each model to one file has them like this.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from leakscope.data.column_file import ColumnFile
from leakscope.data.columns import listed
from leakscope.data.prediction_roles import TableRoles
from leakscope.disk.storage import temporary_errors
from leakscope.errors import InputError

if TYPE_CHECKING:
    import polars as pl

_TARGET = "target"


def repeats_records(file: ColumnFile, roles: TableRoles) -> bool:
    """Whether an id has several rows."""
    return roles.id is not None and bool(file.column(roles.id).is_duplicated().any())


def side_by_side(
    file: ColumnFile, roles: TableRoles, outputs: Sequence[str], model: str, target: str | None, to: Path
) -> ColumnFile:
    """Writes a file with one row per record: the target's columns, then `reference_0_...` and so on.

    Args:
        file: one row per model and record.
        roles: its label, id and membership.
        outputs: its columns of outputs.
        model: the column that names the model of each row.
        target: the audited model; None: the one called "target".
        to: where to write.

    Raises:
        InputError: a model lacks records, or has them twice, or labels differ.
    """
    if roles.id is None:
        raise InputError(f"{model!r} names the model of each row, so records need ids; name them with --id")
    names = _model_names(file, model)
    own = _target_name(names, model, target)
    references = [name for name in names if name != own]
    if references and roles.member is None:
        raise InputError(
            "does not say which records are members of which model; name the column with --member"
        )
    wide = _rows_of(file, model, own, roles.id)
    for number, name in enumerate(references):
        needed = [*outputs, *([] if roles.member is None else [roles.member]), roles.label]
        rows = _rows_of(file, model, name, roles.id).select(roles.id, *needed)
        wide = _joined(wide, rows, roles, f"reference_{number}_", name)
    wide = wide.drop(model)
    with temporary_errors():
        wide.write_parquet(to, compression="lz4")
    return ColumnFile(to, tuple(wide.columns), len(wide))


def _model_names(file: ColumnFile, model: str) -> list[str]:
    import polars as pl

    series = file.column(model).cast(pl.String)
    if series.null_count():
        raise InputError(f"model {model!r} has no value in {series.null_count():,} rows; name every model")
    return [str(name) for name in series.unique(maintain_order=True)]


def _target_name(names: Sequence[str], model: str, target: str | None) -> str:
    wanted = _TARGET if target is None else target
    own = next(
        (name for name in names if name == wanted or (target is None and name.lower() == wanted)), None
    )
    if own is None:
        raise InputError(
            f"column {model!r} has no model {wanted!r}; say which is the audited one with --target "
            f"(there are: {listed(names, 6)})"
        )
    return own


def _rows_of(file: ColumnFile, model: str, name: str, id_column: str) -> pl.DataFrame:
    import polars as pl

    scan = pl.scan_parquet(file.path, glob=False, hive_partitioning=False)
    rows = scan.filter(pl.col(model).cast(pl.String) == name).collect()
    repeated = rows[id_column].is_duplicated()
    if repeated.any():
        first = rows[id_column].filter(repeated)[0]
        raise InputError(f"model {name!r} has several rows for the record {str(first)!r}; give one")
    return rows


def _joined(
    wide: pl.DataFrame, rows: pl.DataFrame, roles: TableRoles, prefix: str, name: str
) -> pl.DataFrame:
    """The rows of another model as further columns."""
    import polars as pl

    assert roles.id is not None, "`side_by_side` refuses records without ids"
    lacking = wide[roles.id].filter(~wide[roles.id].is_in(rows[roles.id].implode()))
    if len(lacking):
        raise InputError(
            f"model {name!r} lacks {len(lacking):,} of the target's {len(wide):,} records "
            f"(first: {str(lacking[0])!r}); give the outputs of every model for the same records"
        )
    rows = wide.select(roles.id).join(rows, on=roles.id, how="left", maintain_order="left")
    differ = rows[roles.label].ne_missing(wide[roles.label])
    if differ.any():
        first = wide[roles.id].filter(differ)[0]
        raise InputError(f"the record {str(first)!r} has another label for the model {name!r}; correct it")
    new = {column: f"{prefix}{'member' if column == roles.member else column}" for column in rows.columns}
    return pl.concat([wide, rows.drop(roles.id, roles.label).rename(new, strict=False)], how="horizontal")
