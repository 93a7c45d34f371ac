"""`.npy` and `.npz` files written by hand, for tests of hostile ones."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

FEATURES = np.arange(8.0).reshape(4, 2)
LABELS = np.array([0, 1, 0, 1])


def npy(header: str, data: bytes = b"", version: int = 1) -> bytes:
    size = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + size + header.encode() + data


def npz(path: Path, compression: int = 0, **members: Any) -> Path:
    """Arrays as numpy saves them, bytes as they are."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, member in members.items():
            content = io.BytesIO()
            if not isinstance(member, bytes):
                np.save(content, member)
            archive.writestr(f"{name}.npy", member if isinstance(member, bytes) else content.getvalue())
    return path
