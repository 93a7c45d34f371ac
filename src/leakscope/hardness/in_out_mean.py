"""Averages over the models that saw a record, or over those that did not.

Which side matters: what a model was never trained on (OUT) shows whether the record can be guessed from the
others; how a model came to fit it (IN) shows how it was learned.
"""

from __future__ import annotations

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray
from leakscope.errors import InputError
from leakscope.types import Design


def side_mean(values: AnyArray, counted: BoolArray) -> FloatArray:
    """Mean over the counted models; NaN for a record without one.

    Args:
        values: (models, records, ...).
        counted: bool (models, records).

    Returns:
        float64 (records, ...).
    """
    weight = counted.reshape(*counted.shape, *(1,) * (values.ndim - 2)).astype(np.float64)
    total = np.where(weight > 0, values, 0.0).sum(axis=0, dtype=np.float64)
    n = weight.sum(axis=0)
    mean: FloatArray = np.full(total.shape, np.nan)
    np.divide(total, n, out=mean, where=n > 0)
    return mean


def record_mask(design: Design) -> BoolArray:
    """The design as bool (models, records).

    Raises:
        InputError: models have different universes, so that columns are not records.
    """
    if design.columns is not None:
        raise InputError(
            "design.columns is set: hardness needs every model asked about the same records; "
            "measure each universe by itself"
        )
    return design.in_mask
