"""Parquet files that end a process, or lie about their size, are told in one line; whole ones are read."""

from __future__ import annotations

import base64
import lzma
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from leakscope.data.files import read_table
from leakscope.data.predictions import read_predictions
from leakscope.disk import parquet
from leakscope.disk.parquet import ParquetFileError, check_parquet, note_written, read_stored, stored_columns
from leakscope.errors import CorruptBankError, InputError
from leakscope.evaluate.record_metadata import FACTS, RecordMetadata
from leakscope.single_model.query import read_records

FOUND = lzma.decompress(base64.b64decode(
    "XQAAAAT//////////wAoEEaITJJqdDAZlaJV2RZqeiKr9+fbW5h5POLVm6dDjp/R8iwHCEP5iq2wrYb2pohsjQUvDdk7/KUeAJ8b"
    "4BO+YvzxCLJeN+N2rV64leFk6D74rLgRLtSpzvKoqKu62LgxEvFHJt4njBXRLdVctGvPqvavObMaKxDjF5thXlVEWUZCGRVnx5ge"
    "L40pioyqpzEmRfc0/jBuEZzEy12clACy+F6zVmVb8tGiHLhJwtEWfS3cHbd+i+YB2SOxZ9M2pof3PD2t3pgF1KwSFTuf2tH7AVG2"
    "Yebl2fmvR6VRw7TnTgxz7SQ2GnMmggMM6JPVtEyVJ708++gjGgs903J0ZX0JTPRT7HqbM8wN1gBJ5+qLtZPGuxo9zdjKKLbmENcH"
    "BqUKm5prbzDDRGkAps/OJYG+LJnJ26ZiTQWmud2jxVIkX5Ehil2KDmpgq6Y8+UQthLyh4zbEjpVD/kDXxnwy7bvL24ejV1gYc4k8"
    "13/KynhAuwCj24k6CBy9mrDMOpMoV58jeRswxdI6cDmHVRz/5bmnR/pAPT+DETwPKGf1/523lgUhGhAmKLF0D3tBWm/zcsUJ07tl"
    "P+QOLHWKP1lb2Ct6eUA3mXLJmDijQ7FyASeGgeX/J9gNECpXzFnEzAyWr3zVeFryumReyqJ/qrAA3iJma5KbRHKz0J2OHwXWiAVh"
    "1oXdrW4qpOiYV+8RSFnDBixk9LEHLyNAwoVvEtcV6iTndTt63GvuTQLlv+Sq4+IXcCKHeM2O/cqpAPhbBh/dOeKdO+wAq/wWJTWB"
    "7yJTqvUw06NsxBliTquD30aJ2EuGlRo/myo6daUmZKpBCY1s56agQOoTaZLSu19fXO19P90MauZK1N0+B42yihHrEqo1fM/2aW/J"
    "TJX2Fwcj+I4zy8tRMNU/2aWOU27Ten70md/jnq8ydwYUHc++mufxfEF1qDcNpx0vM2npT9ReeCQckt23aVkEG9qjbg8OBx6s/Fyj"
    "+sy4l7TI/xJq84EUuBirk+5sLvYoucSLGKfSnIStTwQ+35nD4n75yA3Zm+o7SwhiBZibe54I+SQBcKewqw7URoZcQ5s0hoGBiyP8"
    "hMsb"
))  # fmt: skip
"""A facts.parquet of 1,452 bytes with one byte changed: polars asks for 2^61 bytes and ends the process."""


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    path = tmp_path / "whole.parquet"
    frame = pl.DataFrame({
        "id": [f"p{i}" for i in range(500)],
        "a": np.arange(500) / 7,
        "label": [0, None] * 250,
        "kind": pl.Series(["x", "y"] * 250, dtype=pl.Categorical),
        "list": [[1, 2], []] * 250,
    })  # fmt: skip
    frame.write_parquet(path, row_group_size=100, data_page_size=256, compression="uncompressed")
    return path


def counting_probes(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    probed: list[Path] = []
    decode = parquet._decode_elsewhere
    monkeypatch.setattr(
        parquet, "_decode_elsewhere", lambda path, n: (probed.append(path), decode(path, n))[1]
    )
    return probed


def aborting(folder: Path) -> list[Path]:
    """The file that was found, and one made here: a page that says it holds -4 values."""
    path = folder / "made.parquet"
    pl.DataFrame({"id": ["a", "b", None]}).write_parquet(path, compression="uncompressed")
    content = bytearray(path.read_bytes())
    at = content.index(b"\x15\x06", 4) + 1  # thrift: an i32 field, 3 in zigzag
    content[at] = 7
    path.write_bytes(bytes(content))
    (folder / "found.parquet").write_bytes(FOUND)
    return [path, folder / "found.parquet"]


def ends_polars(path: Path) -> bool:
    code = f"import polars; polars.read_parquet({str(path)!r})"
    return subprocess.run([sys.executable, "-c", code], capture_output=True).returncode != 0


def test_a_whole_file_is_read_once_in_a_process(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    probed = counting_probes(monkeypatch)
    check_parquet(whole)
    check_parquet(whole)
    assert probed == [whole]
    assert read_stored(whole, ["id", "a"]).shape == (500, 2)
    assert stored_columns(whole) == ["id", "a", "label", "kind", "list"]
    assert probed == [whole]
    whole.write_bytes(whole.read_bytes()[:-1])
    with pytest.raises(ParquetFileError, match="cut off"):
        check_parquet(whole)


def test_a_file_of_ones_own_is_not_checked(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    probed = counting_probes(monkeypatch)
    note_written(whole)
    check_parquet(whole)
    assert probed == []
    whole.write_bytes(FOUND)  # another file by now
    with pytest.raises(ParquetFileError):
        check_parquet(whole)
    assert probed == [whole]


def test_files_that_end_the_process_of_polars(tmp_path: Path) -> None:
    for path in aborting(tmp_path):
        assert ends_polars(path), "a file that this polars can read shows nothing"
        with pytest.raises(ParquetFileError, match=r"memory allocation of \d+ bytes failed|capacity"):
            check_parquet(path)


def test_every_reader_asks_first(tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No polars here, which would end this process for good."""

    def refuse(path: Path, n_bytes: int) -> None:
        raise ParquetFileError("it lies")

    monkeypatch.setattr(parquet, "_decode_elsewhere", refuse)
    for read in (
        lambda: read_table(whole, "label"),
        lambda: read_predictions(whole),
        lambda: read_records(whole),
    ):
        with pytest.raises(InputError, match="cannot be read as parquet: it lies"):
            read()
    for stored in (read_stored, stored_columns):
        with pytest.raises(CorruptBankError, match=r"whole\.parquet is damaged \(it lies\)"):
            stored(whole)
    whole.rename(tmp_path / FACTS)
    with pytest.raises(CorruptBankError, match=r"facts\.parquet is damaged \(it lies\)"):
        RecordMetadata.read(tmp_path)


@pytest.mark.slow
def test_every_page_is_decoded(whole: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Where polars refuses a spoiled file as a whole, so does the check, and in silence; and the reverse."""
    content, outcomes = whole.read_bytes(), set()
    for at in (content.index(np.float64(400 / 7).tobytes()), 2200, 8930):  # a value, and pages
        whole.write_bytes(content[:at] + b"\xff\xff\xff\xff" + content[at + 4 :])
        try:
            check_parquet(whole)
            is_whole = True
        except ParquetFileError:
            is_whole = False
        assert capfd.readouterr().err == ""
        assert is_whole != ends_polars(whole), at
        outcomes.add(is_whole)
    assert outcomes == {True, False}, "all alike: nothing was compared"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not a parquet file, or is cut off"),
        (b"PAR1", "not a parquet file, or is cut off"),
        (b"id,label\n1,2\n", "not a parquet file, or is cut off"),
        (b"PAR1" + b"\xff" * 4 + b"PAR1", "footer that is longer than the file"),
    ],
)
def test_what_needs_no_process_to_be_told(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "x.parquet").write_bytes(content)
    with pytest.raises(ParquetFileError, match=said):
        check_parquet(tmp_path / "x.parquet")
    for no_file in (tmp_path, tmp_path / "nothing.parquet"):
        with pytest.raises(ParquetFileError, match="is not a file"):
            check_parquet(no_file)


def test_polars_own_words_are_kept(tmp_path: Path, whole: Path) -> None:
    content = bytearray(whole.read_bytes())
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    content[start : start + 50] = bytes(50)
    whole.write_bytes(bytes(content))
    with pytest.raises(ParquetFileError) as refused:
        check_parquet(whole)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) > 10
    assert "Traceback" not in str(refused.value)


def test_names_are_no_patterns(tmp_path: Path) -> None:
    path = tmp_path / "x[12]*.parquet"
    pl.DataFrame({"a": [1, 2]}).write_parquet(path)
    check_parquet(path)
    assert read_stored(path).height == 2


@pytest.mark.skipif(sys.platform != "linux", reason="address space is limited as Linux does it")
def test_memory_is_limited() -> None:
    """Three GiB are to be had below the limit, and not above it; what is not touched takes no memory."""
    code = (
        "import mmap, runpy, sys; runpy.run_path(sys.argv[1])['limit_memory'](int(sys.argv[2])); "
        "mmap.mmap(-1, 3 << 30)"
    )
    for most_bytes, ends_well in ((1 << 33, True), (1 << 30, False)):
        command = [sys.executable, "-P", "-c", code, parquet.parquet_probe.__file__, str(most_bytes)]
        done = subprocess.run(command, capture_output=True)
        assert (done.returncode == 0) == ends_well
        assert ends_well or b"Cannot allocate memory" in done.stderr


def test_time_is_limited(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_LEAST_SECONDS", 0.01)
    monkeypatch.setattr(parquet, "_BYTES_PER_SECOND", 1e12)
    began = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    with pytest.raises(ParquetFileError, match="is not decoded after 0 seconds"):
        check_parquet(whole)
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - began < 5


def test_a_child_that_cannot_start_is_no_whole_file(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet.parquet_probe, "__file__", str(whole.with_name("gone.py")))
    with pytest.raises(ParquetFileError, match=r"gone\.py"):
        check_parquet(whole)
