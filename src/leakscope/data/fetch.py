"""Downloads a dataset from where its authors publish it.

Every file is downloaded under a temporary name, checked against its sha256, and only then renamed: an
interrupted, wrong or damaged download leaves nothing behind. Of an archive only the known
members are written, under their known names.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import tarfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from leakscope.data.catalogue import Archive, Dataset, PublishedFile
from leakscope.data.checksums import check_file
from leakscope.data.published import CHUNK_BYTES, DAMAGE
from leakscope.errors import DataMissingError, StorageError

if TYPE_CHECKING:
    from hashlib import _Hash

Progress = Callable[[str, int, int], None]  # file name, bytes so far, bytes in all
_TIMEOUT_SECONDS = 30.0
_NO_NETWORK = (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError)


@dataclass(frozen=True)
class Fetched:
    """One file of a dataset after `fetch`; `downloaded` is false when it was already correct."""

    name: str
    path: Path
    downloaded: bool


@dataclass(frozen=True)
class _Expected:
    """What a download must turn out to be."""

    name: str
    n_bytes: int
    algorithm: str
    digest: str

    def new_hash(self) -> _Hash:
        return hashlib.new(self.algorithm, usedforsecurity=False)

    def mismatch(self, digest: str) -> str:
        """What is wrong with a download of this digest, in words; "" when nothing is."""
        return "" if digest == self.digest else f"{self.algorithm} is {digest}, expected {self.digest}"


def fetch(entry: Dataset, data_dir: Path, progress: Progress | None = None) -> list[Fetched]:
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
    wanted = {file: check_file(entry, file, data_dir) for file in entry.files}
    lacking = [file for file, check in wanted.items() if check.state != "ok"]
    folder = data_dir / entry.folder
    report = progress or _silent
    if lacking and entry.archive is not None:
        _fetch_from_archive(entry, entry.archive, lacking, folder, report)
    elif lacking:
        for file in lacking:
            _fetch_file(entry, file, folder, report)
    return [
        Fetched(file.name, folder / file.name if file in lacking else check.path, file in lacking)
        for file, check in wanted.items()
    ]


def _silent(name: str, n_bytes: int, n_bytes_total: int) -> None:
    pass


def _fetch_file(entry: Dataset, file: PublishedFile, folder: Path, report: Progress) -> None:
    """Downloads one file from the first mirror that has the correct one."""
    expected = _Expected(file.name, file.n_bytes, "sha256", file.sha256)
    reasons = []
    for mirror in entry.mirrors:
        address = mirror + file.name
        with _temporary(folder / file.name) as part:
            reason = _download(address, part, expected, report)
            if not reason:
                part.replace(folder / file.name)
                return
        reasons.append(f"{address}: {reason}")
    raise DataMissingError(
        f"{entry.name}: cannot download {file.name} ({'; '.join(reasons)}); "
        f"download it from {' or '.join(entry.mirrors)} by other means and put it in {folder}"
    )


def _fetch_from_archive(
    entry: Dataset, archive: Archive, files: list[PublishedFile], folder: Path, report: Progress
) -> None:
    name = archive.url.rsplit("/", 1)[-1]
    with _temporary(folder / name) as part:
        reason = _download(archive.url, part, _Expected(name, archive.n_bytes, "md5", archive.md5), report)
        reason = reason or _extract(part, entry.folder, files, folder)
    if reason:
        raise DataMissingError(
            f"{entry.name}: cannot get {name} ({archive.url}: {reason}); download it by other means and "
            f"put its {', '.join(file.name for file in files)} in {folder}"
        )


def _download(address: str, part: Path, expected: _Expected, report: Progress) -> str:
    """Download to `part`; what went wrong, in words, or "" when the digest is the expected one."""
    request = urllib.request.Request(address, headers={"User-Agent": "leakscope"})
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response, _writable(part) as sink:
            return expected.mismatch(_copy(response, sink, expected, report))
    except urllib.error.HTTPError as error:
        error.close()
        return f"HTTP {error.code} {error.reason}"
    except urllib.error.URLError as error:
        return getattr(error.reason, "strerror", None) or str(error.reason)
    except _NO_NETWORK as error:
        return str(error) or type(error).__name__


def _extract(archive_path: Path, prefix: str, files: list[PublishedFile], folder: Path) -> str:
    """Write the wanted members of a tar archive, each checked; what went wrong, or ""."""
    lacking = {f"{prefix}/{file.name}": file for file in files}
    try:
        with tarfile.open(archive_path, "r:*") as archive:
            for member in archive:
                file = lacking.get(member.name)
                stream = archive.extractfile(member) if file and member.isreg() else None
                if file is None or stream is None:
                    continue
                if reason := _place(stream, folder / file.name, file):
                    return f"{member.name}: {reason}"
                del lacking[member.name]
    except (tarfile.TarError, *DAMAGE) as error:
        return f"damaged archive: {error}"
    return f"the archive lacks {', '.join(lacking)}" if lacking else ""


def _place(stream: IO[bytes], target: Path, file: PublishedFile) -> str:
    """Write one archive member to `target` if it is the published one; what is wrong, or ""."""
    expected = _Expected(file.name, file.n_bytes, "sha256", file.sha256)
    with _temporary(target) as part:
        with _writable(part) as sink:
            reason = expected.mismatch(_copy(stream, sink, expected, _silent))
        if not reason:
            part.replace(target)
    return reason


def _copy(source: IO[bytes], sink: IO[bytes], expected: _Expected, report: Progress) -> str:
    """Copy in chunks; the digest of what was copied. Stops soon after more than was expected."""
    digest, n_copied = expected.new_hash(), 0
    while n_copied <= expected.n_bytes and (chunk := source.read(CHUNK_BYTES)):
        digest.update(chunk)
        _write(sink, chunk)
        n_copied += len(chunk)
        report(expected.name, n_copied, expected.n_bytes)
    return digest.hexdigest()


@contextlib.contextmanager
def _temporary(target: Path) -> Iterator[Path]:
    """A name beside `target` that is gone afterwards, unless it was renamed."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield part
    finally:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # never opened, or renamed
            part.unlink()


def _writable(path: Path) -> IO[bytes]:
    """The file open for writing; its folder is made only now, when there is something to write."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("wb")
    except OSError as error:
        raise _unwritable(path.parent, error) from error


def _write(sink: IO[bytes], chunk: bytes) -> None:
    try:
        sink.write(chunk)
        sink.flush()  # so that a full disk is noticed here, not when closing
    except OSError as error:
        raise _unwritable(Path(sink.name).parent, error) from error


def _unwritable(folder: Path, error: OSError) -> StorageError:
    return StorageError(f"cannot write to {folder}: {error.strerror}; choose another folder with --data-dir")
