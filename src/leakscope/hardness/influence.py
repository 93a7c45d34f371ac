"""Influence functions: what a model would say without a record, without training it again.

Koh and Liang (2017). At a minimum of `sum_i loss_i(theta) + regulariser(theta)` with Hessian H, leaving
record i out moves the parameters by `inv(H) g_i` to first order, g_i being the gradient of its loss. Its own
loss then rises by `g_i' inv(H) g_i`: the record's self-influence, of which TracIn is a cheap relative.

It needs the whole Hessian at a true minimum, so it serves small models, and as the yardstick that the cheap
measures are held against; docs/monitor.md tells how it compares with true leave-one-out retraining.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from leakscope.array_types import FloatArray
from leakscope.errors import InputError


def left_out_shift(gradients: FloatArray, hessian: FloatArray) -> FloatArray:
    """How far leaving each record out would move the parameters: `inv(H) g_i`.

    Args:
        gradients: float (records, parameters), of each record's loss at the minimum.
        hessian: float (parameters, parameters), of the whole objective (a sum over records, not a mean).

    Returns:
        float64 (records, parameters).

    Raises:
        InputError: shapes do not fit, or the Hessian is not positive definite: not a minimum.
    """
    n_parameters = gradients.shape[1]
    if hessian.shape != (n_parameters, n_parameters):
        raise InputError(
            f"hessian has shape {hessian.shape}, but the gradients have {n_parameters} parameters"
        )
    try:
        factor = linalg.cho_factor(hessian)
    except linalg.LinAlgError as error:
        raise InputError(
            "hessian is not positive definite: train to a minimum, with a regulariser that makes it strict"
        ) from error
    shifts: FloatArray = linalg.cho_solve(factor, np.asarray(gradients, dtype=np.float64).T).T
    return shifts


def self_influence(gradients: FloatArray, hessian: FloatArray) -> FloatArray:
    """Predicted rise of each record's own loss when it is left out; float64 (records,), 0 or more.

    Args:
        gradients: float (records, parameters), as for `left_out_shift`.
        hessian: float (parameters, parameters).
    """
    influence: FloatArray = np.einsum("rp,rp->r", gradients, left_out_shift(gradients, hessian))
    return influence
