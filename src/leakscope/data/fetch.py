"""Compares the files of a dataset with the published ones, by checksum, and downloads those that are missing.

A file appears under its name only once its checksum is the published one: an interrupted, wrong or damaged
download leaves nothing behind. Of an archive only the known members are written, under their known names.
"""

from __future__ import annotations

import hashlib
import http.client
import tarfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from leakscope.data.catalogue import Dataset, PublishedFile
from leakscope.data.published import CHUNK_BYTES, DAMAGE, content_checksum, locate
from leakscope.disk.storage import atomic_file
from leakscope.errors import DataMissingError, InputError

Progress = Callable[[str, int, int], None]  # file name, bytes so far, bytes in all
FileState = Literal["ok", "missing", "differs", "unpacked", "partial"]
"""Partial: unpacked, with another number of files than published."""
_TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True)
class FileCheck:
    """How one file of a dataset compares with the published one."""

    dataset: str
    file: PublishedFile
    path: Path
    state: FileState

    @property
    def is_fault(self) -> bool:
        """True when the dataset cannot be used or trusted with this file."""
        return self.state in ("differs", "partial") or (self.state == "missing" and self.file.required)


@dataclass(frozen=True)
class Fetched:
    """One file of a dataset after `fetch`; `downloaded` is false when it was already correct."""

    path: Path
    downloaded: bool


class _DownloadError(Exception):
    """Why a file cannot be downloaded, in words."""


def check_file(
    entry: Dataset, file: PublishedFile, root: Path, on_bytes: Callable[[int], None] | None = None
) -> FileCheck:
    """Compare one file in the data folder `root` with what is published."""
    folder = entry.folder_in(root)
    path = locate(folder, file.name)
    if path is None:
        return FileCheck(entry.name, file, folder / file.name, _state_without_file(entry, root))
    try:
        checksum = content_checksum(path, file.algorithm, on_bytes)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; check the file") from error
    return FileCheck(entry.name, file, path, "ok" if checksum == file.checksum else "differs")


def _state_without_file(entry: Dataset, root: Path) -> FileState:
    if not entry.is_unpacked(root):
        return "missing"
    return "unpacked" if entry.is_unpacked_whole(root) else "partial"


def fetch(entry: Dataset, data_dir: Path, progress: Progress = lambda *_: None) -> list[Fetched]:
    """Put the published files of a dataset into its folder under `data_dir`.

    Args:
        entry: the dataset, from `leakscope.data.registry.dataset`.
        data_dir: the data folder; created when absent.
        progress: called with file name, bytes so far and bytes in all while downloading.

    Returns:
        One entry per file; empty for a dataset that needs none. Correct files are not downloaded again.

    Raises:
        DataMissingError: a file cannot be downloaded; says what to download from where into which folder.
        StorageError: the folder cannot be written.
    """
    checks = [check_file(entry, file, data_dir) for file in entry.files]
    wanted = [check.file for check in checks if check.state not in ("ok", "unpacked")]
    folder = entry.folder_in(data_dir)
    if wanted and entry.archive:
        _fetch_from_archive(entry, wanted, folder, progress)
    else:
        for file in wanted:
            _fetch_file(entry, file, folder, progress)
    return [
        Fetched(folder / check.file.name if check.file in wanted else check.path, check.file in wanted)
        for check in checks
    ]


def _fetch_file(entry: Dataset, file: PublishedFile, folder: Path, progress: Progress) -> None:
    """Downloads one file from the first mirror that has the correct one."""
    reasons = []
    for mirror in entry.mirrors:
        address = mirror + file.name
        try:
            with _download_errors(), _opened(address) as response:
                return _save(response, folder / file.name, file, progress)
        except _DownloadError as error:
            reasons.append(f"{address}: {error}")
    raise DataMissingError(
        f"{entry.name}: cannot download {file.name} ({'; '.join(reasons)}); "
        f"download it from {' or '.join(entry.mirrors)} by other means and put it in {folder}"
    )


def _fetch_from_archive(entry: Dataset, files: list[PublishedFile], folder: Path, progress: Progress) -> None:
    """Writes the wanted members of the dataset's archive while it is downloaded."""
    missing = {f"{entry.folder}/{file.name}": file for file in files}
    try:
        with (
            _download_errors(),
            _opened(entry.archive) as response,
            tarfile.open(fileobj=response, mode="r|gz") as archive,
        ):
            for member in archive:
                stream = archive.extractfile(member) if member.name in missing and member.isreg() else None
                if stream is not None:
                    file = missing.pop(member.name)
                    _save(stream, folder / file.name, file, progress)
        if missing:
            raise _DownloadError(f"the archive lacks {', '.join(missing)}")
    except _DownloadError as error:
        raise DataMissingError(
            f"{entry.name}: cannot get {entry.archive} ({error}); download it by other means and "
            f"put its {', '.join(file.name for file in files)} in {folder}"
        ) from error


def _opened(address: str) -> IO[bytes]:
    request = urllib.request.Request(address, headers={"User-Agent": "leakscope"})
    response: IO[bytes] = urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)
    return response


def _save(source: IO[bytes], target: Path, file: PublishedFile, progress: Progress) -> None:
    """Copies in chunks; stops soon after more than was expected, and refuses another file's content."""
    checksum, n_copied = hashlib.new(file.algorithm, usedforsecurity=False), 0
    with atomic_file(target, option="--data-dir") as sink:
        while n_copied <= file.n_bytes and (chunk := _read(source)):
            checksum.update(chunk)
            sink.write(chunk)
            n_copied += len(chunk)
            progress(file.name, n_copied, file.n_bytes)
        if checksum.hexdigest() != file.checksum:
            found = f"{file.algorithm} of {file.name} is {checksum.hexdigest()}"
            raise _DownloadError(f"{found}, expected {file.checksum}")


def _read(source: IO[bytes]) -> bytes:
    with _download_errors():
        return source.read(CHUNK_BYTES)


@contextmanager
def _download_errors() -> Iterator[None]:
    """Turns errors of the network, and of a damaged archive, into one line."""
    try:
        yield
    except urllib.error.HTTPError as error:
        error.close()
        raise _DownloadError(f"HTTP {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException, tarfile.TarError, *DAMAGE) as error:
        reason = getattr(error, "reason", error)  # a URLError wraps the cause
        words = getattr(reason, "strerror", None) or str(reason) or type(error).__name__
        raise _DownloadError(words) from error
