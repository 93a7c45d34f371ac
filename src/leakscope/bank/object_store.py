"""Run folders in object stores (`s3://bucket/run`): a local working copy, and a mirror of it.

All of leakscope works on the local copy, so there is one code path. Whenever a block or the manifest is
committed, and every 20 s while single models are, new files are uploaded, followed by the index of their
sha256 checksums. A run that already exists in the store is fetched first, and every file is checked against
the index. A file that does not match (damaged, or half-way through an upload that was killed) is ignored and
made again, as if it were missing.

The store is authoritative: the local copy is made equal to it before a run resumes. At most the block whose
upload failed has to be trained again. A store has no locks, so only runs on one machine exclude each other;
two machines that use one address may undo each other's index, which costs training but not correctness.

The states of networks in training stay on the machine: they change too often to be uploaded.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from leakscope.disk.cache import cache_folder
from leakscope.disk.lock import folder_lock
from leakscope.disk.saved_training import STATES
from leakscope.disk.storage import (
    TEMPORARY,
    is_temporary,
    json_bytes,
    sha256_of,
    storage_errors,
    sweep_temporaries,
    watched,
)
from leakscope.errors import CorruptBankError, InputError, StorageError, first_line

INDEX = "leakscope-files.json"
_RANKS = {"run.json": 0, "identity.json": 1, "block.json": 3, "manifest.json": 4, "results.json": 5}
_OTHER_RANK = 2  # a store with only the first few of these still holds a sound, unfinished run
_PUSHED_AT = ("identity.json", "manifest.json")
_SECONDS_BETWEEN_PUSHES = 20.0
_URL = re.compile(r"([a-z][a-z0-9+.-]+):/+(.+)")  # a Path drops the second slash; one letter is a drive


@contextmanager
def working_copy(out: Path | str) -> Iterator[Path]:
    """The folder to work in: `out` itself, or a local copy of the run at an address like s3://bucket/run.

    Committed blocks are uploaded at once, other files at the end, also when the run fails or is interrupted.

    Raises:
        InputError: the address holds something else than a run, or its library is not installed.
        StorageError: the store cannot be reached.
    """
    url = address_of(out)
    if url is None:
        yield Path(out)
        return
    folder = _cache_folder(url)
    with folder_lock(folder):
        mirror = Mirror(url, folder)
        mirror.fetch()
        with watched(mirror.committed):
            try:
                yield folder
            finally:
                mirror.push()


def address_of(out: Path | str) -> str | None:
    """The address, when `out` is one; None for a path."""
    match = _URL.fullmatch(str(out))
    return f"{match[1]}://{match[2].rstrip('/')}" if match else None


class Mirror:
    """A folder and its copy in a store."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url, self._folder = url, folder
        with _remote_errors(url):
            self._store, self._root = _opened(url)
        self._uploaded: dict[str, str] = {}  # name -> sha256, as the index has it
        self._known: dict[str, tuple[tuple[int, int], str]] = {}  # name -> (time and size, sha256), here
        self._stray: set[str] = set()  # in the store but not in its index
        self._pushed_at = time.monotonic()

    def fetch(self) -> list[str]:
        """Makes the folder equal to the store; returns the files that did not match their checksum."""
        with _remote_errors(self._url):
            self._store.invalidate_cache()
            there = {self._name(path) for path in self._store.find(self._root)}
            index = self._store.cat_file(self._at(INDEX)) if INDEX in there else None
        if there and index is None:
            raise InputError(f"{self._url} is not empty and holds no run; choose another address with --out")
        self._uploaded = {} if index is None else _checked_index(index, self._url)
        self._stray = there - set(self._uploaded) - {INDEX}
        sweep_temporaries(self._folder)
        for name in set(self._files()) - set(self._uploaded):
            (self._folder / name).unlink()
        wrong = [name for name in sorted(self._uploaded) if not self._fetched(name, name in there)]
        for name in wrong:
            del self._uploaded[name]
        return wrong

    def push(self) -> None:
        """Uploads what is new or changed, then the index, then removes what is gone."""
        self._pushed_at = time.monotonic()
        here = {name: self._sha256(name) for name in self._files()}
        changed = [name for name, sha in here.items() if self._uploaded.get(name) != sha]
        gone = (set(self._uploaded) | self._stray) - set(here)
        if not changed and not gone:
            return
        with _remote_errors(self._url):
            if not self._uploaded:  # from now on the address is a run's, whatever becomes of this upload
                self._store.pipe_file(self._at(INDEX), json_bytes({"files": {}}))
            for name in sorted(changed, key=lambda n: (_RANKS.get(Path(n).name, _OTHER_RANK), n)):
                self._store.put_file(str(self._folder / name), self._at(name))
            self._store.pipe_file(self._at(INDEX), json_bytes({"files": here}))
            self._uploaded, self._stray = here, set()
            for name in gone:
                if self._store.exists(self._at(name)):
                    self._store.rm_file(self._at(name))

    def committed(self, path: Path) -> None:
        """Uploads when a block is whole, or a file that others depend on, or after a while."""
        if not path.is_relative_to(self._folder) or _is_part_of_temporary(path.relative_to(self._folder)):
            return
        is_late = time.monotonic() - self._pushed_at >= _SECONDS_BETWEEN_PUSHES
        if path.is_dir() or path.name in _PUSHED_AT or is_late:
            self.push()

    def _fetched(self, name: str, is_there: bool) -> bool:
        """Puts one file in place unless it is there; False when the store's does not match the index."""
        path, wanted = self._folder / name, self._uploaded[name]
        if path.is_file() and sha256_of(path) == wanted:
            return True
        temporary = path.with_name(f".{path.name}{TEMPORARY}{os.getpid()}")
        with storage_errors(path):
            path.unlink(missing_ok=True)
            path.parent.mkdir(parents=True, exist_ok=True)
        if not is_there:
            return False
        try:
            with _remote_errors(self._url):
                self._store.get_file(self._at(name), str(temporary))
            if sha256_of(temporary) != wanted:
                return False
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        return True

    def _files(self) -> list[str]:
        """Names of the folder's files that belong into the store."""
        files = (path.relative_to(self._folder) for path in self._folder.rglob("*") if path.is_file())
        stored = (path for path in files if not _is_part_of_temporary(path) and STATES not in path.parts)
        return [path.as_posix() for path in stored]

    def _sha256(self, name: str) -> str:
        """Sha256 of a local file, computed again only when the file has changed."""
        path = self._folder / name
        state = (path.stat().st_mtime_ns, path.stat().st_size)
        if self._known.get(name, (None, ""))[0] != state:
            self._known[name] = (state, sha256_of(path))
        return self._known[name][1]

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _name(self, path: str) -> str:
        return path.removeprefix(self._root).lstrip("/")


def _is_part_of_temporary(path: Path) -> bool:
    """True for temporary files and folders, and whatever is in them."""
    return any(is_temporary(Path(part)) for part in path.parts)


def _opened(url: str) -> tuple[Any, str]:
    """(file system, path within it) of an address."""
    scheme = url.split("://")[0]
    try:
        import fsspec

        store, root = fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise InputError(
            f"{url} needs fsspec and its library for {scheme}:// ({error}); "
            "for s3:// install `pip install 'leakscope[s3]'`"
        ) from error
    except ValueError as error:
        raise InputError(f"{url}: {error}; use an address like s3://bucket/run") from error
    return store, str(root).rstrip("/")


def _checked_index(content: bytes, url: str) -> dict[str, str]:
    """name -> sha256; raises when a name would lead out of the folder."""
    try:
        files = json.loads(content)["files"]
        names = [PurePosixPath(name) for name in files]
        is_sound = all(re.fullmatch(r"[0-9a-f]{64}", sha) for sha in files.values())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptBankError(f"{url}/{INDEX} is damaged: not an index of files") from error
    for name in names:
        leads_out = name.is_absolute() or ".." in name.parts or "\\" in str(name) or "\0" in str(name)
        if leads_out or not name.parts or _is_part_of_temporary(Path(name)):
            raise CorruptBankError(f"{url}/{INDEX} names {str(name)!r}, which is no file of a run folder")
    if not is_sound:
        raise CorruptBankError(f"{url}/{INDEX} is damaged: not all checksums are sha256")
    return {str(name): files[key] for name, key in zip(names, files, strict=True)}


@contextmanager
def _remote_errors(url: str) -> Iterator[None]:
    """Turns whatever a store's library raises into one line; every library has its own exceptions."""
    try:
        yield
    except (InputError, CorruptBankError, StorageError):
        raise
    except Exception as error:
        raise StorageError(
            f"cannot reach {url}: {first_line(error)}; run the same command again to resume once it can be "
            "reached"
        ) from error


def _cache_folder(url: str) -> Path:
    """Where the working copy of an address is."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", url.rsplit("/", 1)[-1])[:40].lstrip(".")
    digest = hashlib.sha256(url.encode()).hexdigest()[:16]
    return cache_folder() / "runs" / f"{name or 'run'}-{digest}"
