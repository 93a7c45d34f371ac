"""The KL without assuming a Gaussian: by distances to nearest neighbours (Wang, Kulkarni and Verdu 2009).

`KL(P||Q) ~ p mean_i ln(distance to the k-th neighbour in Q / in P) + ln(n_Q / (n_P - 1))`, on samples
whitened by their pooled covariance: the KL does not change, the neighbourhoods become round. Consistent for
any densities, but blurred beyond a few dimensions. Beside the Gaussian value it shows when that fit is poor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree

from leakscope.array_types import FloatArray
from leakscope.errors import InputError

_N_DEALS = 4
_NO_VARIANCE = 1e-12  # share of the largest variance below which a direction is left out


class NearestNeighbour(NamedTuple):
    """Symmetric KL in nats by neighbours, its null taken off, and that null; (...) each.

    The null is the same estimate with all trainings mixed and dealt out again, where the truth is 0.
    """

    value: FloatArray
    null: FloatArray


def kl_nearest_neighbour(inside: npt.ArrayLike, outside: npt.ArrayLike, k: int = 5) -> FloatArray:
    """KL(inside || outside) in nats; (...). Where nothing leaks it scatters around 0, on both sides.

    Equal values count as closer than any others, alike on both sides; a direction in which nothing varies
    is left out, and the KL is 0 when none is left.

    Args:
        inside: float (..., K, p), p best at most about 6.
        outside: float (..., K', p).
        k: which neighbour, below K and at most K'; more is steadier and blurs more.
    """
    return _by_record(lambda a, b: _one_kl(a, b, k), *_checked(inside, outside, k))


def symmetric_nearest_neighbour(
    inside: npt.ArrayLike, outside: npt.ArrayLike, k: int = 5, seed: int = 0
) -> NearestNeighbour:
    """Both directions together, with the mean of four nulls taken off; arguments as above.

    Args:
        inside: float (..., K, p).
        outside: float (..., K', p).
        k: which neighbour.
        seed: of the nulls' deals, the same for every record.
    """
    first, second = _checked(inside, outside, k)
    found = _by_record(lambda a, b: _both_ways(a, b, k), first, second)
    pooled = np.concatenate([first, second], axis=-2)
    n_first, rng = first.shape[-2], np.random.default_rng(seed)
    deals = [pooled[..., rng.permutation(pooled.shape[-2]), :] for _ in range(_N_DEALS)]
    split = [(dealt[..., :n_first, :], dealt[..., n_first:, :]) for dealt in deals]
    null = np.mean([_by_record(lambda a, b: _both_ways(a, b, k), *sides) for sides in split], axis=0)
    return NearestNeighbour(found - null, null)


def _checked(inside: npt.ArrayLike, outside: npt.ArrayLike, k: int) -> tuple[FloatArray, FloatArray]:
    first, second = np.asarray(inside, dtype=np.float64), np.asarray(outside, dtype=np.float64)
    shapes = f"inside {first.shape} and outside {second.shape}"
    if first.ndim < 2 or first.shape[:-2] != second.shape[:-2] or first.shape[-1] != second.shape[-1]:
        raise InputError(f"{shapes}: must be (..., K, p) with equal leading axes and p")
    if not 1 <= k < min(first.shape[-2], second.shape[-2]):
        raise InputError(f"k={k}: must be at least 1 and below the number of trainings of {shapes}")
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise InputError(f"{shapes}: values are NaN or infinite; drop those trainings")
    return first, second


def _by_record(
    estimate: Callable[[FloatArray, FloatArray], float], first: FloatArray, second: FloatArray
) -> FloatArray:
    flat = [side.reshape(-1, *side.shape[-2:]) for side in (first, second)]
    found = [estimate(a, b) for a, b in zip(*flat, strict=True)]
    return np.array(found, dtype=np.float64).reshape(first.shape[:-2])


def _both_ways(first: FloatArray, second: FloatArray, k: int) -> float:
    return _one_kl(first, second, k) + _one_kl(second, first, k)


def _one_kl(first: FloatArray, second: FloatArray, k: int) -> float:
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


def _whitened(first: FloatArray, second: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Both in the units of their pooled covariance, directions without variance left out."""
    pooled = np.concatenate([first, second])
    centre, scale = pooled.mean(axis=0), pooled.std(axis=0)
    still = scale <= _NO_VARIANCE * np.abs(centre)
    units = np.where(still, 1.0, scale)
    centred = (pooled - centre) / units * ~still
    roots, vectors = np.linalg.eigh(centred.T @ centred / len(pooled))
    varies = roots > _NO_VARIANCE * max(float(roots[-1]), _NO_VARIANCE)
    white = centred @ (vectors[:, varies] / np.sqrt(roots[varies]))
    return white[: len(first)], white[len(first) :]
