"""Arrays on disk, blocks of records: the same numbers, nothing left behind; one line when a disk is full."""

from __future__ import annotations

import errno
import os
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from leakscope.disk import scratch as module
from leakscope.disk.scratch import (
    Scratch,
    blocks,
    evict_pages,
    gather_records,
    on_threads,
    over_blocks,
    temporary,
)
from leakscope.disk.storage import temporary_errors, temporary_folder
from leakscope.errors import StorageError


def test_large_arrays_lie_on_disk_without_a_name(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path, in_memory_bytes=80)
    small, large = scratch.empty((10,)), scratch.empty((11, 2), np.float32)
    assert not isinstance(small, np.memmap) and isinstance(large, np.memmap)
    assert (large.shape, large.dtype) == ((11, 2), np.float32)
    assert list(tmp_path.iterdir()) == []


def test_what_was_written_outlives_the_release_of_its_pages(tmp_path: Path) -> None:
    array = Scratch(tmp_path, in_memory_bytes=0).empty((3, 100_000))
    wanted = np.random.default_rng(0).normal(size=array.shape)
    array[:] = wanted
    evict_pages(array[1], np.asarray(array), np.zeros(3))  # also of views, and of what is no map
    np.testing.assert_array_equal(array, wanted)


def test_a_private_copy_is_not_let_go_of(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(10_000))
    private = np.load(tmp_path / "x.npy", mmap_mode="c")
    private[:] = 1
    evict_pages(private)
    assert private.sum() == 10_000


def test_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(StorageError, match=r"cannot reserve 8\.0 GB in .*No space left.*free some space"):
        Scratch(tmp_path).empty((1000, 1_000_000))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("n", [0, 1, 6, 7, 8, 100])
def test_blocks_cover_every_record_once_and_in_order(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RECORDS_AT_ONCE", 7)
    monkeypatch.setattr(module, "_BLOCKS_AT_ONCE", 2)
    parts = over_blocks(n, lambda at: np.arange(n)[at])
    assert all(len(part) <= 7 for part in parts)
    assert [i for part in parts for i in part.tolist()] == list(range(n))
    assert [i for at in blocks(n, 7) for i in range(at.start, at.stop)] == list(range(n))


@pytest.mark.parametrize("n_numbers", [10, 1_000_000])
def test_results_are_in_the_order_of_the_items(n_numbers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_THREADS", 4)
    threads = set()

    def work(item: int) -> int:
        threads.add(threading.get_ident())
        time.sleep(0.001 * (item % 3))
        return item**2

    assert on_threads(work, range(20), n_numbers) == [item**2 for item in range(20)]
    is_here = threads == {threading.get_ident()}
    assert is_here == (n_numbers == 10)  # threads would slow small items down


def test_an_error_in_a_block_is_the_callers() -> None:
    def fail(at: slice) -> None:
        raise ValueError(f"block {at.start}")

    with pytest.raises(ValueError, match="block 0"):
        over_blocks(10, fail)


def test_scattered_records_are_those_of_an_index(tmp_path: Path) -> None:
    array = Scratch(tmp_path, in_memory_bytes=0).empty((4, 3, 50))
    array[:] = np.arange(array.size).reshape(array.shape)
    at = np.array([3, 3, 49, 0])
    np.testing.assert_array_equal(gather_records(array, at, 2), np.asarray(array)[:, :, at])
    np.testing.assert_array_equal(gather_records(array[:, 0], at, 1), np.asarray(array)[:, 0, at])


def test_without_a_folder_for_temporary_files_the_message_says_how_to_name_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in a container that is read-only: no file of the user's is damaged."""

    def gettempdir() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", gettempdir)
    for make in (temporary, temporary_folder().__enter__):
        with pytest.raises(StorageError, match="TMPDIR"):
            make()


@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSPC, "full"), RuntimeError("parquet: No space left on device (os error 28)")],
    ids=["Python", "polars"],
)
def test_a_full_folder_for_temporary_files_is_named(error: Exception) -> None:
    with pytest.raises(StorageError, match=r"the disk is full.*TMPDIR"), temporary_errors():
        raise error


def test_other_errors_are_not_those_of_a_disk() -> None:
    with pytest.raises(ValueError, match="os error 2"), temporary_errors():
        raise ValueError("no such file (os error 2)")
