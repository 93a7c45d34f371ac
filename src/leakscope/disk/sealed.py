"""One file of several arrays and a header, with its own sha256: whole, or treated as absent.

For work in progress that is saved often. One file needs one flush, and a reader needs no other file to know
that nothing is missing.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from leakscope.array_types import AnyArray
from leakscope.disk.mmap_rows import row_blocks
from leakscope.disk.storage import atomic_file, open_regular

_DIGEST_BYTES = hashlib.sha256().digest_size
_LONGEST_HEADER = 1 << 26  # bytes
_KINDS = "biuf"


class Sealed(NamedTuple):
    """The content of a sealed file."""

    header: dict[str, Any]
    arrays: dict[str, AnyArray]


def write_sealed(path: Path, header: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> None:
    """Writes the file atomically; `header` is JSON data."""
    described = [(name, array.dtype.str, array.shape) for name, array in arrays.items()]
    first_line = json.dumps({**header, "arrays": described}).encode() + b"\n"
    sha = hashlib.sha256(first_line)
    with atomic_file(path, 0o600) as file:
        file.write(bytes(_DIGEST_BYTES) + first_line)
        for array in arrays.values():
            flat = np.ascontiguousarray(array).reshape(-1)
            for rows in row_blocks(flat):
                part = flat[rows].view(np.uint8).data
                sha.update(part)
                file.write(part)
        file.seek(0)
        file.write(sha.digest())


def read_sealed(path: Path) -> Sealed | None:
    """The content; None when the file is absent, damaged, or none of ours."""
    try:
        with open_regular(path) as file:
            digest, content = file.read(_DIGEST_BYTES), file.read()
    except OSError:
        return None
    if hashlib.sha256(content).digest() != digest:
        return None
    try:
        return _parsed(content)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, MemoryError):
        return None  # the checksum is right, so somebody made this file on purpose


def read_header(path: Path) -> dict[str, Any] | None:
    """The header alone, without checking the arrays; None when there is none to read."""
    try:
        with open_regular(path) as file:
            file.seek(_DIGEST_BYTES)
            header = json.loads(file.readline(_LONGEST_HEADER))
    except (OSError, ValueError, RecursionError):
        return None
    return header if isinstance(header, dict) else None


def _parsed(content: bytes) -> Sealed:
    end = content.index(b"\n") + 1
    header = json.loads(content[:end])
    arrays, at = {}, end
    for name, code, shape in header.pop("arrays"):
        dtype, n = np.dtype(str(code)), math.prod(shape)
        if dtype.kind not in _KINDS or n < 0 or n * dtype.itemsize > len(content) - at:
            raise ValueError(f"{name} cannot be in a file of {len(content)} bytes")
        arrays[str(name)] = np.frombuffer(content, dtype, n, at).reshape(shape)
        at += n * dtype.itemsize
    if at != len(content):
        raise ValueError("the file is longer than its header says")
    return Sealed(header, arrays)
