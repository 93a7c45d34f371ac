"""Reads `.npy` files of plain arrays whose header accounts for every byte. Nothing is ever unpickled.

numpy's own reader believes the header: it allocates whatever a file of a hundred bytes claims to hold, and
errors come as any of a dozen exceptions. Here numpy parses the header, the claim is compared with the size of
the file before anything is allocated, and there is one exception.
"""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy_format

from leakscope.array_types import AnyArray
from leakscope.disk.storage import open_regular
from leakscope.errors import first_line

_READERS = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}
"""Version 3 is for names of fields, which plain arrays do not have."""
_LONGEST_HEADER = 10_000  # bytes, as in numpy
_MOST_AXES = 32
_READ_AT_ONCE = 1 << 22


class ArrayFileError(ValueError):
    """The file is not a `.npy` file of a plain array, or is cut off; says why."""


class PickledArrayError(ArrayFileError):
    """The array holds Python objects, which need pickle."""


class Header(NamedTuple):
    """The header of a `.npy` file: its claim about the array, and its own length in bytes."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    is_fortran: bool
    n_bytes: int

    @property
    def data_bytes(self) -> int:
        """Bytes of the array's numbers."""
        return math.prod(self.shape) * self.dtype.itemsize

    def check_size(self, n_bytes: int) -> None:
        """Raises unless header and numbers take exactly `n_bytes`."""
        if self.n_bytes + self.data_bytes != n_bytes:
            raise ArrayFileError(
                f"says it holds {self.dtype} {self.shape}, {self.data_bytes:,} bytes, "
                f"but there are {n_bytes - self.n_bytes:,}"
            )


def read_header(stream: IO[bytes]) -> Header:
    """The header at the stream's start, which is then positioned at the numbers."""
    try:
        version = npy_format.read_magic(stream)
    except ValueError as error:
        raise ArrayFileError("is not an array saved by numpy") from error
    read = _READERS.get(version)
    if read is None:
        raise ArrayFileError(f"has version {version} of numpy's format; save plain numbers or text")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about files written by Python 2
            shape, is_fortran, dtype = read(stream, _LONGEST_HEADER)
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError, TokenError) as error:
        raise ArrayFileError(f"has a damaged header ({first_line(error)})") from error
    _check_plain(dtype, shape)
    return Header(dtype, shape, is_fortran, stream.tell())


def read_array(stream: IO[bytes], n_bytes: int) -> AnyArray:
    """The array of a stream that holds `n_bytes`, header included."""
    header = read_header(stream)
    header.check_size(n_bytes)
    flat = np.empty(math.prod(header.shape), header.dtype)
    unread = flat.view(np.uint8).data if flat.size else memoryview(b"")
    while len(unread):
        n_read = stream.readinto(unread[:_READ_AT_ONCE])  # type: ignore[attr-defined]
        if not n_read:
            raise ArrayFileError("is cut off")
        unread = unread[n_read:]
    return _shaped(flat, header)


def load_array(path: Path) -> AnyArray:
    """The array of a `.npy` file, in memory."""
    try:
        with open_regular(path) as file:
            return read_array(file, path.stat().st_size)
    except OSError as error:
        raise ArrayFileError(f"cannot be read ({error.strerror or type(error).__name__})") from error


def map_array(path: Path) -> AnyArray:
    """The array of a `.npy` file, memory-mapped and read-only."""
    try:
        with open_regular(path) as file:
            header = read_header(file)
            header.check_size(path.stat().st_size)
        if not header.data_bytes:
            return load_array(path)  # an empty array cannot be mapped
        flat = np.memmap(path, header.dtype, "r", header.n_bytes, (math.prod(header.shape),))
        return _shaped(flat, header)
    except OSError as error:
        raise ArrayFileError(f"cannot be read ({error.strerror or type(error).__name__})") from error


def _check_plain(dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    if dtype.hasobject:
        raise PickledArrayError("holds Python objects, which need pickle")
    if dtype.subdtype is not None or dtype.names is not None or not dtype.itemsize:
        raise ArrayFileError(f"holds {dtype}, expected plain numbers or text")
    if len(shape) > _MOST_AXES or not all(type(n) is int and 0 <= n < 1 << 62 for n in shape):
        raise ArrayFileError("has a damaged header (shape)")


def _shaped(flat: AnyArray, header: Header) -> AnyArray:
    return flat.reshape(header.shape[::-1]).T if header.is_fortran else flat.reshape(header.shape)
