"""Self-influence by TracIn over checkpoints (Pruthi et al. 2020).

How much does training on a record lower its own loss? To first order, a step on it with learning rate `lr`
lowers the loss by `lr * ||gradient||^2`; TracIn sums this over checkpoints, `sum_t lr_t ||g_t||^2`. It counts
one step per checkpoint, so values are comparable within a run only.
"""

from __future__ import annotations

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray
from leakscope.errors import InputError
from leakscope.hardness.in_out_mean import side_mean


def tracin(gradient_norms: AnyArray, learning_rates: AnyArray) -> FloatArray:
    """`sum_t lr_t ||g_t||^2` for each model and record; high means a strong effect on its own loss.

    Args:
        gradient_norms: float (models, checkpoints, records), gradient norms with respect to all weights
            (`train.gradient_norms`).
        learning_rates: float (checkpoints,), the learning rate at each.

    Returns:
        float64 (models, records).
    """
    rates = np.asarray(learning_rates, dtype=np.float64)
    if rates.shape != gradient_norms.shape[1:2]:
        raise InputError(
            f"learning_rates has shape {rates.shape}; give one for each of the {gradient_norms.shape[1]} "
            "checkpoints"
        )
    squares = np.square(gradient_norms, dtype=np.float64)
    influence: FloatArray = np.einsum("mtr,t->mr", squares, rates)
    return influence


def mean_tracin(gradient_norms: AnyArray, learning_rates: AnyArray, in_mask: BoolArray) -> FloatArray:
    """Mean over the models trained on the record; float64 (records,), NaN for a record without any."""
    return side_mean(tracin(gradient_norms, learning_rates), in_mask)
