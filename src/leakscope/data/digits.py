"""Digits: 1,797 hand-written digits of 8 x 8 pixels that come with scikit-learn; no download."""

from __future__ import annotations

import gzip
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from leakscope.disk.string_arrays import numbered_ids
from leakscope.types import Records

_LARGEST_PIXEL = 16.0


def digits() -> Records:
    """The digits as flat float32 features (1797, 64) from 0 to 1, in scikit-learn's order."""
    with gzip.open(_file(), "rt") as file:
        rows = np.loadtxt(file, delimiter=",")
    pixels, labels = rows[:, :-1], rows[:, -1]
    return Records(
        features=(pixels / _LARGEST_PIXEL).astype(np.float32),
        labels=labels.astype(np.int64),
        ids=numbered_ids("digits-", len(labels), width=4),
        name="digits",
        class_names=tuple(str(digit) for digit in range(10)),
        picture_shape=(1, 8, 8),
    )


def _file() -> Path:
    """scikit-learn's own file; its `load_digits` reads the same, and loads the whole library first."""
    package = find_spec("sklearn")
    assert package is not None
    assert package.origin is not None, "a dependency, installed as files"
    return Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
