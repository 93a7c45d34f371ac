"""Cells of the plane, how records move between them, and the probability to become vulnerable.

The grid cuts FPR and TPR into equal parts, by default thirds. *Vulnerable* is the corner where an attacker
is mostly right: the lowest part of FPR and the highest of TPR. Records move between cells from one
checkpoint to the next; the probability to enter is that of a record outside the corner to be in it at
the next checkpoint. Checkpoints twice as far apart see about twice as many enter, so it is also given
an epoch, as the constant rate that would let as many in: `1 - (1 - p)^(1 / epochs between)`.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.dynamics.plane import cells

SIDE = 3


def vulnerable_cell(side: int = SIDE) -> int:
    """The cell of the lowest FPR and the highest TPR."""
    return side - 1


def is_vulnerable(states: FloatArray, side: int = SIDE) -> BoolArray:
    """Which states are in the vulnerable corner; bool (checkpoints, records)."""
    return np.asarray(cells(states, side) == vulnerable_cell(side))


def cell_names(side: int = SIDE) -> list[str]:
    """Every cell in words, in the order of their numbers: "FPR 0-33%, TPR 67-100%"."""
    ends = [f"{100 * k / side:.0f}" for k in range(side + 1)]
    parts = [f"{low}-{high}%" for low, high in pairwise(ends)]
    return [f"FPR {fpr}, TPR {tpr}" for fpr in parts for tpr in parts]


def transition_counts(states: FloatArray, side: int = SIDE) -> IntArray:
    """Records that went from one cell to another; int64 (checkpoints - 1, from, to)."""
    at = cells(states, side)  # (checkpoints, records)
    n_cells = side * side
    moves = at[:-1] * n_cells + at[1:]
    counts = [np.bincount(step, minlength=n_cells**2).reshape(n_cells, n_cells) for step in moves]
    return np.array(counts, dtype=np.int64).reshape(-1, n_cells, n_cells)


def transition_matrix(counts: IntArray) -> FloatArray:
    """Rows that add up to 1; NaN where no record started. (..., from, to) of the counts' shape."""
    started = counts.sum(axis=-1, keepdims=True)
    shares = np.full(counts.shape, np.nan)
    np.divide(counts, started, out=shares, where=started > 0)
    return shares


def entry_probability(vulnerable: BoolArray) -> FloatArray:
    """Share of the records outside the corner that are in it at the next checkpoint; (checkpoints - 1,).

    Args:
        vulnerable: bool (checkpoints, records).

    Returns:
        NaN where every record was in the corner already.
    """
    outside = ~vulnerable[:-1]
    n_outside = outside.sum(axis=1)
    shares = np.full(len(n_outside), np.nan)
    np.divide((outside & vulnerable[1:]).sum(axis=1), n_outside, out=shares, where=n_outside > 0)
    return shares


def per_epoch(probability: FloatArray, epochs: tuple[int, ...]) -> FloatArray:
    """The constant probability an epoch that gives these probabilities between checkpoints."""
    rate: FloatArray = 1 - (1 - probability) ** (1 / np.diff(epochs))
    return rate
