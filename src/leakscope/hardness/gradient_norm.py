"""Gradient norms early in training: EL2N and GraNd (Paul, Ganguli and Dziugaite 2021).

EL2N is the norm of the loss gradient at the logits, `||softmax(z) - onehot(y)||`, averaged over models that
train on the record, early in training. GraNd is the norm of the gradient in all weights; its last-layer form
is EL2N times the norm of the last hidden layer, see `train.gradient_norms`, which makes both.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from leakscope.array_types import AnyArray, BoolArray, FloatArray
from leakscope.hardness.in_out_mean import side_mean

EARLY_SHARE = 0.1
"""How far into training the norms are read: the paper's epoch 20 of 200."""


def el2n(logits: AnyArray, labels: AnyArray) -> FloatArray:
    """`||softmax(z) - onehot(y)||` for each answer, in [0, sqrt(2)]; high = hard.

    Args:
        logits: float (..., records, classes).
        labels: int (records,), or (..., records).

    Returns:
        float64 (..., records).
    """
    errors = special.softmax(np.asarray(logits, dtype=np.float64), axis=-1)
    at = np.broadcast_to(labels, errors.shape[:-1])[..., None].astype(np.int64)
    np.put_along_axis(errors, at, np.take_along_axis(errors, at, axis=-1) - 1, axis=-1)
    norms: FloatArray = np.linalg.norm(errors, axis=-1)
    return norms


def early_norm(norms: AnyArray, in_mask: BoolArray, epochs: tuple[int, ...]) -> FloatArray:
    """Mean norm over the models that saw the record, at the first checkpoint past a tenth of training.

    Args:
        norms: float (models, checkpoints, records): EL2N or GraNd of each model at each checkpoint.
        in_mask: bool (models, records).
        epochs: the checkpoints' epochs; the last is taken as the end of training.

    Returns:
        float64 (records,); NaN for a record in no model.
    """
    return side_mean(norms[:, early_checkpoint(epochs)], in_mask)


def early_checkpoint(epochs: tuple[int, ...]) -> int:
    """Index of the first checkpoint at or past `EARLY_SHARE` of training."""
    return int(np.argmax(np.asarray(epochs) >= EARLY_SHARE * epochs[-1]))
