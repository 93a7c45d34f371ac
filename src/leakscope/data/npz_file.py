"""Reads npz files: arrays saved by numpy, except those that need pickle."""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from leakscope.array_types import AnyArray
from leakscope.data.columns import Task, check_ids, encode_labels, numeric_features, require_names
from leakscope.data.ids import numbered_ids
from leakscope.disk.memory import machine_memory
from leakscope.disk.npy import ArrayFileError, PickledArrayError, read_array
from leakscope.disk.storage import open_regular
from leakscope.errors import InputError
from leakscope.types import Records

NO_OBJECTS = (
    "holds Python objects, which need pickle and can run code when read, so they are refused; "
    "save plain arrays of numbers or text (not dtype object)"
)
_LAST_CHARACTER = 0x10FFFF
FEATURE_NAMES = ("features", "x")
LABEL_NAMES = ("labels", "y")
# RuntimeError: encrypted members, and zip features Python does not have.
_UNREADABLE = (ValueError, OSError, EOFError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error,
               lzma.LZMAError, struct.error, IndexError, MemoryError)  # fmt: skip


def read_npz(
    path: Path, label: str | None, ids_name: str | None, group_names: tuple[str, ...], task: Task
) -> Records:
    """The records of an npz file; see `leakscope.data.files.read_table`."""
    arrays = read_arrays(path)
    require_names("label array", [] if label is None else [label], list(arrays))
    require_names("id array", [] if ids_name is None else [ids_name], list(arrays))
    require_names("group array", group_names, list(arrays))
    label = label or first_of("labels", LABEL_NAMES, arrays)
    features_name = first_of("features", FEATURE_NAMES, arrays)
    ids_name = ids_name or ("ids" if "ids" in arrays else None)
    vectors = {name: as_vector(name, arrays[name]) for name in (label, ids_name, *group_names) if name}
    check_lengths({features_name: arrays[features_name], **vectors})
    encoded = encode_labels(vectors[label], label, task)
    return Records(
        features=_features(features_name, arrays[features_name]),
        labels=encoded.labels,
        ids=ids_of(vectors, ids_name, len(encoded.labels)),
        name=path.stem,
        groups={name: vectors[name].astype(np.str_) for name in group_names},
        class_names=encoded.class_names,
    )


def read_arrays(path: Path, most_bytes: int | None = None) -> dict[str, AnyArray]:
    """Every array of the archive.

    Args:
        path: the file.
        most_bytes: that the arrays may take together; None: the machine's memory.
    """
    try:
        with open_regular(path) as file, zipfile.ZipFile(file) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            _refuse_absurd(entries, machine_memory() if most_bytes is None else most_bytes)
            return {entry.filename.removesuffix(".npy"): _member(archive, entry) for entry in entries}
    except InputError:
        raise
    except _UNREADABLE as error:
        start = _start(path)
        if start == b"\x93NUMPY":
            raise InputError("holds one array, not an npz archive; save it with numpy.savez") from error
        if start[:1] == b"\x80":
            raise InputError(f"is a pickle, and {NO_OBJECTS}") from error
        raise InputError(f"cannot be read as npz: {str(error) or type(error).__name__}") from error


def _start(path: Path) -> bytes:
    try:
        with open_regular(path) as file:
            return file.read(6)
    except OSError:
        return b""


def _member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> AnyArray:
    try:
        with archive.open(entry) as stream:
            return read_array(stream, entry.file_size)
    except PickledArrayError as error:
        raise InputError(f"{entry.filename} {NO_OBJECTS}") from error
    except ArrayFileError as error:
        raise InputError(f"{entry.filename} {error}; save the file with numpy.savez") from error


def _refuse_absurd(entries: Sequence[zipfile.ZipInfo], most_bytes: int) -> None:
    """A small archive may unpack, or claim to unpack, to more than the machine's memory."""
    n_bytes = sum(entry.file_size for entry in entries)
    if n_bytes > most_bytes:
        raise InputError(
            f"unpacks to {n_bytes / 2**30:,.1f} GiB, the limit is {most_bytes / 2**30:,.1f}; "
            "give fewer records"
        )


def first_of(what: str, names: Sequence[str], arrays: Collection[str]) -> str:
    """The first of these names that there is; raises InputError when there is none."""
    for name in names:
        if name in arrays:
            return name
    raise InputError(
        f"has no array of {what}, {' or '.join(names)}; there are: {', '.join(arrays) or 'none'}"
    )


def as_vector(name: str, array: AnyArray) -> AnyArray:
    """One value per record; a single column counts as a vector."""
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InputError(f"array {name!r} has shape {array.shape}, expected one value per record")
    if array.dtype.kind not in "biufUS":
        raise InputError(f"array {name!r} has type {array.dtype}, expected numbers, bools or text")
    return as_text(name, array) if array.dtype.kind in "US" else array


def as_text(name: str, array: AnyArray) -> npt.NDArray[np.str_]:
    """Text that can be written again: valid UTF-8, and characters that exist."""
    try:
        text: npt.NDArray[np.str_] = np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array
    except UnicodeDecodeError as error:
        raise InputError(
            f"array {name!r} holds text that is not Unicode ({error}); decode it first"
        ) from error
    # numpy stores any four bytes as a character and fails only when it converts them.
    codes = np.ascontiguousarray(text).view(np.dtype(np.uint32).newbyteorder(text.dtype.byteorder))
    if ((codes > _LAST_CHARACTER) | ((codes >= 0xD800) & (codes <= 0xDFFF))).any():
        raise InputError(f"array {name!r} holds text that is not Unicode; save it as str or UTF-8 bytes")
    return text


def check_lengths(arrays: dict[str, AnyArray]) -> None:
    """Raises InputError unless all arrays have the same number of rows, at least one."""
    lengths = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
    if len(set(lengths.values())) > 1 or 0 in lengths.values():
        rows = ", ".join(f"{name} {length:,}" for name, length in lengths.items())
        raise InputError(f"every array needs one row per record, at least one; it has: {rows}")


def _features(name: str, array: AnyArray) -> npt.NDArray[np.float32] | npt.NDArray[np.uint8]:
    if array.dtype.kind not in "biuf":
        raise InputError(f"features {name!r} have type {array.dtype}, expected numbers; encode text first")
    if not array.size:
        raise InputError(f"features {name!r} have shape {array.shape}, which is empty")
    if array.dtype == np.uint8 and array.ndim in (3, 4):
        return as_images(name, array)
    return numeric_features(array[:, None] if array.ndim == 1 else array, name)


def as_images(name: str, array: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """uint8 (records, channels, height, width)."""
    if array.ndim == 3:
        return array[:, None]
    if array.shape[1] > 4 and array.shape[3] <= 4:
        raise InputError(
            f"features {name!r} have shape {array.shape}, which looks channels-last; "
            "save (records, channels, height, width), as in x.transpose(0, 3, 1, 2)"
        )
    return array


def ids_of(vectors: dict[str, AnyArray], ids_name: str | None, n_records: int) -> npt.NDArray[np.str_]:
    """Ids of the records, by default numbered; raises InputError when they are not unique."""
    if ids_name is None:
        return numbered_ids("row-", n_records)
    ids = vectors[ids_name].astype(np.str_)
    check_ids(ids, ids_name)
    return ids
