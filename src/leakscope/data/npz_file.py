"""Reads npz files: arrays saved by numpy, except those that need pickle."""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from leakscope.array_types import AnyArray
from leakscope.disk.npy import ArrayFileError, PickledArrayError, read_array
from leakscope.disk.scratch import machine_memory
from leakscope.disk.storage import open_regular
from leakscope.errors import InputError

NO_OBJECTS = (
    "holds Python objects, which need pickle and can run code when read, so they are refused; "
    "save plain arrays of numbers or text (not dtype object)"
)
_LAST_CHARACTER = 0x10FFFF
# RuntimeError: encrypted members, and zip features Python does not have.
_UNREADABLE = (ValueError, OSError, EOFError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error,
               lzma.LZMAError, struct.error, IndexError, MemoryError)  # fmt: skip


def read_arrays(path: Path, most_bytes: int | None = None) -> dict[str, AnyArray]:
    """Every array of the archive; `most_bytes` may they take together, by default the machine's memory."""
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
