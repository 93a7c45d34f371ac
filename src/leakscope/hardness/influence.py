"""Influence functions: the effect of leaving out a record, without retraining (Koh and Liang 2017).

At a minimum of `sum_i loss_i(theta) + regularizer(theta)` with Hessian H, leaving out record i moves the
parameters by `inv(H) g_i` to first order, where g_i is the gradient of its loss. The record's own loss rises
by `g_i' inv(H) g_i`, its self-influence, which TracIn approximates at a lower cost.

The formula needs the full Hessian at a true minimum, so it serves small models and as a reference for cheaper
measures. docs/monitor.md compares it with leave-one-out retraining.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from leakscope.array_types import FloatArray
from leakscope.errors import InputError


def left_out_shift(gradients: FloatArray, hessian: FloatArray) -> FloatArray:
    """The shift of the parameters when each record is left out: `inv(H) g_i`.

    Args:
        gradients: float (records, parameters), gradient of each record's loss at the minimum.
        hessian: float (parameters, parameters), of the whole objective (a sum over records, not a mean).

    Returns:
        float64 (records, parameters).

    Raises:
        InputError: shapes do not match, or the Hessian is not positive definite, so this is no minimum.
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
            "hessian is not positive definite: train to a strict minimum, for example with weight decay"
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
