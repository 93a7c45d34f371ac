"""MNIST and Fashion-MNIST: 70,000 grey images of 28 x 28 pixels each, from their IDX files.

An IDX file is a big-endian header (a magic number that says the type and number of axes, then one
32-bit length an axis) and the bytes of the array.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from leakscope.data.published import read_exactly, require
from leakscope.disk.string_arrays import numbered_ids
from leakscope.errors import InputError
from leakscope.types import Records

SIDE = 28
SPLIT_SIZES = {"train": 60_000, "test": 10_000}
FILES = tuple(
    f"{split}-{array}-ubyte.gz" for split in ("train", "t10k") for array in ("images-idx3", "labels-idx1")
)
DIGITS = tuple(str(digit) for digit in range(10))
CLOTHES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
_UNSIGNED_BYTES = 8  # the type code in an IDX magic number


def mnist(folder: Path) -> Records:
    """Hand-written digits as uint8 (70000, 1, 28, 28): the training split, then the test split."""
    return _read_splits("mnist", folder, DIGITS)


def fashion_mnist(folder: Path) -> Records:
    """Pictures of clothes as uint8 (70000, 1, 28, 28): the training split, then the test split."""
    return _read_splits("fashion-mnist", folder, CLOTHES)


def _read_splits(name: str, folder: Path, class_names: tuple[str, ...]) -> Records:
    images, labels, ids = [], [], []
    paths = iter(require(name, folder, FILES))
    for split, n_records in SPLIT_SIZES.items():
        images.append(_read_idx(next(paths), (n_records, SIDE, SIDE)))
        labels.append(_read_labels(next(paths), n_records))
        ids.append(numbered_ids(f"{name}-{split}-", n_records, width=5))
    return Records(
        features=np.concatenate(images)[:, None],  # (records, 1, 28, 28)
        labels=np.concatenate(labels),
        ids=np.concatenate(ids),
        name=name,
        groups={"split": np.repeat(np.array(list(SPLIT_SIZES)), list(SPLIT_SIZES.values()))},
        class_names=class_names,
    )


def _read_labels(path: Path, n_records: int) -> npt.NDArray[np.int64]:
    labels = _read_idx(path, (n_records,)).astype(np.int64)
    if labels.max() > 9:
        raise InputError(f"{path} holds the label {labels.max()}, expected 0 to 9; fetch it again")
    return labels


def _read_idx(path: Path, shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """The uint8 array of an IDX file, which must have exactly this shape."""
    header = np.array([_UNSIGNED_BYTES * 256 + len(shape), *shape], dtype=">u4").tobytes()
    content = read_exactly(path, len(header) + int(np.prod(shape)))
    if content[: len(header)] != header:
        header_read = np.frombuffer(content[: len(header)], dtype=">u4").tolist()
        expected = np.frombuffer(header, dtype=">u4").tolist()
        raise InputError(
            f"{path} is not the published file: header {header_read}, expected {expected}; fetch it again"
        )
    return np.frombuffer(content, dtype=np.uint8, offset=len(header)).reshape(shape)
