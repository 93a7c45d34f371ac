"""Gradient norms early in training: EL2N and GraNd (Paul, Ganguli and Dziugaite 2021).

EL2N is the norm of the loss gradient with respect to the logits, `||softmax(z) - onehot(y)||`, averaged over
models trained on the record, early in training. GraNd is the gradient norm with respect to all weights; its
last-layer form is EL2N times the norm of the last hidden layer. `train.gradient_norms` computes both.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from leakscope.array_types import AnyArray, BoolArray, FloatArray
from leakscope.hardness.in_out_mean import side_mean

EARLY_SHARE = 0.1
"""Share of training after which the norms are computed; in the paper, epoch 20 of 200."""


def el2n(logits: AnyArray, labels: AnyArray) -> FloatArray:
    """`||softmax(z) - onehot(y)||` for each output, in [0, sqrt(2)]; high means hard.

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
    """Mean norm over the models trained on the record, at the first checkpoint after a tenth of training.

    Args:
        norms: float (models, checkpoints, records): EL2N or GraNd of each model at each checkpoint.
        in_mask: bool (models, records).
        epochs: epochs of the checkpoints; the last is the end of training.

    Returns:
        float64 (records,); NaN for a record that no model was trained on.
    """
    return side_mean(norms[:, early_checkpoint(epochs)], in_mask)


def early_checkpoint(epochs: tuple[int, ...]) -> int:
    """Index of the first checkpoint at or after `EARLY_SHARE` of training."""
    return int(np.argmax(np.asarray(epochs) >= EARLY_SHARE * epochs[-1]))
