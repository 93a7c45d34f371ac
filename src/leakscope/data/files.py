"""Reads the user's own records: a csv, parquet or npz file, or a folder of arrays or images.

Nothing is ever unpickled: a pickle can run code when it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leakscope.data.array_records import is_array_folder, read_array_folder, read_npz
from leakscope.data.column_file import read_column_file
from leakscope.data.columns import TASKS, Roles, Task
from leakscope.data.frame_records import FrameRoles, frame_records
from leakscope.data.image_folder import read_image_folder
from leakscope.disk.storage import unknown_extension
from leakscope.errors import InputError
from leakscope.types import Records

SUFFIXES = (".csv", ".parquet", ".npz")
_FOLDER = "a folder"


def read_table(
    path: Path | str | Any,
    label: str | Any | None = None,
    id_column: str | Any | None = None,
    group_columns: Sequence[str] | Any = (),
    feature_columns: Sequence[str] | None = None,
    task: Task = "auto",
) -> Records:
    """Reads records from a file, by its extension, from a folder, or from a table in memory.

    In a csv or parquet file numbers become float32 features as they are, bools 0 and 1, dates days, and text
    is one-hot encoded in alphabetical order; docs/data.md has all rules. An estimator gets missing numbers as
    NaN. A DataFrame of pandas or polars, a numpy array or a sparse matrix goes to estimators as it is, and to
    networks by the same rules. An npz file holds `features` (or `x`), `labels` (or `y`),
    and may hold `ids` and one array per group; uint8 features (records, channels, height, width), or
    without the channels, stay images. A folder holds such arrays as npy files, whose features stay on disk
    (see `array_records`), or folders of images, one per class (see `image_folder`).

    Args:
        path: the file or folder, or the table.
        label: column (npz, npy: array) of labels; needed for csv and parquet. Of a table in memory: the name
            of a column, or one value per row.
        id_column: column (npz, npy: array) of unique ids; without one, ids are `row-0`, `row-1` and so on. Of
            a table in memory: the name of a column, or one value per row.
        group_columns: columns to report risk for. They are not features unless `feature_columns` lists them.
            Of a table in memory, they stay features; name -> values and a DataFrame are groups, too.
        feature_columns: the columns to use, in this order; by default all without another role.
        task: "classification" or "regression"; "auto" takes a label of numbers that are not all whole as
            a regression target, and any other as classes.

    Raises:
        InputError: the file or a column is missing or unusable; names it, the first bad row, the remedy.
    """
    if not isinstance(path, str | Path):
        chosen = None if feature_columns is None else _names(feature_columns)
        return frame_records(path, FrameRoles(label, id_column, group_columns, chosen, task))
    path = Path(path).expanduser()
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES and path.is_dir():
        suffix = _FOLDER
    elif suffix not in SUFFIXES:
        raise InputError(
            f"{path}: {unknown_extension(path, SUFFIXES, 'a folder of images or arrays, or a file in')}; "
            "documents are read by leakscope.read_text"
        )
    elif not path.is_file():
        raise InputError(f"{path} does not exist or is not a file; check the path")
    roles = Roles(label, id_column, _names(group_columns), None, task)
    if feature_columns is not None:
        roles = roles._replace(features=_names(feature_columns))
    try:
        return _read(path, suffix, roles)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _read(path: Path, suffix: str, roles: Roles) -> Records:
    if roles.task not in TASKS:
        raise InputError(f"task={roles.task!r} must be one of {', '.join(TASKS)}")
    if suffix not in (".csv", ".parquet") and roles.features is not None:
        raise InputError("feature_columns is for csv and parquet; arrays and images have no columns")
    if suffix == _FOLDER:
        return _read_folder(path, roles)
    if suffix == ".npz":
        return read_npz(path, roles)
    return read_column_file(path, roles)


def _read_folder(path: Path, roles: Roles) -> Records:
    try:
        if is_array_folder(path):
            return read_array_folder(path, roles)
        if roles.label or roles.id or roles.groups or roles.task == "regression":
            raise InputError(
                "label, id, groups and a regression task are for tables and arrays; the classes of a folder "
                "of images are its folders, and ids their paths"
            )
        return read_image_folder(path)
    except OSError as error:
        raise InputError(f"cannot read {error.filename}: {error.strerror}; check the folder") from error


def _names(columns: Sequence[str]) -> tuple[str, ...]:
    """Each name once; a single text is one name, not its letters."""
    return (columns,) if isinstance(columns, str) else tuple(dict.fromkeys(columns))
