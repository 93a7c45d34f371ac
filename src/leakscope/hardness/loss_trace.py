"""How much a record's loss moves while one model trains: needs no other model at all.

The spread is the inter-quartile range of the loss over checkpoints (METHODS section 7). An easy record is low
from the start and stays there; a hard one falls late, which leaves both quartiles apart.
"""

from __future__ import annotations

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray
from leakscope.hardness.in_out_mean import side_mean


def loss_trace_spread(loss: AnyArray) -> FloatArray:
    """Inter-quartile range over checkpoints, in nats; high = hard.

    Args:
        loss: float (..., checkpoints, records); the last but one axis is time.

    Returns:
        float64 (..., records).
    """
    low, high = np.quantile(np.asarray(loss, dtype=np.float64), [0.25, 0.75], axis=-2)
    spread: FloatArray = high - low
    return spread


def mean_loss_trace_spread(loss: AnyArray, in_mask: BoolArray) -> FloatArray:
    """Mean over the models that trained on the record; float64 (records,), NaN for a record in none."""
    return side_mean(loss_trace_spread(loss), in_mask)
