"""Files and folders are whole or absent, and the system's refusals are one line."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from leakscope.disk.storage import (
    atomic_file,
    atomic_folder,
    holds_array,
    sha256_of,
    sweep_temporaries,
    write_array,
    write_bytes,
    write_json,
)
from leakscope.errors import StorageError

Writer = Callable[[Path], None]


def write_folder(path: Path) -> None:
    with atomic_folder(path) as temporary:
        write_bytes(temporary / "inside", b"x")


WRITERS: dict[str, Writer] = {
    "bytes": lambda path: write_bytes(path, b"new"),
    "json": lambda path: write_json(path, {"new": 1}),
    "array": lambda path: write_array(path, np.arange(3)),
    "folder": write_folder,
}
REASONS = {
    errno.ENOSPC: "the disk is full; free some space, or choose another folder with --out",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only; choose another folder with --out",
    errno.EACCES: "no permission to write there; choose another folder with --out",
    errno.EPERM: "no permission to write there",
    errno.EIO: os.strerror(errno.EIO),
    errno.ENAMETOOLONG: "the name is too long; choose a shorter one with --out",
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
@pytest.mark.parametrize("number", REASONS, ids=errno.errorcode.get)
def test_a_refused_write_is_one_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Writer, number: int
) -> None:
    def refuse(_: int) -> None:
        raise OSError(number, os.strerror(number))

    path = tmp_path / "there"
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", refuse)
        with pytest.raises(StorageError) as error:
            write(path)
    assert REASONS[number] in str(error.value)
    assert str(error.value).startswith(f"cannot write {tmp_path}")
    assert "\n" not in str(error.value)
    assert error.value.exit_code == (2 if number == errno.ENAMETOOLONG else 3)
    assert list(tmp_path.iterdir()) == []
    write(path)
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "there"
    write_bytes(path, b"old")
    with pytest.raises(RuntimeError, match="stop"), atomic_file(path) as file:
        file.write(b"new")
        raise RuntimeError("stop")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_not_there_before_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "there"
    with atomic_file(path) as file:
        file.write(b"first half")
        file.flush()
        assert not path.exists()
        file.write(b", second half")
    assert path.read_bytes() == b"first half, second half"


def test_a_folder_is_not_there_before_it_is_whole(tmp_path: Path) -> None:
    with atomic_folder(tmp_path / "there") as temporary:
        (temporary / "a").write_bytes(b"x")
        assert not (tmp_path / "there").exists()
    assert [p.name for p in (tmp_path / "there").iterdir()] == ["a"]


def test_an_interrupted_folder_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), atomic_folder(tmp_path / "there") as temporary:
        (temporary / "a").write_bytes(b"x")
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_bytes_are_on_disk_before_the_name_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "there"
    seen: list[bool] = []
    original = os.fsync

    def fsync(number: int) -> None:
        seen.append(path.exists())
        original(number)

    monkeypatch.setattr(os, "fsync", fsync)
    write_bytes(path, b"x")
    assert seen == [False]


@pytest.mark.parametrize("depth", [1, 2])
def test_a_file_in_the_way_of_a_folder_is_named(tmp_path: Path, depth: int) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    path = tmp_path.joinpath(*["file", "more", "x"][: depth + 1])
    with pytest.raises(StorageError, match="a file is in the way of the folder"):
        write_bytes(path, b"x")
    assert (tmp_path / "file").read_bytes() == b"mine"


def test_a_folder_in_the_way_of_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(StorageError, match="a folder is in the way of the file"):
        write_bytes(tmp_path / "there", b"x")
    assert [p.name for p in tmp_path.iterdir()] == ["there"]


def test_a_folder_that_somebody_else_just_finished_is_not_overwritten(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="another process is writing there"):  # noqa: SIM117
        with atomic_folder(tmp_path / "there") as temporary:
            (temporary / "mine").write_bytes(b"x")
            (tmp_path / "there").mkdir()
            (tmp_path / "there" / "theirs").write_bytes(b"y")
    assert [str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*")] == ["there", "there/theirs"]


def test_a_sweep_removes_our_temporaries_at_any_depth_and_nothing_else(tmp_path: Path) -> None:
    others = [".x.tmp-1", ".hidden", "a/.b.tmp-123", "a/leakscope-tmp-1", "plain"]
    ours = [
        ".run.json.leakscope-tmp-1",
        "a/.00001.leakscope-tmp-2/.loss.npy.leakscope-tmp-2",
        "a/.x.leakscope-tmp-3",
    ]
    for name in [*others, *ours]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    sweep_temporaries(tmp_path)
    assert {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()} == set(others)
    assert not (tmp_path / "a" / ".00001.leakscope-tmp-2").exists()


def test_json_is_strict(tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", {"b": [1.5, None], "a": "é"})
    assert (tmp_path / "x.json").read_bytes().endswith(b"}\n")
    assert json.loads((tmp_path / "x.json").read_text()) == {"b": [1.5, None], "a": "é"}
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(tmp_path / "nan.json", float("nan"))
    assert not (tmp_path / "nan.json").exists()


def test_arrays_hold_no_pickles(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="pickle"):
        write_array(tmp_path / "x.npy", np.array([{}], dtype=object))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "array", [np.arange(6.0).reshape(2, 3).T, np.array(["a", "bc"]), np.zeros((0, 2), bool)]
)
def test_arrays_are_written_as_numpy_would(tmp_path: Path, array: np.ndarray) -> None:
    write_array(tmp_path / "ours.npy", array)
    np.save(tmp_path / "theirs.npy", np.ascontiguousarray(array))
    assert (tmp_path / "ours.npy").read_bytes() == (tmp_path / "theirs.npy").read_bytes()


def test_holds_array_compares_every_byte(tmp_path: Path) -> None:
    path, array = tmp_path / "x.npy", np.arange(6, dtype=np.float32).reshape(2, 3)
    assert not holds_array(path, array)
    write_array(path, array)
    assert holds_array(path, array)
    assert not holds_array(path, array.astype(np.float64))
    assert not holds_array(path, array.T)
    assert not holds_array(path, array + 1)
    assert not holds_array(tmp_path, array)


@pytest.mark.parametrize("n_bytes", [0, 1, (1 << 22) - 1, 1 << 22, (1 << 22) + 1])
def test_sha256_of_a_file_is_that_of_its_bytes(tmp_path: Path, n_bytes: int) -> None:
    content = np.random.default_rng(0).bytes(n_bytes)
    (tmp_path / "x").write_bytes(content)
    assert sha256_of(tmp_path / "x") == hashlib.sha256(content).hexdigest()
