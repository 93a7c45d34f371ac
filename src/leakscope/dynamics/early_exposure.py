"""How early are the finally vulnerable there? Recall and precision of an early list.

Whoever watches training could act on the records in the vulnerable corner at some checkpoint. Recall says
how many of those vulnerable at the end such a list already holds; precision, how many of the list are
still vulnerable at the end. Both are 1 at the last checkpoint by definition.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from leakscope.array_types import BoolArray, FloatArray

PASSED = 0.7
"""The published finding is over 70% by epoch 150 of 400."""


class EarlyExposure(NamedTuple):
    """Recall and precision of each checkpoint's vulnerable records against the last one's.

    Attributes:
        recall: float64 (checkpoints,); NaN when nobody is vulnerable at the end.
        precision: float64 (checkpoints,); NaN when nobody is vulnerable at the checkpoint.
        first_epoch: the first epoch whose recall is at least 70%; NaN when nobody is vulnerable at the end.
        reason: why something is NaN; empty otherwise.
    """

    recall: FloatArray
    precision: FloatArray
    first_epoch: float
    reason: str = ""


def early_exposure(vulnerable: BoolArray, epochs: tuple[int, ...]) -> EarlyExposure:
    """Each checkpoint's vulnerable records as a forecast of the last one's.

    Args:
        vulnerable: bool (checkpoints, records).
        epochs: of the checkpoints.
    """
    n_both = (vulnerable & vulnerable[-1]).sum(axis=1)
    n_now, n_finally = vulnerable.sum(axis=1), int(vulnerable[-1].sum())
    recall, precision = np.full((2, len(epochs)), np.nan)
    np.divide(n_both, n_now, out=precision, where=n_now > 0)
    if not n_finally:
        return EarlyExposure(recall, precision, float("nan"), "no record is vulnerable at the end")
    recall = n_both / n_finally
    first = int(np.argmax(recall >= PASSED))
    reason = "" if n_now.all() else "no record is vulnerable at some checkpoints"
    return EarlyExposure(recall, precision, float(epochs[first]), reason)


def first_exposed_epoch(vulnerable: BoolArray, epochs: tuple[int, ...]) -> FloatArray:
    """The epoch of the first checkpoint where each record is vulnerable; (records,), NaN for never."""
    first = np.array(epochs, dtype=np.float64)[np.argmax(vulnerable, axis=0)]
    return np.where(vulnerable.any(axis=0), first, np.nan)
