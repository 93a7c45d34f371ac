"""Residuals of regression models in a unit of their own, so that the unit of the labels changes no figure."""

from __future__ import annotations

import numpy as np

from leakscope.array_types import AnyArray

LINEAR_SPREADS = 3.0
"""Residuals up to about so many spreads of the labels stay as they are; larger ones are compressed."""
_NORMAL_RANGE = 1.349  # interquartile range of a standard normal distribution


def label_spread(labels: AnyArray) -> float:
    """Spread of numeric labels, which a few extreme ones do not change.

    It is the interquartile range, divided by that of a standard normal distribution. Where half of the labels
    are equal, it is their standard deviation, and 1 where all are.
    """
    exact = np.asarray(labels, dtype=np.float64)
    low, high = np.quantile(exact, (0.25, 0.75))
    return float((high - low) / _NORMAL_RANGE or exact.std() or 1.0)
