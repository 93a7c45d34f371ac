from __future__ import annotations

import hashlib
import lzma
from pathlib import Path

import pytest

from leakscope.data.published import content_checksum, data_root, locate


def test_the_data_folder_comes_from_argument_then_variable_then_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LEAKSCOPE_DATA", str(tmp_path / "variable"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert data_root("given") == Path("given")
    assert data_root(Path("~/given")) == tmp_path / "home" / "given"
    assert data_root() == tmp_path / "variable"
    monkeypatch.setenv("LEAKSCOPE_DATA", "")
    assert data_root() == tmp_path / "xdg" / "leakscope"
    monkeypatch.delenv("XDG_DATA_HOME")
    assert data_root() == tmp_path / "home" / ".local" / "share" / "leakscope"


def test_only_bin_files_may_be_compressed(tmp_path: Path) -> None:
    for name in ("a.bin.xz", "b.txt.xz"):
        (tmp_path / name).touch()
    assert locate(tmp_path, "a.bin") == tmp_path / "a.bin.xz"
    assert locate(tmp_path, "b.txt") is None
    (tmp_path / "a.bin").touch()
    assert locate(tmp_path, "a.bin") == tmp_path / "a.bin"


def test_the_checksum_is_that_of_the_content(tmp_path: Path) -> None:
    content = b"leak" * 1000
    (tmp_path / "a.bin").write_bytes(content)
    (tmp_path / "b.bin.xz").write_bytes(lzma.compress(content))
    counted: list[int] = []
    expected = hashlib.sha256(content).hexdigest()
    assert content_checksum(tmp_path / "a.bin") == expected
    assert content_checksum(tmp_path / "b.bin.xz", on_bytes=counted.append) == expected
    assert sum(counted) == len(content)


def test_a_damaged_compressed_file_has_no_checksum(tmp_path: Path) -> None:
    (tmp_path / "a.bin.xz").write_bytes(lzma.compress(b"leak" * 1000)[:-10])
    assert content_checksum(tmp_path / "a.bin.xz") == ""
