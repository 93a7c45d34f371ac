"""Cells of the plane, how records move between them, and the probability of becoming vulnerable.

The grid divides FPR and TPR into equal parts, by default thirds. A record is *vulnerable* in the corner of
the lowest FPR and the highest TPR, where an attacker is usually right. The entry probability is the share of
the records outside the corner that are inside at the next checkpoint; as a share of all records it is given
as well. It grows with the distance between checkpoints, so it is also given per epoch, as the constant
probability with the same effect: `1 - (1 - p)^(1 / epochs between)`.

Whoever watches a training run can act on the records that are vulnerable at a checkpoint, or on those that
ever were until then. Recall is the share of the finally vulnerable records that such a list contains;
precision is the share of the list that is vulnerable at the end. At the last checkpoint both recalls are 1 by
definition, and so is the precision of the first list.

In all functions `vulnerable` is bool (checkpoints, records).
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.dynamics.plane import cells

SIDE = 3
RECALL = 0.7
"""The recall that `first_epoch` reports; the publication reaches over 70% by epoch 150 of 400."""


def vulnerable_cell(side: int = SIDE) -> int:
    """The cell of the lowest FPR and the highest TPR."""
    return side - 1


def is_vulnerable(states: FloatArray, side: int = SIDE) -> BoolArray:
    """Which states are in the vulnerable corner; bool (checkpoints, records)."""
    return np.asarray(cells(states, side) == vulnerable_cell(side))


def cell_names(side: int = SIDE) -> list[str]:
    """Names of all cells in the order of their numbers, like "FPR 0-33%, TPR 67-100%"."""
    ends = [f"{100 * k / side:.0f}" for k in range(side + 1)]
    parts = [f"{low}-{high}%" for low, high in pairwise(ends)]
    return [f"FPR {fpr}, TPR {tpr}" for fpr in parts for tpr in parts]


def transition_counts(states: FloatArray, side: int = SIDE) -> IntArray:
    """Number of records that move from one cell to another; int64 (checkpoints - 1, from, to)."""
    at = cells(states, side)  # (checkpoints, records)
    n_cells = side * side
    moves = at[:-1] * n_cells + at[1:]
    counts = [np.bincount(step, minlength=n_cells**2).reshape(n_cells, n_cells) for step in moves]
    return np.array(counts, dtype=np.int64).reshape(-1, n_cells, n_cells)


def transition_matrix(counts: IntArray) -> FloatArray:
    """Shares of each row, (..., from, to) like the counts; NaN where no record starts in the cell."""
    return _share(counts, counts.sum(axis=-1, keepdims=True))


def entry_probability(vulnerable: BoolArray) -> FloatArray:
    """Share of the records outside the corner that are inside at the next checkpoint; (checkpoints - 1,).

    NaN where every record was already in the corner.
    """
    outside = ~vulnerable[:-1]
    return _share((outside & vulnerable[1:]).sum(axis=1), outside.sum(axis=1))


def entry_of_all(vulnerable: BoolArray) -> FloatArray:
    """Share of all records that are outside and inside at the next checkpoint; (checkpoints - 1,)."""
    share: FloatArray = (~vulnerable[:-1] & vulnerable[1:]).mean(axis=1)
    return share


def ever_vulnerable(vulnerable: BoolArray) -> BoolArray:
    """Which records have been in the corner at a checkpoint or before; bool (checkpoints, records)."""
    return np.asarray(np.logical_or.accumulate(vulnerable, axis=0))


def stay_probabilities(vulnerable: BoolArray) -> tuple[float, float]:
    """Of records in the corner, the share still there at the next checkpoint: newcomers, and all others.

    Newcomers were outside one checkpoint before. In a Markov chain the past does not matter, so both are the
    same. Pooled over training; NaN where there are no such records.
    """
    before, now, after = vulnerable[:-2], vulnerable[1:-1], vulnerable[2:]
    counts = np.array([[(p & now & after).sum(), (p & now).sum()] for p in (~before, before)])
    newcomers, others = _share(counts[:, 0], counts[:, 1])
    return float(newcomers), float(others)


def per_epoch(probability: FloatArray, epochs: tuple[int, ...]) -> FloatArray:
    """The constant probability per epoch that gives these probabilities between checkpoints."""
    rate: FloatArray = 1 - (1 - probability) ** (1 / np.diff(epochs))
    return rate


class EarlyExposure(NamedTuple):
    """Recall and precision of each checkpoint's list with respect to the finally vulnerable records.

    Attributes:
        recall: float64 (checkpoints,); NaN where no record is vulnerable at the end.
        precision: float64 (checkpoints,); NaN where the list is empty.
        first_epoch: the first epoch with a recall of at least 70%; NaN where no recall is defined.
        reason: why a value is NaN; empty where none is.
    """

    recall: FloatArray
    precision: FloatArray
    first_epoch: float
    reason: str = ""


def early_exposure(
    listed: BoolArray, finally_vulnerable: BoolArray, epochs: tuple[int, ...]
) -> EarlyExposure:
    """The list of each checkpoint as a forecast of the finally vulnerable records.

    Args:
        listed: bool (checkpoints, records): the vulnerable records, or those that `ever_vulnerable` returns.
        finally_vulnerable: bool (records,).
        epochs: epochs of the checkpoints.
    """
    n_both = (listed & finally_vulnerable).sum(axis=1)
    n_now, n_finally = listed.sum(axis=1), int(finally_vulnerable.sum())
    recall, precision = _share(n_both, np.full(len(epochs), n_finally)), _share(n_both, n_now)
    if not n_finally:
        return EarlyExposure(recall, precision, float("nan"), "no record is vulnerable at the end")
    first = int(np.argmax(recall >= RECALL))
    reason = "" if n_now.all() else "no record is vulnerable at some checkpoints"
    return EarlyExposure(recall, precision, float(epochs[first]), reason)


def first_exposed_epoch(vulnerable: BoolArray, epochs: tuple[int, ...]) -> FloatArray:
    """Epoch of the first checkpoint at which each record is vulnerable; (records,), NaN means never."""
    first = np.array(epochs, dtype=np.float64)[np.argmax(vulnerable, axis=0)]
    return np.where(vulnerable.any(axis=0), first, np.nan)


def _share(part: IntArray, whole: IntArray) -> FloatArray:
    """part / whole; NaN where the whole is 0."""
    shares: FloatArray = np.full(part.shape, np.nan)
    np.divide(part, whole, out=shares, where=whole > 0)
    return shares
