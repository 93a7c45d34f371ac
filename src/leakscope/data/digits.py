"""Digits: 1,797 hand-written digits of 8 x 8 pixels that come with scikit-learn; no download."""

from __future__ import annotations

import numpy as np

from leakscope.disk.string_arrays import numbered_ids
from leakscope.types import Records

_LARGEST_PIXEL = 16.0


def digits() -> Records:
    """The digits as flat float32 features (1797, 64) from 0 to 1, in scikit-learn's order."""
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    return Records(
        features=(pixels / _LARGEST_PIXEL).astype(np.float32),
        labels=labels.astype(np.int64),
        ids=numbered_ids("digits-", len(labels), width=4),
        name="digits",
        class_names=tuple(str(digit) for digit in range(10)),
        picture_shape=(1, 8, 8),
    )
