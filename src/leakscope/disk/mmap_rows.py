"""Arrays on disk: processed block by block, with single rows read from the file.

The pages of a memory map count as the process's own memory while they are in use, and touching one row can
load 2 MiB. So pages are released once a block has been processed, and scattered rows are read from the file.
Arrays in memory are processed the same way, which keeps temporary arrays small.
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
"""Bytes; an array of shorter rows is not much larger than ids and signals, which are in memory."""

Array = npt.NDArray[Any]


def row_blocks(array: Array) -> Iterator[slice]:
    """Slices of rows, of about 64 MiB each, that cover the array in order.

    The pages of a memory map are released when the next slice is requested.
    """
    for rows in blocks(len(array), max(1, BLOCK_BYTES * len(array) // max(1, array.nbytes))):
        yield rows
        evict_pages(array)


def is_mapped(array: Array) -> bool:
    """True when an array, or the array it is a view of, is a memory map of a file."""
    return map_behind(array) is not None


def take_rows(array: Array, index: npt.NDArray[np.int64]) -> Array:
    """`array[index]`, in memory; long rows of a memory map are read from its file, one by one.

    Raises:
        InputError: the file has become shorter than it was when it was mapped.
    """
    memory_map, n_bytes = map_behind(array), array.nbytes // max(1, len(array))
    can_seek = memory_map is not None and memory_map.filename is not None and hasattr(os, "preadv")
    if memory_map is None or not can_seek or n_bytes < _LONG_ROW or not array.flags.c_contiguous:
        return np.asarray(array[index])
    rows = np.empty((len(index), *array.shape[1:]), dtype=array.dtype)
    unread, first = rows.reshape(-1).view(np.uint8).data, _offset_in_file(array, memory_map)
    with open(memory_map.filename, "rb", buffering=0) as file:  # noqa: PTH123 - a path or its text
        for at, row in enumerate(index.tolist()):
            one = unread[at * n_bytes : (at + 1) * n_bytes]
            if os.preadv(file.fileno(), [one], first + row * n_bytes) != n_bytes:
                raise InputError(f"{memory_map.filename} was truncated while it was being read; restore it")
    return rows


def _offset_in_file(array: Array, memory_map: Any) -> int:
    """The byte of the file at which the array begins."""
    map_starts = memory_map.offset - memory_map.offset % mmap.ALLOCATIONGRANULARITY
    return int(map_starts + _address(array) - _address(np.frombuffer(memory_map._mmap, np.uint8)))


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])
