"""Files that are either whole or absent: temporary name, flush to disk, rename.

Everything leakscope writes goes through here, so a full disk or a read-only folder ends with one
line, and a crash leaves nothing half-written under its final name.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import numpy as np

from leakscope.array_types import AnyArray
from leakscope.disk.mmap_rows import row_blocks
from leakscope.disk.scratch import temporary_place
from leakscope.errors import InputError, StorageError, UnusablePathError

_HASHED_AT_ONCE = 1 << 22
TEMPORARY = ".leakscope-tmp-"
"""Part of every temporary name, and of no other: a sweep removes only files of ours."""
LOCK = ".leakscope-lock"
"""Locks the folder of a run; also the start of the names of the files beside it."""
_REASONS = {
    errno.ENOSPC: "the disk is full; free some space, or choose another folder with {option}",
    errno.EDQUOT: "the disk quota is used up; free some space, or choose another folder with {option}",
    errno.EFBIG: "no file may be this large (`ulimit -f`); choose another folder with {option}",
    errno.EROFS: "the file system is read-only; choose another folder with {option}",
    errno.EACCES: "no permission to write there; choose another folder with {option}",
    errno.EPERM: "no permission to write there; choose another folder with {option}",
    errno.ENOTDIR: "a file is in the way of the folder; choose another folder with {option}",
    errno.EEXIST: "a file is in the way of the folder; choose another folder with {option}",
    errno.ENOTEMPTY: "another process is writing there; wait for it, or choose another folder with {option}",
    errno.EISDIR: "a folder is in the way of the file; choose another folder with {option}",
    errno.ENAMETOOLONG: "the name is too long; choose a shorter one with {option}",
    errno.ELOOP: "its links lead in a circle; choose another folder with {option}",
}
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_DEEPEST = 40
_LASTING = {errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP}
"""Refusals of a name, which no free space and no waiting end."""

_watchers: list[Callable[[Path], None]] = []
_confines: ContextVar[Path | None] = ContextVar("_confines", default=None)


@contextmanager
def storage_errors(path: Path, option: str = "--out") -> Iterator[None]:
    """Turns the operating system's refusal to write into one line; `option` chooses another folder."""
    try:
        yield
    except OSError as error:
        other = error.strerror or type(error).__name__
        reason = _REASONS.get(error.errno or 0, "{other}").format(option=option, other=other)
        kind = UnusablePathError if error.errno in _LASTING else StorageError
        raise kind(f"cannot write {path}: {reason}") from error


@contextmanager
def temporary_errors() -> Iterator[None]:
    """Says in one line that there is no room for temporary files, also where polars writes them."""
    try:
        yield
    except Exception as error:  # those of polars have the number in their text alone
        found = re.search(r"\(os error (\d+)\)", str(error))
        number = getattr(error, "errno", None) or int(found[1] if found else 0)
        if number not in _NO_ROOM:
            raise
        with storage_errors(temporary_place(), "the environment variable TMPDIR"):
            raise OSError(number, os.strerror(number)) from error


@contextmanager
def temporary_folder(prefix: str = "leakscope-") -> Iterator[Path]:
    """A folder that is gone at the end of the block."""
    place = temporary_place()
    with temporary_errors():
        made = TemporaryDirectory(dir=place, prefix=prefix, ignore_cleanup_errors=True)
    with made as name:
        yield Path(name)


@contextmanager
def confined_to(folder: Path) -> Iterator[None]:
    """Refuses to write outside `folder` within the block, whatever name or link leads out of it."""
    before = _confines.set(folder.resolve())
    try:
        yield
    finally:
        _confines.reset(before)


def _refuse_outside(path: Path) -> None:
    inside = _confines.get()
    if inside is not None and not path.resolve().is_relative_to(inside):
        raise StorageError(f"{path} would be written outside {inside}, where a name or a link in it leads")


def create_folder(folder: Path) -> None:
    """A folder that only its owner can read, new or empty so far: runs hold what is known of people."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    if not any(folder.iterdir()):
        with suppress(PermissionError):  # somebody else's folder, who decides who may read it
            folder.chmod(0o700)


@contextmanager
def atomic_file(path: Path, mode: int = 0o666, option: str = "--out") -> Iterator[IO[bytes]]:
    """A file to write to, which appears as `path` only once it is complete and on disk.

    `mode` are its permissions, before the process's umask; `option` is named in an error.
    """
    with storage_errors(path, option):
        _refuse_outside(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}{TEMPORARY}{os.getpid()}")
        try:
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    _notify_watchers(path)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """A folder to fill, which appears as `path` only once it is complete."""
    with storage_errors(path):
        _refuse_outside(path)
        temporary = path.with_name(f".{path.name}{TEMPORARY}{os.getpid()}")
        try:
            temporary.mkdir(parents=True)
            yield temporary
            temporary.replace(path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    _notify_watchers(path)


@contextmanager
def watched(callback: Callable[[Path], None]) -> Iterator[None]:
    """Calls `callback` with every file and folder that is committed within the block."""
    _watchers.append(callback)
    try:
        yield
    finally:
        _watchers.remove(callback)


def _notify_watchers(path: Path) -> None:
    for callback in list(_watchers):
        callback(path)


def write_bytes(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Writes a whole file atomically, with these permissions before the process's umask."""
    with atomic_file(path, mode) as file:
        file.write(content)


def write_json(path: Path, value: Any) -> None:
    """Writes JSON atomically: two-space indent, keys in the order given, no NaN (undefined is null)."""
    write_bytes(path, json_bytes(value))


def json_bytes(value: Any) -> bytes:
    """What `write_json` writes."""
    return (json.dumps(value, indent=2, allow_nan=False) + "\n").encode()


def write_array(path: Path, array: AnyArray) -> None:
    """Writes a plain `.npy` file atomically.

    Not by numpy's own writer, which reports a full disk without saying that it is full.
    """
    with atomic_file(path) as file:
        for part in npy_parts(array):
            file.write(part)


def holds_array(path: Path, array: AnyArray) -> bool:
    """True when `path` is, byte for byte, what `write_array` would write."""
    if not path.is_file() or path.stat().st_size > array.nbytes + 10_000:
        return False
    with path.open("rb") as file:
        return all(file.read(len(part)) == part for part in npy_parts(array)) and not file.read(1)


def npy_parts(array: AnyArray) -> Iterator[memoryview]:
    """The bytes of a `.npy` file of the array, part by part."""
    yield memoryview(npy_header(array.dtype, array.shape))
    at_least_one_axis = np.atleast_1d(array)
    for rows in row_blocks(at_least_one_axis):
        yield np.ascontiguousarray(at_least_one_axis[rows]).reshape(-1).view(np.uint8).data


def npy_header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """The header of a `.npy` file, as numpy writes it."""
    if dtype.hasobject:
        raise ValueError(f"Expected a plain dtype, got {dtype}: objects would need a pickle")
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": dtype.str, "fortran_order": False, "shape": tuple(int(n) for n in shape)}
    )
    return file.getvalue()


def open_regular(path: Path) -> IO[bytes]:
    """Opens a file to read from; raises OSError for a pipe or a device, which might never end."""
    number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(number, "rb")


_REMEDIES = {
    **dict.fromkeys((".gz", ".bz2", ".xz", ".zst", ".zip"), "is compressed; unpack it first"),
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "is a spreadsheet; save it as csv in UTF-8"),
    **dict.fromkeys((".tsv", ".tab"), "is a table separated by tabs; rename it to end in .csv"),
}


def unknown_extension(path: Path, suffixes: tuple[str, ...], what: str = "a file that ends in") -> str:
    """What is wrong with a file of another kind, and what to do."""
    known = _REMEDIES.get(path.suffix.lower()) if ".csv" in suffixes else None
    return known or f"unknown extension {path.suffix!r}; give {what} {', '.join(suffixes)}"


def user_file(path: Path | str, suffixes: tuple[str, ...] = (), what: str = "a file that ends in") -> Path:
    """The path of a file that the user named; raises InputError where there is none, or of another kind."""
    path = Path(path).expanduser()
    if suffixes and path.suffix.lower() not in suffixes:
        raise InputError(f"{path}: {unknown_extension(path, suffixes, what)}")
    if not path.is_file():
        raise InputError(f"{path} does not exist or is not a file; check the path")
    return path


def sha256_of(path: Path) -> str:
    """Sha256 of a file's bytes."""
    sha = hashlib.sha256()
    with open_regular(path) as file:
        while chunk := file.read(_HASHED_AT_ONCE):
            sha.update(chunk)
    return sha.hexdigest()


def refuse_irregular(folder: Path) -> None:
    """Raises when something in the folder is neither a file nor a folder, or lies deeper than any of a run.

    What is written through a link would land elsewhere, and reading a pipe or a device might never end.
    """
    with storage_errors(folder):
        for path in folder.rglob("*"):
            if len(path.parts) > len(folder.parts) + _DEEPEST:  # walking through them would end the process
                raise StorageError(f"{folder} holds folders within folders, {_DEEPEST} deep; remove them")
            if path.is_symlink():
                raise StorageError(
                    f"{path} is a link, and what a run writes must stay in its folder; "
                    "put what it points to in its place, or remove it"
                )
            if path.exists() and not path.is_file() and not path.is_dir():
                raise StorageError(f"{path} is not a regular file, and a run writes no others; remove it")


def is_temporary(path: Path) -> bool:
    """True for a name that only a running process uses, or a killed one leaves behind."""
    return path.name.startswith(".") and (TEMPORARY in path.name or path.name.startswith(LOCK))


def sweep_temporaries(folder: Path) -> None:
    """Removes the temporary files and folders of killed runs."""
    for leftover in list(folder.rglob(f".*{TEMPORARY}*")):
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)
