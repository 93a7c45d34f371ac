"""Arrays of models x records that may not fit in memory, and the blocks of records to process them in.

Scores and sorted scores have one number per model and record. Small ones stay in memory; large ones go to an
unnamed file beside the run, which the system removes when its last user ends, however that happens.
"""

from __future__ import annotations

import math
import mmap
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from leakscope.errors import StorageError

RECORDS_AT_ONCE = 16_384
"""Records per block: few enough for a processor's cache, enough to make numpy's overhead negligible."""
_BLOCKS_AT_ONCE = max(16, 2 * (os.cpu_count() or 1))
"""Blocks after which the pages of memory maps are released."""
_IN_MEMORY_BYTES = 1 << 26
_THREADS = os.cpu_count() or 1
_WORTH_A_THREAD = 1 << 15
"""Numbers per item from which threads help: with fewer, they wait for each other's hold of Python's lock."""
_UNKNOWN_MEMORY = 1 << 40

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Scratch:
    """Where large arrays go.

    Attributes:
        folder: on a disk with enough space; None: everything stays in memory.
        in_memory_bytes: arrays up to this size stay in memory.
    """

    folder: Path | None = None
    in_memory_bytes: int = field(default_factory=lambda: _IN_MEMORY_BYTES)

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
        """An array to fill; its content is arbitrary.

        Raises:
            StorageError: the disk has no space for it. A memory map that the disk cannot hold would end the
                process later without a message, so the space is reserved here.
        """
        n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        if self.folder is None or n_bytes <= self.in_memory_bytes:
            return np.empty(shape, dtype)
        try:
            with tempfile.TemporaryFile(dir=self.folder) as file:
                if hasattr(os, "posix_fallocate"):  # Linux; macOS has none
                    os.posix_fallocate(file.fileno(), 0, n_bytes)
                else:
                    file.truncate(n_bytes)
                return np.memmap(file, dtype, "r+", 0, shape)
        except OSError as error:
            raise StorageError(
                f"cannot reserve {n_bytes / 1e9:,.1f} GB in {self.folder} ({error.strerror}); "
                "free some space, or choose another folder"
            ) from error


IN_MEMORY = Scratch()


def temporary_place() -> Path:
    """The folder that temporary files are written in.

    Raises:
        StorageError: there is none that can be written, as in a container that is read-only.
    """
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise StorageError(
            "there is no folder for temporary files; name one that can be written in the environment "
            "variable TMPDIR"
        ) from error


def temporary() -> Scratch:
    """For data that are read before there is a run folder; TMPDIR in the environment says where."""
    return Scratch(temporary_place())


def machine_memory() -> int:
    """Bytes of main memory, the limit for sizes that files declare; a tebibyte where they are unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return _UNKNOWN_MEMORY


def blocks(n: int, at_once: int) -> Iterator[slice]:
    """Slices of at most `at_once` that cover n records, models or rows, in order."""
    return (slice(start, min(start + at_once, n)) for start in range(0, n, at_once))


def gather_records(
    array: npt.NDArray[Any], records: npt.NDArray[np.int64], axis: int, scratch: Scratch = IN_MEMORY
) -> npt.NDArray[Any]:
    """The scattered records of every model, on `scratch`; `array` is (models, ...), records lie along `axis`.

    Touching one number of a memory map can load 2 MiB of it, so pages are released model by model.
    """
    shape = (*array.shape[:axis], len(records), *array.shape[axis + 1 :])
    gathered = scratch.empty(shape, array.dtype)
    for own, row in zip(gathered, array, strict=True):
        own[...] = np.take(row, records, axis - 1)
        evict_pages(array, gathered)
    return gathered


def evict_pages(*arrays: npt.NDArray[Any]) -> None:
    """Releases the pages of memory maps; written data stay in the file and are read again when needed."""
    for memory_map in map(map_behind, arrays):
        if memory_map is not None and hasattr(memory_map._mmap, "madvise"):  # Linux and macOS
            memory_map._mmap.madvise(mmap.MADV_DONTNEED)


def map_behind(array: Any) -> Any:
    """The memory map of a file that an array is a view of; None: it has none, or a private copy of one.

    Releasing the pages of a private map would discard what was written to it.
    """
    while array is not None and not isinstance(array, np.memmap):
        array = getattr(array, "base", None)
    is_file = array is not None and array.mode != "c" and getattr(array, "_mmap", None) is not None
    return array if is_file else None


def on_threads(work: Callable[[Item], Result], items: Sequence[Item], n_numbers: int) -> list[Result]:
    """The result of `work` for each item, in order; large items are processed on all cores.

    Args:
        work: called with an item; numpy releases Python's lock, so threads run in parallel.
        items: what to process.
        n_numbers: how many numbers the work on one item reads.
    """
    if n_numbers < _WORTH_A_THREAD or min(len(items), _THREADS) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(_THREADS) as threads:
        return list(threads.map(work, items))


@contextmanager
def divide_threads(n_processes: int) -> Iterator[None]:
    """Leaves cores to processes that work beside this one; threads of BLAS would wait for them awake."""
    from threadpoolctl import threadpool_limits

    n_threads = max(1, _THREADS // n_processes)
    with small_blocks(RECORDS_AT_ONCE, n_threads), threadpool_limits(n_threads, user_api="blas"):
        yield


@contextmanager
def small_blocks(records_at_once: int, n_threads: int) -> Iterator[None]:
    """Sets the size of blocks and the number of threads; for measurements of memory, and tests."""
    global RECORDS_AT_ONCE, _THREADS
    before = RECORDS_AT_ONCE, _THREADS
    RECORDS_AT_ONCE, _THREADS = records_at_once, n_threads
    try:
        yield
    finally:
        RECORDS_AT_ONCE, _THREADS = before


def over_blocks(n_records: int, work: Callable[[slice], Result], *mapped: npt.NDArray[Any]) -> list[Result]:
    """The result of `work` for each block of records, in order; blocks are processed on all cores.

    Args:
        n_records: number of records.
        work: called with the slice of a block; numpy releases Python's lock, so threads run in parallel.
        mapped: arrays that the work reads or writes; pages of memory maps are released.
    """
    results: list[Result] = []
    all_blocks = blocks(n_records, RECORDS_AT_ONCE)
    while some := list(islice(all_blocks, _BLOCKS_AT_ONCE)):
        results += on_threads(work, some, _WORTH_A_THREAD)
        evict_pages(*mapped)
    return results
