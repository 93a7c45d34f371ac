"""The KL divergence without a Gaussian assumption: by distances to nearest neighbours.

Wang, Kulkarni and Verdu (2009): `KL(P||Q) ~ p mean_i ln(distance to the k-th neighbour in Q / in P) +
ln(n_Q / (n_P - 1))`. Samples are whitened by their pooled covariance, which leaves the divergence unchanged
and makes neighbourhoods round. The estimate is consistent for any densities but blurs beyond a few
dimensions. Where it is far from the Gaussian value, the Gaussian fit is poor.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree

from leakscope.array_types import FloatArray
from leakscope.errors import InputError

_NO_VARIANCE = 1e-12  # share of the largest variance below which a direction is dropped


def kl_nearest_neighbour(inside: npt.ArrayLike, outside: npt.ArrayLike, k: int = 5) -> float:
    """KL(inside || outside) in nats. Without leakage it scatters around 0, on both sides.

    Equal values count as closer than any others, alike on both sides. A direction in which nothing varies
    is dropped; the divergence is 0 when none is left.

    Args:
        inside: float (K, p), p at most about 6.
        outside: float (K', p).
        k: which neighbour, below K and K'; a larger one is steadier and blurs more.
    """
    first, second = _checked(inside, outside, k)
    white_first, white_second = _whitened(first, second)
    p = white_first.shape[1]
    if p == 0:
        return 0.0
    own = cKDTree(white_first).query(white_first, k=[k + 1])[0][:, 0]  # the nearest is itself
    other = cKDTree(white_second).query(white_first, k=[k])[0][:, 0]
    positive = np.concatenate([own[own > 0], other[other > 0]])
    smallest = float(positive.min()) if len(positive) else 1.0
    logs = np.log(np.maximum(other, smallest) / np.maximum(own, smallest))
    return float(p * logs.mean() + np.log(len(second) / (len(first) - 1)))


def _checked(inside: npt.ArrayLike, outside: npt.ArrayLike, k: int) -> tuple[FloatArray, FloatArray]:
    first, second = np.asarray(inside, dtype=np.float64), np.asarray(outside, dtype=np.float64)
    shapes = f"inside {first.shape} and outside {second.shape}"
    if first.ndim != 2 or second.ndim != 2 or first.shape[1] != second.shape[1]:
        raise InputError(f"{shapes}: must be (K, p) with equal p")
    if not 1 <= k < min(len(first), len(second)):
        raise InputError(f"k={k}: must be at least 1 and below the number of trainings of {shapes}")
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise InputError(f"{shapes}: values are NaN or infinite; drop those trainings")
    return first, second


def _whitened(first: FloatArray, second: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Both in the units of their pooled covariance, directions without variance dropped."""
    pooled = np.concatenate([first, second])
    centre, scale = pooled.mean(axis=0), pooled.std(axis=0)
    still = scale <= _NO_VARIANCE * np.abs(centre)
    units = np.where(still, 1.0, scale)
    centred = (pooled - centre) / units * ~still
    roots, vectors = np.linalg.eigh(centred.T @ centred / len(pooled))
    varies = roots > _NO_VARIANCE * max(float(roots[-1]), _NO_VARIANCE)
    white = centred @ (vectors[:, varies] / np.sqrt(roots[varies]))
    return white[: len(first)], white[len(first) :]
