"""Hostile folders of records: pictures in a folder a class, and arrays as files."""

from __future__ import annotations

import io
import os
import zlib
from pathlib import Path
from random import Random
from typing import Any

from PIL import Image

from tests.fuzz.arrays import _array, _npy, _usual
from tests.fuzz.mutate import NUMBERS, TEXTS, spoiled_bytes

_MODES = ("L", "L", "L", "RGB", "RGB", "RGB", "RGBA", "P", "1", "LA", "I;16", "CMYK")


def picture_folder(rng: Random, folder: Path) -> None:
    size, mode = rng.choice(((4, 4), (8, 6), (1, 1))), rng.choice(_MODES)
    odd = rng.choice(("x\n.png", "..png", "4.txt", "5.PNG", os.fsdecode(b"\xff.png")))
    is_whole = rng.random() < 0.3
    for class_name in ("cat", "dog", *((rng.choice(TEXTS),) if rng.random() < 0.3 else ())):
        name = class_name.encode("utf-8", "replace").decode().replace("/", "_").replace("\x00", "")[:60]
        place = folder / (name or "none")
        if place.exists():
            continue
        place.mkdir()
        for name in ("1.png", "2.jpg", odd if rng.random() < 0.2 else "3.png"):
            (place / name).write_bytes(_picture(rng, name, size, mode, is_whole))
    if rng.random() < 0.1:
        (folder / "link").symlink_to(rng.choice(("/etc", "..", "x")))
    if rng.random() < 0.1:
        (folder / "cat" / "7.png").mkdir()


def _picture(rng: Random, name: str, size: tuple[int, int], mode: str, is_whole: bool) -> bytes:
    content = _drawn(rng, name, size, mode if rng.random() < 0.9 else rng.choice(_MODES))
    if rng.random() < 0.05:
        content = _drawn(rng, name, rng.choice(((4, 5), (4000, 1), (300, 300))), mode)
    if rng.random() < 0.05:
        content = _declaring(rng, content)
    return content if is_whole or rng.random() < 0.8 else spoiled_bytes(rng, content)


def _drawn(rng: Random, name: str, size: tuple[int, int], mode: str) -> bytes:
    """A PNG or JPEG, most often as its name says; sometimes something else altogether."""
    is_jpeg = name.endswith(("jpg", "jpeg")) != (rng.random() < 0.05)
    image, out = Image.frombytes("L", size, rng.randbytes(size[0] * size[1])).convert(mode), io.BytesIO()
    if is_jpeg and mode in ("L", "RGB", "CMYK"):
        image.save(out, "JPEG")
    else:
        image.save(out, "TIFF" if mode == "CMYK" else "PNG")
    return out.getvalue()


def _declaring(rng: Random, content: bytes) -> bytes:
    """A PNG that says it has another size, with its checksum made to fit."""
    at = content.find(b"IHDR")
    if at < 0:
        return content
    width, height = (rng.choice((*NUMBERS, 4, 5000)) % 2**32 for _ in range(2))
    header = b"IHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big") + content[at + 12 : at + 17]
    return content[:at] + header + zlib.crc32(header).to_bytes(4, "big") + content[at + 21 :]


def array_folder(rng: Random, folder: Path) -> None:
    n = rng.choice((1, 6, 6, 6))
    is_whole = rng.random() < 0.3
    for name in ("features", "x", "labels", "y", "ids", "group_side"):
        if rng.random() < (0.1 if name in ("x", "y") else 0.95):
            usual: Any = _usual(rng, name.partition("_")[0], n)
            usual = usual.astype("f4") if name == "features" and rng.random() < 0.9 else usual
            content = _npy(rng, usual if is_whole or rng.random() < 0.9 else _array(rng, n))
            path = folder / f"{name}.npy"
            path.write_bytes(content if is_whole or rng.random() < 0.9 else spoiled_bytes(rng, content))
