"""Leakage of one output by nearest neighbors: without a Gaussian, with a floor and a bias of its own.

A KL divergence between samples is estimated from distances (Wang, Kulkarni and Verdu 2009). Nothing is
fitted, so heavy tails and several modes do not mislead it; but with K samples it saturates: it cannot see a
divergence of hundreds of nats. Two numbers say how far to trust it. The floor is the same estimate between
two halves of one condition, where the truth is 0. `if_gaussian` is what the same estimator reports on K draws
from the fitted Gaussians: its distance from the divergence of these Gaussians is the estimator's bias at this
K, and its distance from the estimate on the real outputs is what the Gaussian fit gets wrong.
"""

from __future__ import annotations

from hashlib import sha256
from math import isqrt
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from leakscope.array_types import FloatArray

_MOST_NEIGHBOURS = 5
_LEAST_VARIANCE = 1e-12
_DRAWS, _MOST_REPEATS = 200, 12  # simulated outputs for `if_gaussian`, and repeats of as many as there are


class NeighbourLeakage(NamedTuple):
    """Symmetric KL divergence of outputs by nearest neighbors, in nats.

    Attributes:
        plug_in: between outputs with and without the record.
        floor: the same estimate between the halves of one condition.
        if_gaussian: floor-corrected estimate on outputs drawn from the fitted Gaussians, as many as there
            are.
    """

    plug_in: float
    floor: float
    if_gaussian: float


NOT_MEASURED = NeighbourLeakage(np.nan, np.nan, np.nan)


def neighbour_leakage(inside: FloatArray, outside: FloatArray) -> NeighbourLeakage:
    """From outputs (2, K) of two independent halves, trained with and without the record."""
    return NeighbourLeakage(*_crossed(inside, outside), _if_gaussian(inside, outside))


def kl_nearest_neighbour(first: FloatArray, second: FloatArray) -> float:
    """KL(first || second) of outputs (K,) in nats, without a Gaussian assumption.

    The mean of ln(distance to the k-th neighbor in `second` / in `first`), plus ln(n / (n - 1)), with k the
    root of the number of outputs, at most 5. It scatters around 0 without leakage. Equal values count as
    closer than any others, alike on both sides.
    """
    white = _standardised(np.concatenate([first, second])[:, None])
    if white is None:
        return 0.0
    k = min(_MOST_NEIGHBOURS, isqrt(min(len(first), len(second))))
    white_first, white_second = white[: len(first)], white[len(first) :]
    own = cKDTree(white_first).query(white_first, k=[k + 1])[0][:, 0]  # the nearest is itself
    other = cKDTree(white_second).query(white_first, k=[k])[0][:, 0]
    positive = np.concatenate([own[own > 0], other[other > 0]])
    smallest = float(positive.min()) if len(positive) else 1.0
    logs = np.log(np.maximum(other, smallest) / np.maximum(own, smallest))
    return float(logs.mean() + np.log(len(second) / (len(first) - 1)))


def _crossed(inside: FloatArray, outside: FloatArray) -> tuple[float, float]:
    """IN of one half against OUT of the other, and the floor: the halves of one condition."""
    plug_in = _both_ways([(inside[0], outside[1]), (inside[1], outside[0])])
    floor = _both_ways([(inside[0], inside[1]), (outside[0], outside[1])])
    return plug_in / 2, floor / 2


def _both_ways(pairs: list[tuple[FloatArray, FloatArray]]) -> float:
    ordered = [*pairs, *(pair[::-1] for pair in pairs)]
    return sum(kl_nearest_neighbour(*pair) for pair in ordered)


def _if_gaussian(inside: FloatArray, outside: FloatArray) -> float:
    """Mean corrected estimate on outputs drawn from the Gaussians of all outputs of each side.

    The seed comes from the outputs: records that share draws would share their error, and a mean over records
    would not reduce it.
    """
    seed = int.from_bytes(sha256(np.ascontiguousarray(inside).tobytes()).digest()[:8], "little")
    rng, k = np.random.default_rng(seed), inside.shape[1]
    values = []
    for _ in range(min(-(-_DRAWS // k), _MOST_REPEATS)):
        drawn = [s.mean() + s.std(ddof=1) * rng.standard_normal((2, k)) for s in (inside, outside)]
        plug_in, floor = _crossed(*drawn)
        values.append(plug_in - floor)
    return float(np.mean(values))


def _standardised(pooled: FloatArray) -> FloatArray | None:
    """Values (n, 1) in units of their standard deviation; None where nothing varies."""
    centre, scale = pooled.mean(axis=0), pooled.std(axis=0)
    if scale[0] <= _LEAST_VARIANCE * np.abs(centre[0]):
        return None
    centred = (pooled - centre) / scale
    standardised: FloatArray = centred @ (1 / np.sqrt(centred.T @ centred / len(pooled)))
    return standardised
