"""Averages over the models trained on a record (IN), or over the others (OUT).

OUT models tell whether a record is predictable from the other records; IN models tell how it was learned.
"""

from __future__ import annotations

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray


def side_mean(values: AnyArray, counted: BoolArray) -> FloatArray:
    """Mean of values (models, records, ...) over the counted models; NaN for a record without any."""
    weight = counted.reshape(*counted.shape, *(1,) * (values.ndim - 2)).astype(np.float64)
    total = np.where(weight > 0, values, 0.0).sum(axis=0, dtype=np.float64)
    n = weight.sum(axis=0)
    mean: FloatArray = np.full(total.shape, np.nan)
    np.divide(total, n, out=mean, where=n > 0)
    return mean
