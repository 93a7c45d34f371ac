"""Read `.npy`: plain arrays whose header tells the truth about their size. Nothing is ever unpickled.

numpy's own reader believes the header: it sets aside what a file of a hundred bytes says it holds, and what
goes wrong on the way comes as any of a dozen exceptions. Here the header must account for every byte that is
there before anything is set aside, and there is one exception. Format: numpy's NEP 1.
"""

from __future__ import annotations

import ast
import math
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from leakscope.array_types import AnyArray

_MAGIC = b"\x93NUMPY"
_LENGTH_BYTES = {(1, 0): 2, (2, 0): 4, (3, 0): 4}
_LONGEST_HEADER = 10_000  # bytes, as in numpy
_MOST_AXES = 32
_READ_AT_ONCE = 1 << 22


class ArrayFileError(ValueError):
    """The file is no `.npy` file of a plain array, or is cut off; says why."""


class PickledArrayError(ArrayFileError):
    """The array holds Python objects, which need pickle."""


class Header(NamedTuple):
    """What a `.npy` file says of itself, and how many bytes it took to say so."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    is_fortran: bool
    n_bytes: int

    @property
    def data_bytes(self) -> int:
        """What the numbers take."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(stream: IO[bytes]) -> Header:
    """The header at the stream's position, which is then where the numbers begin."""
    start = stream.read(8)
    n_length = _LENGTH_BYTES.get((start[6], start[7])) if len(start) == 8 and start[:6] == _MAGIC else None
    if n_length is None:
        raise ArrayFileError("is no array (not what numpy saves)")
    length = int.from_bytes(stream.read(n_length), "little")
    text = stream.read(length) if length <= _LONGEST_HEADER else b""
    if length > _LONGEST_HEADER or len(text) != length:
        raise ArrayFileError(f"has a header of {length:,} bytes that is cut off or too long")
    try:
        fields = ast.literal_eval(text.decode("utf-8" if start[6] == 3 else "latin-1").strip())
        dtype, shape, is_fortran = _fields(fields)
    except ArrayFileError:
        raise
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError) as error:
        raise ArrayFileError(f"has a damaged header ({type(error).__name__})") from error
    return Header(dtype, shape, is_fortran, 8 + n_length + length)


def read_array(stream: IO[bytes], n_bytes: int) -> AnyArray:
    """The array of a stream that holds `n_bytes`, header included."""
    header = read_header(stream)
    if header.n_bytes + header.data_bytes != n_bytes:
        raise ArrayFileError(
            f"says it holds {header.dtype} {header.shape}, {header.data_bytes:,} bytes, "
            f"but there are {n_bytes - header.n_bytes:,}"
        )
    flat = np.empty(math.prod(header.shape), header.dtype)
    room = flat.view(np.uint8).data if flat.size else memoryview(b"")
    while len(room):
        n_read = stream.readinto(room[:_READ_AT_ONCE])  # type: ignore[attr-defined]
        if not n_read:
            raise ArrayFileError("is cut off")
        room = room[n_read:]
    return _shaped(flat, header)


def load_array(path: Path) -> AnyArray:
    """The array of a `.npy` file."""
    try:
        with path.open("rb") as file:
            return read_array(file, path.stat().st_size)
    except OSError as error:
        raise ArrayFileError(f"cannot be read ({error.strerror or type(error).__name__})") from error


def map_array(path: Path) -> AnyArray:
    """The array of a `.npy` file, memory-mapped, to read from."""
    try:
        with path.open("rb") as file:
            header, n_bytes = read_header(file), path.stat().st_size
        if header.n_bytes + header.data_bytes != n_bytes:
            raise ArrayFileError(f"has {n_bytes:,} bytes, not what {header.dtype} {header.shape} takes")
        if not header.data_bytes:
            return load_array(path)  # nothing cannot be mapped
        flat = np.memmap(path, header.dtype, "r", header.n_bytes, (math.prod(header.shape),))
        return _shaped(flat, header)
    except OSError as error:
        raise ArrayFileError(f"cannot be read ({error.strerror or type(error).__name__})") from error


def _fields(fields: Any) -> tuple[np.dtype[Any], tuple[int, ...], bool]:
    if not isinstance(fields, dict) or set(fields) != {"descr", "fortran_order", "shape"}:
        raise ArrayFileError("has a damaged header")
    shape, is_fortran, descr = fields["shape"], fields["fortran_order"], fields["descr"]
    is_shape = isinstance(shape, tuple) and len(shape) <= _MOST_AXES
    if not is_shape or not all(type(n) is int and 0 <= n < 1 << 62 for n in shape):
        raise ArrayFileError("has a damaged header (shape)")
    if not isinstance(descr, str):
        raise ArrayFileError("holds records of several fields, expected plain numbers or text")
    dtype = np.dtype(descr)
    if dtype.hasobject:
        raise PickledArrayError("holds Python objects, which need pickle")
    if dtype.subdtype is not None or dtype.names is not None or not dtype.itemsize:
        raise ArrayFileError(f"holds {descr}, expected plain numbers or text")
    return dtype, shape, bool(is_fortran)


def _shaped(flat: AnyArray, header: Header) -> AnyArray:
    return flat.reshape(header.shape[::-1]).T if header.is_fortran else flat.reshape(header.shape)
