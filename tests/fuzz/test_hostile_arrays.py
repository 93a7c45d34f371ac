"""Hostile `.npy` and `.npz` files: each of these once ended in a traceback, or a warning on the screen."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakscope.data.files import read_table
from leakscope.disk.npy import ArrayFileError, PickledArrayError, load_array, map_array
from leakscope.errors import InputError
from leakscope.report.previews import PREVIEWS, Previews
from tests.fuzz.hostile_files import FEATURES, LABELS, npy, npz


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 2), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 2), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000000000000000, 0), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 2), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (True, 2), }",
        "{'descr': '<U100000000', 'fortran_order': False, 'shape': (4,), }",
        "{'descr': '|V0', 'fortran_order': False, 'shape': (4,), }",
        "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (4,), }",
        "{'descr': '(3,)f4', 'fortran_order': False, 'shape': (4,), }",
        "{'descr': 'no', 'fortran_order': False, 'shape': (4,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (4L,), }",
        "(" * 3000,
        "'''",
        "\t1\n  2",
        "{",
        "",
    ],
)
def test_headers_that_lie_or_make_no_sense(tmp_path: Path, header: str) -> None:
    for version in (1, 2, 3):
        (tmp_path / "x.npy").write_bytes(npy(header, bytes(64), version))
        for read in (load_array, map_array):
            with pytest.raises(ArrayFileError):
                read(tmp_path / "x.npy")
        with pytest.raises(InputError, match=r"features\.npy"):
            read_table(npz(tmp_path / "x.npz", features=npy(header, bytes(64), version), labels=LABELS))


def test_our_reader_agrees_with_numpys(tmp_path: Path) -> None:
    arrays = [FEATURES, np.asfortranarray(FEATURES), np.array(["a", "é"]), np.array(3),
              np.zeros((0, 2), bool), LABELS.astype(">i4"),
              np.array([b"x", b"yz"]), np.zeros((2, 0, 3), np.float16)]  # fmt: skip
    for array in arrays:
        np.save(tmp_path / "x.npy", array)
        for found in (load_array(tmp_path / "x.npy"), map_array(tmp_path / "x.npy")):
            np.testing.assert_array_equal(found, array)
            assert (found.dtype, found.shape) == (array.dtype, array.shape)
    (tmp_path / "x.npy").write_bytes((tmp_path / "x.npy").read_bytes() + b"more")
    with pytest.raises(ArrayFileError):
        load_array(tmp_path / "x.npy")
    np.save(tmp_path / "x.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(PickledArrayError):
        load_array(tmp_path / "x.npy")
    with pytest.raises(ArrayFileError, match="cannot be read"):
        load_array(tmp_path)


def test_a_bomb_is_measured_before_it_is_unpacked(tmp_path: Path) -> None:
    """An archive that says it unpacks to more than the machine has; a lie here, but it could be true."""
    path = npz(tmp_path / "x.npz", features=FEATURES, labels=LABELS)
    content = bytearray(path.read_bytes())
    at = content.index(b"PK\x01\x02") + 24  # the directory's uncompressed size
    content[at : at + 4] = (2**32 - 2).to_bytes(4, "little")
    path.write_bytes(bytes(content))
    with pytest.raises(InputError):
        read_table(path)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("leakscope.data.npz_file.machine_memory", lambda: 2**30)
        with pytest.raises(InputError, match=r"unpacks to 4\.0 GiB, the limit is 1\.0; give fewer records"):
            read_table(path)


def test_damaged_packing_of_every_kind(tmp_path: Path) -> None:
    for compression in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        path = npz(tmp_path / "x.npz", compression, features=FEATURES, labels=LABELS)
        content, n_refused = path.read_bytes(), 0
        for at in range(40, 130, 7):
            path.write_bytes(content[:at] + bytes([content[at] ^ 255]) + content[at + 1 :])
            try:
                np.testing.assert_array_equal(read_table(path).features, FEATURES)
            except InputError as error:
                assert "x.npz" in str(error)
                n_refused += 1
        assert n_refused > 0


HUGE = """
import resource, sys
from pathlib import Path
import numpy, polars
from leakscope.errors import InputError
from leakscope.data.files import read_table
pages = int(Path("/proc/self/statm").read_text().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2**29,) * 2)
try:
    read_table(sys.argv[1])
except InputError as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is limited as Linux does it")
def test_a_declared_size_takes_no_memory(tmp_path: Path) -> None:
    """Half a GiB is all there is; the header says 10^12 rows, then two GiB of them."""
    for rows in (10**12, 2**28):
        header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({rows}, 1), }}"
        path = npz(tmp_path / "x.npz", features=npy(header, bytes(80)), labels=LABELS)
        done = subprocess.run([sys.executable, "-c", HUGE, path], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert f"says it holds float64 ({rows}, 1)" in done.stdout


def test_previews_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = {"records": np.arange(2), "pictures": np.zeros((2, 4, 4, 1), np.uint8), "fields": np.zeros(0, str)}
    path = npz(tmp_path / PREVIEWS, **good)
    found = Previews.read(tmp_path)
    assert found is not None
    assert found.pictures.shape == (2, 4, 4, 1)
    header = "{'descr': '|u1', 'fortran_order': False, 'shape': (1000000000000, 1, 1, 1), }"
    bad: list[dict[str, Any]] = [
        {"records": np.zeros((2, 2), np.int64)},
        {"records": np.array([0.5, 1])},
        {"pictures": np.zeros((3, 4, 4, 1), np.uint8)},
        {"pictures": np.zeros((2, 4, 4, 7), np.uint8)},
        {"pictures": npy(header, bytes(8))},
        {"fields": np.array(["\ud800", "a"])},
        {"fields": np.array([1, 2])},
    ]
    for change_of in bad:
        npz(path, **{**good, **change_of})
        with pytest.raises(InputError, match=r"previews\.npz cannot be read .* remove it"):
            Previews.read(tmp_path)
    monkeypatch.setattr("leakscope.report.previews._MOST_BYTES", 2**10)
    npz(path, zipfile.ZIP_DEFLATED, **{**good, "pictures": np.zeros((2, 32, 32, 1), np.uint8)})
    with pytest.raises(InputError, match="unpacks to"):
        Previews.read(tmp_path)
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError, match=r"previews\.npz cannot be read"):
        Previews.read(tmp_path)
