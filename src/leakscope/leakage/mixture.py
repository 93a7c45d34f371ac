"""Means over a mixture of two Gaussians of a function of their log ratio, with a stated error.

Along common axes (`gaussian.common_axes`) the log ratio is a sum of one-dimensional ones. Where one axis
carries all the difference (p = 1, or equal covariances, where the discriminant direction does), quantities
are exact or computed by one-dimensional quadrature. Elsewhere they are Monte Carlo means over antithetic
pairs. All records share their draws, so that differences between records are not noise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special

from leakscope.array_types import BoolArray, FloatArray
from leakscope.errors import InputError
from leakscope.leakage.gaussian import Axes

Integrand = Callable[[FloatArray], FloatArray]
"""Elementwise, of ln(first / second)."""

_EQUAL = 1e-6  # variances this close count as equal; the effect is of the same order


class Estimate(NamedTuple):
    """Values with their numerical error; (...) each.

    Attributes:
        value: the quantity.
        error: Monte Carlo: half of the 95% interval; quadrature: the change from half as many nodes.
    """

    value: FloatArray
    error: FloatArray


class OneAxis(NamedTuple):
    """N(difference, first) and N(0, second) where one axis carries all the difference; (...) each."""

    applies: BoolArray
    difference: FloatArray
    first: FloatArray
    second: FloatArray

    def take(self, which: BoolArray) -> OneAxis:
        """The pairs where `which` (...) is true; fields become (records,)."""
        return OneAxis(self.applies[which], self.difference[which], self.first[which], self.second[which])


def one_axis(axes: Axes) -> OneAxis:
    """The single axis along which the two Gaussians differ, where there is only one."""
    unequal = np.abs(axes.first - axes.second) > _EQUAL  # (..., p)
    informative = unequal | (axes.difference != 0)
    equal = ~unequal.any(axis=-1)
    at = np.argmax(informative, axis=-1)[..., None]
    distance = np.sqrt((axes.difference**2).sum(axis=-1))
    chosen = [np.take_along_axis(v, at, axis=-1)[..., 0] for v in axes[:3]]
    return OneAxis(
        equal | (informative.sum(axis=-1) <= 1),
        np.where(equal, distance, chosen[0]),
        np.where(equal, 1.0, chosen[1]),
        np.where(equal, 1.0, chosen[2]),
    )


def log_ratio(x: FloatArray, difference: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
    """ln(N(x; difference, first) / N(x; 0, second)), elementwise."""
    ratio: FloatArray = (np.log(second / first) + x**2 / second - (x - difference) ** 2 / first) / 2
    return ratio


def monte_carlo(axes: Axes, integrand: Integrand, prior: float, draws: int, seed: int) -> Estimate:
    """Mean over the mixture; fields of `axes` are (records, p).

    Args:
        axes: the two Gaussians.
        integrand: of the log ratio.
        prior: weight of the first.
        draws: from each of the two, an even number.
        seed: of the draws, which all records share.
    """
    if draws < 4 or draws % 2:
        raise InputError(f"draws={draws}: must be an even number of at least 4")
    normal = np.random.default_rng(seed).standard_normal((2, draws // 2, axes.first.shape[-1]))
    weight = np.array([prior, 1 - prior])
    value, error = np.empty(len(axes.first)), np.empty(len(axes.first))
    for row, (d, v1, v0) in enumerate(zip(*axes[:3], strict=True)):
        pairs = np.empty((2, draws // 2))
        for side, (centre, variance) in enumerate(((d, v1), (np.zeros_like(d), v0))):
            step = np.sqrt(variance) * normal[side]  # (draws / 2, p)
            ratios = [log_ratio(x, d, v1, v0).sum(axis=-1) for x in (centre + step, centre - step)]
            pairs[side] = (integrand(ratios[0]) + integrand(ratios[1])) / 2
        value[row] = weight @ pairs.mean(axis=1)
        error[row] = special.ndtri(0.975) * np.sqrt(weight**2 @ pairs.var(axis=1, ddof=1) / (draws // 2))
    return Estimate(value, error)
