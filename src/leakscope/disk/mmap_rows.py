"""Arrays on disk: walked over block by block, and rows of them picked out.

The pages of a memory map count as a process's own memory while they are in use, and to touch one row can
bring in 2 MiB. So whoever walks over a map lets go of what lies behind, and scattered rows are read from its
file. Arrays in memory are walked over the same way: what is made of a block is small, whatever the array.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from leakscope.disk.scratch import blocks, evict_pages, map_behind
from leakscope.errors import InputError

BLOCK_BYTES = 1 << 26
_LONG_ROW = 512
"""Bytes; an array of shorter rows is not much larger than ids and answers, which are in memory."""

Array = npt.NDArray[Any]


def row_blocks(array: Array) -> Iterator[slice]:
    """Slices of rows, of about 64 MiB each, that cover the array in order.

    When the next one is asked for, the pages of a memory map behind it are let go of.
    """
    for rows in blocks(len(array), max(1, BLOCK_BYTES * len(array) // max(1, array.nbytes))):
        yield rows
        evict_pages(array)


def is_mapped(array: Array) -> bool:
    """Whether an array, or what it is a view of, lies in a file."""
    return map_behind(array) is not None


def take_rows(array: Array, index: npt.NDArray[np.int64]) -> Array:
    """`array[index]`, in memory; long rows of a memory map are read from its file, one by one.

    Raises:
        InputError: the file has become shorter than it was when it was mapped.
    """
    found, n_bytes = map_behind(array), array.nbytes // max(1, len(array))
    can_seek = found is not None and found.filename is not None and hasattr(os, "preadv")
    if found is None or not can_seek or n_bytes < _LONG_ROW or not array.flags.c_contiguous:
        return np.asarray(array[index])
    rows = np.empty((len(index), *array.shape[1:]), dtype=array.dtype)
    room, first = rows.reshape(-1).view(np.uint8).data, _place_in_file(array, found)
    with open(found.filename, "rb", buffering=0) as file:  # noqa: PTH123 - a path or its text
        for at, row in enumerate(index.tolist()):
            one = room[at * n_bytes : (at + 1) * n_bytes]
            if os.preadv(file.fileno(), [one], first + row * n_bytes) != n_bytes:
                raise InputError(f"{found.filename} was cut off while it was read; put it back as it was")
    return rows


def _place_in_file(array: Array, found: Any) -> int:
    """The byte of the file at which the array begins."""
    map_starts = found.offset - found.offset % mmap.ALLOCATIONGRANULARITY
    return int(map_starts + _address(array) - _address(np.frombuffer(found._mmap, np.uint8)))


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])
