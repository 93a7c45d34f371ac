"""The user's own records: csv, parquet or npz in, `Records` out.

Nothing is ever unpickled: a pickle can run code when it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from leakscope.errors import InputError

if TYPE_CHECKING:
    from leakscope.data.columns import Task
    from leakscope.types import Records

SUFFIXES = (".csv", ".parquet", ".npz")


def read_table(
    path: Path | str,
    label: str | None = None,
    id_column: str | None = None,
    group_columns: Sequence[str] = (),
    feature_columns: Sequence[str] | None = None,
    task: Task = "auto",
) -> Records:
    """Read the records of one file; the extension says how.

    In a csv or parquet file numeric columns become float32 features as they are, bools 0 and 1, and text
    is one-hot encoded in alphabetical order. An npz file holds `features` (or `x`), `labels` (or `y`),
    and may hold `ids` and one array a group; uint8 features (records, channels, height, width), or
    without the channels, stay images.

    Args:
        path: the file.
        label: column (npz: array) of labels; needed for csv and parquet.
        id_column: column (npz: array) of unique ids; without one, ids are `row-0`, `row-1` and so on.
        group_columns: columns to report risk by. They are no features unless `feature_columns` has them.
        feature_columns: the columns to use, in this order; by default all that have no other role.
        task: "classification" or "regression"; "auto" takes a label of numbers that are not all whole as
            a regression target, and any other as classes.

    Raises:
        InputError: the file or a column is not there or not usable; names it, the first bad row, the remedy.
    """
    path = Path(path).expanduser()
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(
            f"{path}: unknown extension {suffix!r}; give a file that ends in {', '.join(SUFFIXES)}"
        )
    if not path.is_file():
        raise InputError(f"{path} is not there, or is not a file; check the path")
    try:
        return _read(path, suffix, label, id_column, _names(group_columns), _names(feature_columns), task)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _read(
    path: Path,
    suffix: str,
    label: str | None,
    id_column: str | None,
    group_columns: tuple[str, ...] | None,
    feature_columns: tuple[str, ...] | None,
    task: Task,
) -> Records:
    from leakscope.data.columns import check_task

    check_task(task)
    if suffix == ".npz":
        from leakscope.data.npz_file import read_npz

        if feature_columns is not None:
            raise InputError("feature_columns is for csv and parquet; an npz file has one array of features")
        return read_npz(path, label, id_column, group_columns or (), task)
    from leakscope.data.column_file import read_column_file

    return read_column_file(path, label, id_column, group_columns or (), feature_columns, task)


def _names(columns: Sequence[str] | None) -> tuple[str, ...] | None:
    """Each name once; a lone text is one name, not its letters."""
    if columns is None:
        return None
    return (columns,) if isinstance(columns, str) else tuple(dict.fromkeys(columns))
