"""The bias of an estimated Kullback-Leibler (KL) divergence, and leakage without it.

Two independent K-sample fits of the *same* p-dimensional Gaussian differ. Their KL divergence is about
`p(p+3)/(2K)` in each direction, so a plug-in estimate of leakage never reaches zero. That law holds for
Gaussian samples without added noise. What always holds is a null: the same estimate between two independent
halves of *one* condition, with the same K, tails and noise. `crossed` measures this floor and subtracts it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from leakscope.array_types import FloatArray
from leakscope.errors import InputError
from leakscope.leakage.gaussian import Gaussian, symmetric_kl


class Crossed(NamedTuple):
    """Symmetric KL divergence from crossed trainings, in nats; (...) each.

    Attributes:
        plug_in: the estimate before correction.
        floor: the same estimate between halves of one condition, where the truth is 0.
        corrected: their difference; inf where either is.
    """

    plug_in: FloatArray
    floor: FloatArray
    corrected: FloatArray

    def without_inverse_excess(self, p: int, k: int) -> Crossed:
        """With the corrected leakage divided by (K-1)/(K-p-2), where K > p + 2.

        Inverses of sample covariances are too large by that factor, and so is what exceeds the floor. This
        holds without added noise; with noise the factor is nearer to 1.
        """
        factor = (k - p - 2) / (k - 1) if k > p + 2 else 1.0
        return self._replace(corrected=self.corrected * factor)


def analytic_bias(p: int, k: int) -> float:
    """Expected KL divergence, one direction, between two K-sample fits of one Gaussian: p(p+3)/(2K), in nats.

    To first order in 1/K, without added noise or shrinkage. Both directions together: p(p+3)/K.
    """
    if not p > 0 or not k >= 2:
        raise InputError(f"p={p}, k={k}: needs at least one dimension and two trainings")
    return p * (p + 3) / (2 * k)


def crossed(inside: Gaussian, outside: Gaussian) -> Crossed:
    """Leakage from fits of two independent halves, with and without the record; means (..., 2, p).

    IN of one half is compared with OUT of the other, which are independent; IN with IN and OUT with OUT of
    the two halves give the floor.
    """
    plug_in = (_between(inside, 0, outside, 1) + _between(inside, 1, outside, 0)) / 2
    floor = (_between(inside, 0, inside, 1) + _between(outside, 0, outside, 1)) / 2
    is_infinite = np.isinf(plug_in) | np.isinf(floor)
    above = np.subtract(plug_in, floor, out=np.full_like(plug_in, np.inf), where=~is_infinite)
    return Crossed(plug_in, floor, above)


def half_of(halves: Gaussian, half: int) -> Gaussian:
    """One of two halves: the axis before the last of means is 2."""
    return Gaussian(halves.mean[..., half, :], halves.covariance[..., half, :, :])


def _between(first: Gaussian, first_half: int, second: Gaussian, second_half: int) -> FloatArray:
    return symmetric_kl(half_of(first, first_half), half_of(second, second_half))
