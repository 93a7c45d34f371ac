"""Total variation: the largest advantage any attacker can have at equal priors (Le Cam).

It is exact for equal covariances, where it is `2 Phi(d/2) - 1` with d the Mahalanobis distance, and wherever
one axis carries all the difference, as the two densities cross at the roots of a quadratic. Otherwise it is a
Monte Carlo mean of `|p1 - p0| / (p1 + p0)` over both.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from leakscope.array_types import FloatArray
from leakscope.leakage.gaussian import Gaussian, common_axes
from leakscope.leakage.mixture import Estimate, monte_carlo, one_axis

_ROUNDING = 1e-14


def total_variation(first: Gaussian, second: Gaussian, draws: int = 8192, seed: int = 0) -> Estimate:
    """Largest |P(event | first) - P(event | second)|, in [0, 1]; (...).

    Args:
        first: the Gaussian of trainings with the record.
        second: the Gaussian of trainings without it.
        draws: of the Monte Carlo mean, from each of the two; even.
        seed: of the draws.
    """
    axes = common_axes(first, second)
    single, shape = one_axis(axes), axes.separate.shape
    value, error = np.ones(shape), np.zeros(shape)  # of perfectly separable pairs
    on_one = single.applies & ~axes.separate
    if on_one.any():
        chosen = single.take(on_one)
        value[on_one] = one_dimensional(chosen.difference, chosen.first, chosen.second)
        error[on_one] = _ROUNDING
    several = ~single.applies & ~axes.separate
    if several.any():
        estimate = monte_carlo(axes.take(several), _weight_of_difference, 0.5, draws, seed)
        value[several], error[several] = estimate
    return Estimate(np.clip(value, 0.0, 1.0), error)


def one_dimensional(difference: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
    """Exact, between N(difference, first) and N(0, second); variances above 0; elementwise.

    The log ratio is `a x^2 + b x + c`; its roots are taken in the form that loses no digits as a -> 0,
    where one of them goes to infinity.
    """
    a = (1 / second - 1 / first) / 2
    b = difference / first
    c = (np.log(second / first) - difference**2 / first) / 2
    discriminant = difference**2 / (first * second) + (1 / second - 1 / first) * np.log(first / second)
    q = -(b + np.copysign(np.sqrt(np.maximum(discriminant, 0.0)), b)) / 2
    with np.errstate(divide="ignore", invalid="ignore"):  # a = 0: a root at infinity; q = 0: no difference
        roots = np.stack([q / a, c / q])
    at_first = special.ndtr((roots - difference) / np.sqrt(first))
    at_second = special.ndtr(roots / np.sqrt(second))
    apart = (at_first[0] - at_second[0]) - (at_first[1] - at_second[1])
    return np.where(q == 0, 0.0, np.minimum(np.abs(apart), 1.0))


def _weight_of_difference(log_ratio: FloatArray) -> FloatArray:
    return np.abs(np.tanh(log_ratio / 2))  # |p1 - p0| / (p1 + p0)
