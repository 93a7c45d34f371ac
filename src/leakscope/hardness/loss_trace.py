"""Loss-trace spread: how much a record's loss varies while a single model is trained.

The spread is the interquartile range of the loss over checkpoints. The loss of an easy record is low from the
start; that of a hard record falls late, which separates the quartiles.
"""

from __future__ import annotations

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray
from leakscope.hardness.in_out_mean import side_mean


def loss_trace_spread(loss: AnyArray) -> FloatArray:
    """Interquartile range over checkpoints, in nats; high means hard.

    Args:
        loss: float (..., checkpoints, records).

    Returns:
        float64 (..., records).
    """
    low, high = np.quantile(np.asarray(loss, dtype=np.float64), [0.25, 0.75], axis=-2)
    spread: FloatArray = high - low
    return spread


def mean_loss_trace_spread(loss: AnyArray, in_mask: BoolArray) -> FloatArray:
    """Mean over the models trained on the record; float64 (records,), NaN for a record without any."""
    return side_mean(loss_trace_spread(loss), in_mask)
