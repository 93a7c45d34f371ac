"""Blocks and rows of arrays on disk are those of the same arrays in memory, and take little memory."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakscope.array_types import AnyArray
from leakscope.data.standardise import column_moments, standardised
from leakscope.disk import mmap_rows as pages
from leakscope.disk.npy import map_array
from leakscope.disk.scratch import evict_pages
from leakscope.errors import InputError
from leakscope.types import Records, digest_arrays

PEAK = """
import sys
from pathlib import Path
import numpy as np
from leakscope.disk.npy import map_array
from leakscope.disk.mmap_rows import row_blocks, take_rows

def peak():
    fields = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(fields["VmHWM"].split()[0]) / 1024

features = map_array(Path(sys.argv[1]))
before = peak()
sum(float(features[rows].sum()) for rows in row_blocks(features))
take_rows(features, np.arange(0, len(features), 100))
print(peak() - before)
"""


def saved(folder: Path, array: AnyArray) -> AnyArray:
    np.save(folder / "x.npy", array)
    return map_array(folder / "x.npy")


@given(st.integers(0, 40), st.integers(1, 9), st.integers(1, 400))
@settings(max_examples=60)
def test_blocks_cover_every_row_once_in_order(n_rows: int, width: int, n_bytes: int) -> None:
    array = np.arange(n_rows * width, dtype=np.float32).reshape(n_rows, width)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pages, "BLOCK_BYTES", n_bytes)
        found = [array[rows] for rows in pages.row_blocks(array)]
    np.testing.assert_array_equal(np.concatenate([array[:0], *found]), array)
    assert all(len(rows) == 1 or rows.nbytes <= n_bytes for rows in found)


@pytest.mark.parametrize("width", [3, 200])  # short rows by the map, long ones from the file
@pytest.mark.parametrize("view", [slice(None), slice(7, None), slice(1200, 1300)])
def test_rows_of_a_map_are_those_of_the_array(tmp_path: Path, width: int, view: slice) -> None:
    array = np.arange(1500 * width, dtype=np.float32).reshape(1500, width)
    mapped = saved(tmp_path, array)
    index = np.array([5, 99, 0, 5])
    for one, other in ((mapped[view], array[view]), (mapped[view][:, None], array[view][:, None])):
        taken = pages.take_rows(one, index)
        np.testing.assert_array_equal(taken, other[index])
        assert taken.dtype == array.dtype
        assert not pages.is_mapped(taken)
    scattered = mapped[:, ::2]
    np.testing.assert_array_equal(pages.take_rows(scattered, index), array[:, ::2][index])


def test_what_was_let_go_of_is_read_again_and_a_private_map_keeps_what_was_written(tmp_path: Path) -> None:
    mapped = saved(tmp_path, np.arange(10_000.0))
    evict_pages(mapped, np.zeros(3), mapped[5:])
    assert mapped.sum() == np.arange(10_000.0).sum()
    private = np.load(tmp_path / "x.npy", mmap_mode="c")
    private[7] = -1
    evict_pages(private)
    assert private[7] == -1


def test_a_file_that_becomes_shorter_is_named(tmp_path: Path) -> None:
    mapped = saved(tmp_path, np.zeros((100, 300), np.float32))
    with (tmp_path / "x.npy").open("r+b") as file:
        file.truncate(50_000)
    with pytest.raises(InputError, match=r"x\.npy was truncated while it was being read"):
        pages.take_rows(mapped, np.array([99]))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_walking_over_a_map_takes_the_memory_of_a_block(tmp_path: Path) -> None:
    """A map of 400 MB: a block is 67 MB, rows taken are 4 MB."""
    mapped = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, (100_000, 1000))
    mapped.flush()
    command = [sys.executable, "-c", PEAK, str(tmp_path / "x.npy")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert 0 < float(done.stdout) < 150


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (3, 0), (7, 5), (4, 3, 2)])
@pytest.mark.parametrize("dtype", ["<f4", "<U3", "|b1"])
def test_digests_do_not_depend_on_blocks(
    shape: tuple[int, ...], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    whole = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode() + array.tobytes()).hexdigest()
    for n_bytes in (1, 30, 1 << 26):
        monkeypatch.setattr(pages, "BLOCK_BYTES", n_bytes)
        assert digest_arrays(array) == whole


def records(features: AnyArray) -> Records:
    labels = np.arange(len(features)) % 2
    return Records(features, labels, np.arange(len(features)).astype(str), class_names=("a", "b"))


def test_records_on_disk_are_those_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks, digest, duplicates, moments and scaling, in blocks of a few rows."""
    features = np.random.default_rng(0).integers(-2, 3, (300, 2, 2)).astype(np.float32)
    in_memory, on_disk = records(features), records(saved(tmp_path, features))
    expected = (in_memory.digest, in_memory.duplicate_of.tolist())
    mean, spread = features.astype(np.float64).mean(0), features.astype(np.float64).std(0)
    monkeypatch.setattr(pages, "BLOCK_BYTES", 100)
    assert (on_disk.digest, on_disk.duplicate_of.tolist()) == expected
    assert 0 < len(np.unique(on_disk.duplicate_of)) < len(on_disk)
    np.testing.assert_allclose(column_moments(on_disk.features), (mean, spread), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(standardised(on_disk).features, (features - mean) / spread, rtol=1e-5)
    features[[4, 290], 1, 0] = np.nan, np.inf
    with pytest.raises(InputError, match=r"2 records have NaN or infinite features \(first: id 4\)"):
        records(saved(tmp_path, features))


def test_a_column_that_does_not_vary_is_left_where_it_is() -> None:
    features = np.full((6, 2), 3.0, np.float32)
    assert column_moments(features).spread.tolist() == [1.0, 1.0]
    assert (standardised(records(features)).features == 0).all()
