"""Bounds on an attacker's advantage, from tight to loose.

    measured advantage <= TV <= min(Pinsker, Bretagnolle-Huber) <= sqrt(rho_KL) / 2

Pinsker's bound is `sqrt(KL / 2)` (Massart 2007), that of Bretagnolle and Huber (1979) is
`sqrt(1 - exp(-KL))`, both with the smaller direction of the KL divergence. The last bound is Theorem 1 of
Farokhi and Kaafar (2020), read as a bound on the advantage. A bound above 1 holds trivially; none is clipped.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from leakscope.array_types import FloatArray
from leakscope.leakage.gaussian import Gaussian, common_axes, kl_of_axes, swapped
from leakscope.leakage.total_variation import total_variation


class Chain(NamedTuple):
    """The chain of bounds of each record; (...) each."""

    total_variation: FloatArray
    total_variation_error: FloatArray
    pinsker: FloatArray
    bretagnolle_huber: FloatArray
    farokhi_kaafar: FloatArray


def pinsker(kl: npt.ArrayLike) -> FloatArray:
    """sqrt(KL / 2), KL in nats."""
    return np.sqrt(np.asarray(kl, dtype=np.float64) / 2)


def bretagnolle_huber(kl: npt.ArrayLike) -> FloatArray:
    """sqrt(1 - exp(-KL)), KL in nats; never above 1."""
    return np.sqrt(-np.expm1(-np.asarray(kl, dtype=np.float64)))


def farokhi_kaafar(rho_kl: npt.ArrayLike) -> FloatArray:
    """sqrt(rho_KL) / 2, rho_KL in nats."""
    return np.sqrt(np.asarray(rho_kl, dtype=np.float64)) / 2


def chain(first: Gaussian, second: Gaussian, draws: int = 8192, seed: int = 0) -> Chain:
    """Total variation and its bounds; `draws` and `seed` are those of the total variation."""
    axes = common_axes(first, second)
    forward, backward = kl_of_axes(axes), kl_of_axes(swapped(axes))
    smaller = np.minimum(forward, backward)
    exact = total_variation(first, second, draws, seed)
    return Chain(
        exact.value,
        exact.error,
        pinsker(smaller),
        bretagnolle_huber(smaller),
        farokhi_kaafar(forward + backward),
    )
