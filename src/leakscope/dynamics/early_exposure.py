"""How early are the finally vulnerable records in the corner? Recall and precision of an early list.

Whoever watches a training run can act on the records that are vulnerable at a checkpoint. Recall is the share
of the finally vulnerable records that such a list contains; precision is the share of the list that is still
vulnerable at the end. Both are 1 at the last checkpoint by definition.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from leakscope.array_types import BoolArray, FloatArray

RECALL = 0.7
"""The recall that `first_epoch` reports; the publication reaches over 70% by epoch 150 of 400."""


class EarlyExposure(NamedTuple):
    """Recall and precision of each checkpoint's vulnerable records with respect to the last checkpoint's.

    Attributes:
        recall: float64 (checkpoints,); NaN where no record is vulnerable at the end.
        precision: float64 (checkpoints,); NaN where no record is vulnerable at the checkpoint.
        first_epoch: the first epoch with a recall of at least 70%; NaN where no recall is defined.
        reason: why a value is NaN; empty where none is.
    """

    recall: FloatArray
    precision: FloatArray
    first_epoch: float
    reason: str = ""


def early_exposure(vulnerable: BoolArray, epochs: tuple[int, ...]) -> EarlyExposure:
    """Each checkpoint's vulnerable records as a forecast of the last checkpoint's.

    Args:
        vulnerable: bool (checkpoints, records).
        epochs: epochs of the checkpoints.
    """
    n_both = (vulnerable & vulnerable[-1]).sum(axis=1)
    n_now, n_finally = vulnerable.sum(axis=1), int(vulnerable[-1].sum())
    recall, precision = np.full((2, len(epochs)), np.nan)
    np.divide(n_both, n_now, out=precision, where=n_now > 0)
    if not n_finally:
        return EarlyExposure(recall, precision, float("nan"), "no record is vulnerable at the end")
    recall = n_both / n_finally
    first = int(np.argmax(recall >= RECALL))
    reason = "" if n_now.all() else "no record is vulnerable at some checkpoints"
    return EarlyExposure(recall, precision, float(epochs[first]), reason)


def first_exposed_epoch(vulnerable: BoolArray, epochs: tuple[int, ...]) -> FloatArray:
    """Epoch of the first checkpoint at which each record is vulnerable; (records,), NaN means never."""
    first = np.array(epochs, dtype=np.float64)[np.argmax(vulnerable, axis=0)]
    return np.where(vulnerable.any(axis=0), first, np.nan)
