"""Read npz: arrays saved by numpy, never those that need pickle."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from leakscope.data.columns import Task, check_ids, encode_labels, numeric_features, require_names
from leakscope.data.ids import numbered_ids
from leakscope.errors import InputError
from leakscope.types import AnyArray, Records

FEATURE_NAMES = ("features", "x")
LABEL_NAMES = ("labels", "y")
# RuntimeError: encrypted members, and zip features Python does not have.
_UNREADABLE = (ValueError, OSError, EOFError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error)


def read_npz(
    path: Path, label: str | None, ids_name: str | None, group_names: tuple[str, ...], task: Task
) -> Records:
    """The records of an npz file; see `leakscope.data.files.read_table`."""
    arrays = _read_arrays(path)
    require_names("label array", [] if label is None else [label], list(arrays))
    require_names("id array", [] if ids_name is None else [ids_name], list(arrays))
    require_names("group array", group_names, list(arrays))
    label = label or _first_of("labels", LABEL_NAMES, arrays)
    features_name = _first_of("features", FEATURE_NAMES, arrays)
    ids_name = ids_name or ("ids" if "ids" in arrays else None)
    vectors = {name: _vector(name, arrays[name]) for name in (label, ids_name, *group_names) if name}
    _check_lengths({features_name: arrays[features_name], **vectors})
    encoded = encode_labels(vectors[label], label, task)
    return Records(
        features=_features(features_name, arrays[features_name]),
        labels=encoded.labels,
        ids=_ids(vectors, ids_name, len(encoded.labels)),
        name=path.stem,
        groups={name: vectors[name].astype(np.str_) for name in group_names},
        class_names=encoded.class_names,
    )


def _read_arrays(path: Path) -> dict[str, AnyArray]:
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except TypeError as error:  # a lone array, not an archive, is no context manager
        raise InputError("holds one array, not an npz archive; save it with numpy.savez") from error
    except _UNREADABLE as error:
        if "pickle" in str(error):
            raise InputError(
                "holds Python objects, which need pickle and can run code when read, so they are refused; "
                "save plain arrays of numbers or text (not dtype object)"
            ) from error
        raise InputError(f"cannot be read as npz: {error or type(error).__name__}") from error
    foreign = [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]
    if foreign:
        raise InputError(f"{', '.join(foreign)} is no array; save the file with numpy.savez")
    return arrays


def _first_of(what: str, names: Sequence[str], arrays: dict[str, AnyArray]) -> str:
    for name in names:
        if name in arrays:
            return name
    raise InputError(
        f"has no array of {what}, {' or '.join(names)}; there are: {', '.join(arrays) or 'none'}"
    )


def _vector(name: str, array: AnyArray) -> AnyArray:
    """One value a record; a single column counts as a vector."""
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InputError(f"array {name!r} has shape {array.shape}, expected one value a record")
    if array.dtype.kind not in "biufUS":
        raise InputError(f"array {name!r} has type {array.dtype}, expected numbers, bools or text")
    return np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array


def _check_lengths(arrays: dict[str, AnyArray]) -> None:
    lengths = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
    if len(set(lengths.values())) > 1 or 0 in lengths.values():
        found = ", ".join(f"{name} {length:,}" for name, length in lengths.items())
        raise InputError(f"every array needs one row a record, at least one; rows found: {found}")


def _features(name: str, array: AnyArray) -> npt.NDArray[np.float32] | npt.NDArray[np.uint8]:
    if array.dtype.kind not in "biuf":
        raise InputError(f"features {name!r} have type {array.dtype}, expected numbers; encode text first")
    if array.dtype == np.uint8 and array.ndim in (3, 4):
        return _images(name, array)
    return numeric_features(array[:, None] if array.ndim == 1 else array, name)


def _images(name: str, array: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """uint8 (records, channels, height, width)."""
    if array.ndim == 3:
        return array[:, None]
    if array.shape[1] > 4 and array.shape[3] <= 4:
        raise InputError(
            f"features {name!r} have shape {array.shape}, which looks channels-last; "
            "save (records, channels, height, width), as in x.transpose(0, 3, 1, 2)"
        )
    return array


def _ids(vectors: dict[str, AnyArray], ids_name: str | None, n_records: int) -> npt.NDArray[np.str_]:
    if ids_name is None:
        return numbered_ids("row-", n_records)
    ids = vectors[ids_name].astype(np.str_)
    check_ids(ids, ids_name)
    return ids
