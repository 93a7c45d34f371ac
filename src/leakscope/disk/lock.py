"""One run at a time in a folder: a lock that a killed run cannot leave behind.

`filelock` holds the lock: the operating system's, which ends with its process however that ends, or on a file
system without locks a marker file that is taken over when its process is gone. A note beside it names the
owner, for the message to a second run. The note also decides about runs on other machines, which locks on a
network file system may not reach: such a run is believed, and the message names the file to remove.

A thread that holds a folder may take it again, as an audit of a given model does; another thread may not.
Readers (verify, report) take no lock: every file they read is whole or absent.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

from leakscope.disk.storage import LOCK, create_folder, open_regular, storage_errors
from leakscope.errors import FolderInUseError

OWNER = f"{LOCK}-owner"
_MARKER = f"{LOCK}-marker"
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_SECONDS_TO_WAIT = 0.5  # for a run that is just ending, and for the note of one that has just begun
_LONGEST_NOTE = 4096  # bytes; ours has about 150


@dataclass(frozen=True)
class Owner:
    """A process that holds a folder.

    Attributes:
        pid: its number.
        host: its machine's name.
        boot: which start of the machine's kernel it belongs to; empty where the system does not say.
        since: when it took the lock.
    """

    pid: int
    host: str
    boot: str
    since: str

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host}, since {self.since}"

    @property
    def is_on_another_machine(self) -> bool:
        """True when neither the machine's name nor its boot are this one's."""
        return self.host != platform.node() and self.boot != _boot()


def this_process() -> Owner:
    """This process, as an owner from now on."""
    return Owner(os.getpid(), platform.node(), _boot(), datetime.now(UTC).isoformat(timespec="seconds"))


def read_owner(path: Path) -> Owner | None:
    """The owner that a note names, alive or not; None when there is no note, or it is unreadable."""
    try:
        with open_regular(path) as file:
            note = json.loads(file.read(_LONGEST_NOTE))
        owner = Owner(note["pid"], note["host"], note["boot"], note["since"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    texts = (owner.host, owner.boot, owner.since)
    return owner if type(owner.pid) is int and all(isinstance(text, str) for text in texts) else None


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Reserves `folder`, which is created when absent, for this thread until the end of the block.

    Raises:
        FolderInUseError: another run holds it; says which process on which machine, and the remedy.
        StorageError: the folder cannot be written.
    """
    with storage_errors(folder):
        create_folder(folder)
        key = folder.resolve()
        lock = _acquired(key, folder)
    is_outermost = lock.lock_counter == 1
    try:
        if is_outermost:
            _sign(key, folder, lock)
        yield
    finally:
        if is_outermost and (owner := read_owner(key / OWNER)) and owner.pid == os.getpid():
            with suppress(OSError):  # a disk that turned read-only: the lock ends with the process anyway
                (key / OWNER).unlink(missing_ok=True)
                (key / LOCK).unlink(missing_ok=True)
        lock.release()


def _acquired(key: Path, folder: Path) -> BaseFileLock:
    """The lock; a file system that has no locks gets a marker file."""
    lock: BaseFileLock = FileLock(
        key / LOCK, timeout=_SECONDS_TO_WAIT, is_singleton=True, fallback_to_soft=False
    )
    try:
        try:
            lock.acquire()
        except OSError as error:
            if isinstance(error, Timeout) or error.errno not in _NO_LOCKS:
                raise
            (key / LOCK).unlink(missing_ok=True)
            lock = SoftFileLock(key / _MARKER, timeout=_SECONDS_TO_WAIT, is_singleton=True)
            lock.acquire()
    except Timeout:
        raise _in_use(folder, _owner_in_time(key / OWNER), lock) from None
    return lock


def _sign(key: Path, folder: Path, lock: BaseFileLock) -> None:
    """Writes the note; refuses when it names another machine, whose lock may not be visible here."""
    path, owner = key / OWNER, read_owner(key / OWNER)
    if owner is not None and owner.is_on_another_machine and isinstance(lock, FileLock):
        raise _in_use(folder, owner, lock)
    with storage_errors(path):
        path.unlink(missing_ok=True)  # not written through a link that somebody put there
        path.write_text(json.dumps(asdict(this_process())) + "\n")


def _owner_in_time(path: Path) -> Owner | None:
    """The owner, who has the lock a moment before the note says so."""
    deadline = time.monotonic() + _SECONDS_TO_WAIT
    while (owner := read_owner(path)) is None and time.monotonic() < deadline:
        time.sleep(_SECONDS_TO_WAIT / 20)
    return owner


def _in_use(folder: Path, owner: Owner | None, lock: BaseFileLock) -> FolderInUseError:
    who = f"another run ({owner})" if owner else "another run"
    remedy = "choose another folder with --out"
    if owner is None or owner.is_on_another_machine:
        blocking = folder / (OWNER if isinstance(lock, FileLock) and owner else Path(lock.lock_file).name)
        remedy = f"if it is no longer running, remove {blocking}"
    return FolderInUseError(f"{folder} is in use by {who}; wait for it to end, or {remedy}")


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
