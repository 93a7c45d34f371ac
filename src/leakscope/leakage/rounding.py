"""Parameters at finite precision: rounded to a grid, and what the rounded ones reveal.

Theorem 3 of Farokhi and Kaafar (2020) is about parameters in a finite set. Rounding is not noise: once every
parameter rounds to the same point of the grid, exactly nothing is revealed, while noise of the same size
still lets a little through.

Where the rounded parameters take few distinct values, no Gaussian is needed, and none would do: a parameter
that rounds to 0 in all trainings of one side looks perfectly separable to it. The divergence is then that of
the two distributions over distinct vectors, with half a count added to each (Krichevsky and Trofimov 1981),
so that a vector seen on one side only has a finite share. The floor is the same between two halves of one
condition.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from leakscope.array_types import FloatArray, IntArray
from leakscope.errors import InputError

_MOST_CELLS_PER_TRAINING = 0.1
"""With more distinct vectors than this share of a side's trainings, counts are too small."""
_ADDED = 0.5


class CountedLeakage(NamedTuple):
    """Symmetric KL divergence of rounded parameters from counts, in nats.

    Attributes:
        plug_in: between parameters with and without the record; NaN where there are too many distinct
            vectors.
        floor: the same between the halves of one condition.
    """

    plug_in: float
    floor: float


NOT_COUNTED = CountedLeakage(np.nan, np.nan)


def rounded(theta: FloatArray, grid: float) -> FloatArray:
    """Every parameter at the nearest multiple of `grid`; unchanged for a grid of 0."""
    if not grid >= 0:
        raise InputError(f"grid={grid}: a step must be 0 or more")
    return theta if grid == 0 else np.round(theta / grid) * grid


def counted_leakage(inside: FloatArray, outside: FloatArray) -> CountedLeakage:
    """From rounded parameters (2, K, p) of two independent halves, with and without the record."""
    both = np.concatenate([inside, outside])  # (4, K, p)
    n_trainings, p = 2 * both.shape[1], both.shape[2]
    cells = np.unique(both.reshape(-1, p), axis=0, return_inverse=True)[1].reshape(4, -1)
    n_cells = int(cells.max()) + 1
    if n_cells > max(_MOST_CELLS_PER_TRAINING * n_trainings, 1):
        return NOT_COUNTED
    in_0, in_1, out_0, out_1 = (_shares(half, n_cells) for half in cells)
    return CountedLeakage(
        plug_in=(_symmetric(in_0, out_1) + _symmetric(in_1, out_0)) / 2,
        floor=(_symmetric(in_0, in_1) + _symmetric(out_0, out_1)) / 2,
    )


def _shares(cells: IntArray, n_cells: int) -> FloatArray:
    counts = np.bincount(cells, minlength=n_cells) + _ADDED
    return np.asarray(counts / counts.sum())


def _symmetric(first: FloatArray, second: FloatArray) -> float:
    return float(((first - second) * np.log(first / second)).sum())
