"""Compares the files of a dataset with the published ones, by sha256."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from leakscope.data.catalogue import Dataset, PublishedFile
from leakscope.data.published import content_sha256, locate
from leakscope.errors import InputError

FileState = Literal["ok", "missing", "differs"]


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
        return self.state == "differs" or (self.state == "missing" and self.file.required)


def check_file(
    entry: Dataset, file: PublishedFile, root: Path, on_bytes: Callable[[int], None] | None = None
) -> FileCheck:
    """Compare one file in the data folder `root` with what is published."""
    path = locate(root / entry.folder, file.name)
    if path is None:
        return FileCheck(entry.name, file, root / entry.folder / file.name, "missing")
    try:
        sha256 = content_sha256(path, on_bytes)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; check the file") from error
    return FileCheck(entry.name, file, path, "ok" if sha256 == file.sha256 else "differs")
