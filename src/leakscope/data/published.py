"""The files of published datasets: where they are, and how to read them.

Each dataset has one folder under the data folder. A `.bin` file, which is published uncompressed and
large, may be stored as `.bin.xz`; its checksum is then that of the decompressed content.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, cast

from leakscope.errors import DataMissingError, InputError

DATA_VARIABLE = "LEAKSCOPE_DATA"
CHUNK_BYTES = 1 << 20
DAMAGE = (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile)  # what a damaged compressed file raises


def data_root(data_dir: Path | str | None = None) -> Path:
    """The data folder: `data_dir`, else $LEAKSCOPE_DATA, else the user's own data folder."""
    chosen = data_dir or os.environ.get(DATA_VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    user_data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(user_data).expanduser() / "leakscope"


def locate(folder: Path, file_name: str) -> Path | None:
    """The path of a published file, or of its `.bin.xz` form; None when it is absent."""
    forms = [file_name, f"{file_name}.xz"] if file_name.endswith(".bin") else [file_name]
    return next((folder / form for form in forms if (folder / form).is_file()), None)


def require(dataset: str, folder: Path, file_names: Sequence[str]) -> list[Path]:
    """The paths of all files, in order.

    Raises:
        DataMissingError: a file is absent; says which, where, and what to do.
    """
    paths = [locate(folder, file_name) for file_name in file_names]
    missing = [name for name, path in zip(file_names, paths, strict=True) if path is None]
    if missing:
        raise DataMissingError(
            f"{dataset}: {', '.join(missing)} not found in {folder}; run `leakscope data fetch {dataset}`, "
            f"or put {', '.join(file_names)} there, or point --data-dir (or {DATA_VARIABLE}) at the folder "
            f"that holds {folder.name}/"
        )
    return [path for path in paths if path is not None]


def read_exactly(path: Path, expected_bytes: int) -> bytes:
    """The decompressed content of a `.gz`, `.xz` or plain file that must have `expected_bytes`."""
    content = bytearray()
    reason = ""
    try:
        with _decompressed(path) as stream:
            # One byte more than expected reveals a file that is too long without reading all of it.
            while chunk := stream.read(min(CHUNK_BYTES, expected_bytes + 1 - len(content))):
                content += chunk
    except DAMAGE as error:
        reason = f" ({error})"
    if len(content) != expected_bytes or reason:
        size = f"more than {expected_bytes:,}" if len(content) > expected_bytes else f"{len(content):,}"
        raise InputError(
            f"{path} is truncated or damaged: it has {size} bytes of content, expected {expected_bytes:,}"
            f"{reason}; delete it and fetch it again"
        )
    return bytes(content)


def content_checksum(
    path: Path, algorithm: str = "sha256", on_bytes: Callable[[int], None] | None = None
) -> str:
    """Checksum of a published file, of the content where it is stored as `.xz`; "" where that is damaged.

    `on_bytes` is called with the number of bytes of each chunk read, for a progress bar.
    """
    checksum = hashlib.new(algorithm, usedforsecurity=False)
    try:
        for chunk in _published_chunks(path):
            checksum.update(chunk)
            if on_bytes:
                on_bytes(len(chunk))
    except DAMAGE:
        return ""
    return checksum.hexdigest()


def _published_chunks(path: Path) -> Iterator[bytes]:
    """The bytes as published: only `.xz` is ours, `.gz` files are published compressed."""
    with _decompressed(path) if path.suffix == ".xz" else path.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk


def _decompressed(path: Path) -> BinaryIO:
    readers: dict[str, Callable[[Path, str], object]] = {".xz": lzma.open, ".gz": gzip.open}
    return cast(BinaryIO, readers.get(path.suffix, Path.open)(path, "rb"))
