"""One run at a time in a folder: a lock that a killed run cannot leave behind.

The lock is the operating system's (`flock`) on a file in the folder, so it ends with the process that holds
it, however that ends. The file also names its holder. That is what a second run prints when it is refused,
and what is believed where `flock` says nothing:

* a record of another machine: on a network file system locks may not reach that machine, so the run is
  refused, and the message names the file to remove;
* no `flock` at all: whoever creates the file (`O_EXCL`) has the lock, and it is taken over when the
  process it names is gone.

A thread that holds a folder may take it again, as an audit of a given model does; another thread may not.
Readers (verify, report) take no lock: every file they read is whole or absent.
"""

from __future__ import annotations

import errno
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from leakscope.disk.lock_owner import Holder, read_holder, this_process
from leakscope.disk.storage import LOCK, TEMPORARY, create_folder, storage_errors
from leakscope.errors import FolderInUseError

try:
    import fcntl
except ImportError:  # not a Unix
    fcntl = None  # type: ignore[assignment]

_TAKEOVER = f"{LOCK}-takeover"
_NO_FLOCK = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_NO_FILE = -1
_ATTEMPTS = 100  # each lost to a holder that let go in between
_SECONDS_TO_SIGN = 0.5  # a holder has the lock a moment before the file names it


@dataclass
class _Held:
    """A lock of this process: its open file, whose it is, and how often it was taken."""

    file: int
    pid: int
    thread: int
    depth: int = 1


_held: dict[Path, _Held] = {}
_guard = threading.RLock()


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Keeps `folder`, which is created when absent, to this thread until the end of the block.

    Raises:
        FolderInUseError: another run holds it; says which process on which machine, and the remedy.
        StorageError: the folder cannot be written.
    """
    with storage_errors(folder):
        create_folder(folder)
        key = folder.resolve()
    with _guard:
        held = _taken(key, folder)
    try:
        yield
    finally:
        with _guard:
            held.depth -= 1
            if not held.depth and held.pid == os.getpid():
                del _held[key]
                _let_go(key / LOCK, held.file)


def _taken(key: Path, folder: Path) -> _Held:
    """The lock, new or taken once more."""
    held = _held.get(key)
    if held is None or held.pid != os.getpid():  # a fork's copy is the parent's lock, not the child's
        file = _locked_file(key, folder) if _has_flock(key) else _created_file(key, folder)
        held = _held[key] = _Held(file, os.getpid(), threading.get_ident())
        return held
    if held.thread != threading.get_ident():
        raise _in_use(folder, read_holder(key / LOCK))
    held.depth += 1
    return held


def _has_flock(key: Path) -> bool:
    """Whether files of this folder can be locked: asked of a file that nobody else knows."""
    if fcntl is None:
        return False
    with storage_errors(key), tempfile.TemporaryFile(dir=key, prefix=f".lock{TEMPORARY}") as probe:
        try:
            fcntl.flock(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _NO_FLOCK:
                return False
            raise
    return True


def _locked_file(key: Path, folder: Path) -> int:
    """The lock file, open, locked and signed."""
    path = key / LOCK
    for _ in range(_ATTEMPTS):
        with storage_errors(path):
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(file, path):
                _refuse_other_machine(path, folder)
                with storage_errors(path):
                    os.ftruncate(file, 0)
                    os.pwrite(file, this_process().as_bytes(), 0)
                return file
        except BlockingIOError:
            os.close(file)
            raise _in_use(folder, _signed(path)) from None
        except BaseException:
            os.close(file)
            raise
        os.close(file)  # its holder let go, and removed it after we had opened it
    raise _in_use(folder, read_holder(path))


def _created_file(key: Path, folder: Path) -> int:
    """The lock where there is no `flock`: whoever creates the file has it."""
    path = key / LOCK
    if _create(path, this_process().as_bytes()):
        return _NO_FILE
    _refuse_other_machine(path, folder)
    holder = _signed(path)
    if holder is None or holder.is_alive:
        raise _in_use(folder, holder, remove=path if holder is None else None)
    # One at a time: a second one could take the first one's new lock for that of the dead.
    if not _create(key / _TAKEOVER, b""):
        raise _in_use(folder, None, remove=key / _TAKEOVER)
    try:
        if read_holder(path) != holder:
            raise _in_use(folder, read_holder(path))
        with storage_errors(path):
            path.write_bytes(this_process().as_bytes())
    finally:
        (key / _TAKEOVER).unlink(missing_ok=True)
    return _NO_FILE


def _create(path: Path, content: bytes) -> bool:
    """Writes a file that is not there yet; false when it is."""
    with storage_errors(path):
        try:
            with path.open("xb") as file:
                file.write(content)
        except FileExistsError:
            return False
    return True


def _let_go(path: Path, file: int) -> None:
    """Removes the lock file while it is still ours, then unlocks it."""
    with suppress(OSError):  # a disk that turned read-only: the lock ends with its process all the same
        if file == _NO_FILE or _is_at(file, path):
            path.unlink(missing_ok=True)
    if file != _NO_FILE:
        os.close(file)


def _is_at(file: int, path: Path) -> bool:
    """True when the open file is the one that has this name now."""
    try:
        return os.path.samestat(os.fstat(file), path.lstat())
    except FileNotFoundError:
        return False


def _signed(path: Path) -> Holder | None:
    """Who holds the lock, once the file says so."""
    for _ in range(20):
        holder = read_holder(path)
        if holder is not None:
            return holder
        time.sleep(_SECONDS_TO_SIGN / 20)
    return None


def _refuse_other_machine(path: Path, folder: Path) -> None:
    holder = read_holder(path)
    if holder is not None and holder.is_of_another_machine:
        raise _in_use(folder, holder, remove=path)


def _in_use(folder: Path, holder: Holder | None, remove: Path | None = None) -> FolderInUseError:
    who = f"another run ({holder})" if holder else "another run"
    or_else = f"if it is no longer running, remove {remove}" if remove else "choose another folder with --out"
    return FolderInUseError(f"{folder} is in use by {who}; wait for it to end, or {or_else}")
