"""CIFAR-10 (Krizhevsky 2009), binary version: 60,000 colour images of 32 x 32 pixels.

Six files of 10,000 rows; a row is one label byte and 3,072 bytes of pixels, the red plane first, then
green, then blue, each row by row. The files may be stored as `.bin` or `.bin.xz`.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt

from leakscope.data.published import locate, read_exactly, require
from leakscope.disk.string_arrays import numbered_ids
from leakscope.errors import InputError
from leakscope.types import Records

BATCHES = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch")
CLASS_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
IMAGE_SHAPE = (3, 32, 32)
ROWS_A_BATCH = 10_000
ROW_BYTES = 1 + 3 * 32 * 32


def cifar10(folder: Path, batches: Sequence[str] = BATCHES) -> Records:
    """The images as uint8 (records, 3, 32, 32): the five training batches, then the test batch.

    Args:
        folder: where the six files lie.
        batches: the batches to read; a record has the same id whichever are chosen.
    """
    if set(batches) - set(BATCHES) or not batches or len(set(batches)) != len(batches):
        raise InputError(f"batches={list(batches)} must be one or more of {', '.join(BATCHES)}, each once")
    paths = require("cifar10", folder, [f"{batch}.bin" for batch in batches])
    with ThreadPoolExecutor(max_workers=4) as pool:  # decompression runs outside Python's lock
        rows = np.concatenate(list(pool.map(_read_batch, paths)))  # (records, 3073)
    return Records(
        features=rows[:, 1:].reshape(-1, *IMAGE_SHAPE),
        labels=rows[:, 0].astype(np.int64),
        ids=np.concatenate([_batch_ids(batch) for batch in batches]),
        name="cifar10",
        groups={"split": np.repeat(np.array([_split(batch) for batch in batches]), ROWS_A_BATCH)},
        class_names=_class_names(folder),
    )


def _read_batch(path: Path) -> npt.NDArray[np.uint8]:
    content = read_exactly(path, ROWS_A_BATCH * ROW_BYTES)
    rows = np.frombuffer(content, dtype=np.uint8).reshape(-1, ROW_BYTES)
    largest_label = int(rows[:, 0].max())
    if largest_label >= len(CLASS_NAMES):
        raise InputError(f"{path} holds the label {largest_label}, expected 0 to 9; fetch it again")
    return rows


def _split(batch: str) -> str:
    return "test" if batch == "test_batch" else "train"


def _batch_ids(batch: str) -> npt.NDArray[np.str_]:
    start = 0 if batch == "test_batch" else BATCHES.index(batch) * ROWS_A_BATCH
    return numbered_ids(f"cifar10-{_split(batch)}-", ROWS_A_BATCH, start=start, width=5)


def _class_names(folder: Path) -> tuple[str, ...]:
    """The names in `batches.meta.txt` where that file lies beside the batches, else those built in."""
    path = locate(folder, "batches.meta.txt")
    if path is None:
        return CLASS_NAMES
    names = tuple(path.read_text(encoding="utf-8", errors="replace").split())
    if len(names) != len(CLASS_NAMES):
        raise InputError(f"{path} has {len(names)} class names, expected {len(CLASS_NAMES)}; delete it")
    return names
