"""Mutual information and total variation of two Gaussians, and the inequalities between them.

The attacker sees theta, which comes from one of two Gaussians with equal probability: `first`, of trainings
with the record, or `second`, of trainings without it. Two numbers say how much theta reveals:

- rho_MI, the mutual information between theta and membership. It is at most ln 2 nats, one bit, and at most a
  quarter of the symmetric KL divergence (Farokhi and Kaafar 2020, Corollary 1).
- Total variation (TV), the largest advantage any attacker can have (Le Cam), with

    TV <= min(Pinsker, Bretagnolle-Huber) <= sqrt(rho_KL) / 2

Pinsker's quantity is `sqrt(KL / 2)` (Massart 2007), that of Bretagnolle and Huber (1979) is
`sqrt(1 - exp(-KL))`, both with the smaller direction of the KL divergence. The last one is Theorem 1 of
Farokhi and Kaafar (2020), read as a limit on the advantage. None is clipped at 1.

All of this is about two given Gaussians. If they are fits, an attacker who sees the real release can exceed
their total variation: a fit limits nothing where it is wrong.

Along common axes (`gaussian.common_axes`) the log ratio of the two densities is a sum of one-dimensional
ones. Where one axis carries all the difference (p = 1, or equal covariances, where the discriminant direction
does), both numbers are exact or computed by one-dimensional quadrature. Elsewhere they are Monte Carlo means
over antithetic pairs. All records share their draws, so that differences between records are not noise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy

from leakscope.array_types import BoolArray, FloatArray
from leakscope.disk.scratch import blocks
from leakscope.errors import InputError
from leakscope.leakage.gaussian import Axes, Gaussian, common_axes, kl_of_axes, swapped

_EQUAL = 1e-6  # variances this close count as equal; the effect is of the same order
_REACH = 9.0  # standard deviations; beyond lies a probability of 2e-19
_VALUES_AT_ONCE = 200_000  # what a processor's cache holds
_ROUNDING = 1e-14
_ONE_BIT = float(np.log(2))


class Estimate(NamedTuple):
    """Values with their numerical error; (...) each.

    Attributes:
        value: the quantity.
        error: Monte Carlo: half of the 95% interval; quadrature: the change from half as many nodes.
    """

    value: FloatArray
    error: FloatArray


class Chain(NamedTuple):
    """Total variation and what limits it, for each record; (...) each."""

    total_variation: FloatArray
    total_variation_error: FloatArray
    pinsker: FloatArray
    bretagnolle_huber: FloatArray
    farokhi_kaafar: FloatArray


def mutual_information(first: Gaussian, second: Gaussian, draws: int = 8192, seed: int = 0) -> Estimate:
    """Nats that theta reveals about whether it came from `first`, at equal priors; (...).

    Args:
        first: the Gaussian of trainings with the record.
        second: the Gaussian of trainings without it.
        draws: of the Monte Carlo mean, from each of the two; even.
        seed: of the draws.
    """
    axes = common_axes(first, second)
    return _evaluated(axes, _ONE_BIT, information_on_one_axis, _entropy_lost, draws, seed)


def information_at_prior(
    first: Gaussian, second: Gaussian, prior: float, draws: int = 8192, seed: int = 0
) -> Estimate:
    """Nats that theta reveals about membership where a share `prior` of all records are members; (...).

    The mean over both Gaussians in equal parts of `2 (a1 p1 ln(p1/m) + a0 p0 ln(p0/m)) / (p1 + p0)` with m
    the
    mixture: never negative and bounded, so the Monte Carlo mean stays precise at a prior of 1 in 10,000.
    """
    if not 0 < prior < 1:
        raise InputError(f"prior={prior}: must be between 0 and 1")
    axes = common_axes(first, second)
    most = membership_entropy(prior)
    value, error = np.full(axes.separate.shape, most), np.zeros(axes.separate.shape)
    apart = ~axes.separate
    if apart.any():
        value[apart], error[apart] = _monte_carlo(
            axes.take(apart), lambda ratio: _weighted_information(ratio, prior), draws, seed
        )
    return Estimate(np.clip(value, 0.0, most), error)


def membership_entropy(prior: float) -> float:
    """Nats of not knowing a membership of this probability: the most that theta can reveal."""
    return float(-prior * np.log(prior) - (1 - prior) * np.log1p(-prior))


def total_variation(first: Gaussian, second: Gaussian, draws: int = 8192, seed: int = 0) -> Estimate:
    """Largest |P(event | first) - P(event | second)|, in [0, 1]; (...). Arguments as above."""

    def exact(*pair: FloatArray) -> Estimate:
        value = variation_on_one_axis(*pair)
        return Estimate(value, np.full_like(value, _ROUNDING))

    return _evaluated(common_axes(first, second), 1.0, exact, _weight_of_difference, draws, seed)


def chain(first: Gaussian, second: Gaussian, draws: int = 8192, seed: int = 0) -> Chain:
    """Total variation and what limits it; `draws` and `seed` are those of the total variation."""
    axes = common_axes(first, second)
    forward, backward = kl_of_axes(axes), kl_of_axes(swapped(axes))
    smaller = np.minimum(forward, backward)
    return Chain(
        *total_variation(first, second, draws, seed),
        pinsker=np.sqrt(smaller / 2),
        bretagnolle_huber=np.sqrt(-np.expm1(-smaller)),
        farokhi_kaafar=np.sqrt(forward + backward) / 2,
    )


def information_on_one_axis(
    difference: FloatArray, first: FloatArray, second: FloatArray, n_nodes: int = 201
) -> Estimate:
    """Nats between N(difference, first) and N(0, second); variances above 0; (records,) each.

    They are `ln 2 - E[h(l) (1 + exp(-l))] / 2` over the *narrower* component alone, where l are the log-odds
    of membership given theta and h is the entropy that remains (the ratio of the densities accounts for the
    other component). That integrand is smooth in units of the narrower component whatever the two variances,
    so the trapezoid rule converges exponentially: 25 nodes are within 1e-5 nats.

    `n_nodes` is one more than a multiple of 4, so that every other node is a rule too.
    """
    nodes = np.linspace(-_REACH, _REACH, n_nodes)
    density = np.exp(-(nodes**2) / 2)
    coarse = np.where(np.arange(n_nodes) % 2 == 0, density, 0.0)
    weights = np.stack([density / density.sum(), coarse / coarse.sum()], axis=1)  # (nodes, 2)
    narrow, wide = np.minimum(first, second), np.maximum(first, second)
    means = np.empty((len(difference), 2))
    at_once = max(_VALUES_AT_ONCE // n_nodes, 1)
    for rows in blocks(len(means), at_once):
        d, v1, v0 = (v[rows, None] for v in (difference, narrow, wide))
        means[rows] = _entropy_left(_log_ratio(d + np.sqrt(v1) * nodes, d, v1, v0)) @ weights
    fine, rough = np.clip(_ONE_BIT - means / 2, 0.0, _ONE_BIT).T
    return Estimate(fine, np.abs(fine - rough) + _ROUNDING)


def variation_on_one_axis(difference: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
    """Exact, between N(difference, first) and N(0, second); variances above 0; elementwise.

    The densities cross where the log ratio `a x^2 + b x + c` is 0; its roots are taken in the form that loses
    no digits as a -> 0, where one of them goes to infinity.
    """
    a = (1 / second - 1 / first) / 2
    b = difference / first
    c = (np.log(second / first) - difference**2 / first) / 2
    discriminant = difference**2 / (first * second) + (1 / second - 1 / first) * np.log(first / second)
    q = -(b + np.copysign(np.sqrt(np.maximum(discriminant, 0.0)), b)) / 2
    with np.errstate(divide="ignore", invalid="ignore"):  # a = 0: a root at infinity; q = 0: no difference
        roots = np.stack([q / a, c / q])
    at_first = scipy.special.ndtr((roots - difference) / np.sqrt(first))
    at_second = scipy.special.ndtr(roots / np.sqrt(second))
    apart = (at_first[0] - at_second[0]) - (at_first[1] - at_second[1])
    return np.where(q == 0, 0.0, np.minimum(np.abs(apart), 1.0))


def _evaluated(
    axes: Axes,
    most: float,
    exact: Callable[[FloatArray, FloatArray, FloatArray], Estimate],
    integrand: Callable[[FloatArray], FloatArray],
    draws: int,
    seed: int,
) -> Estimate:
    """By `exact` where one axis carries the difference, by the mean of `integrand` elsewhere.

    `exact` takes the difference and both variances along the axis, `integrand` the log ratio. `most` is the
    value of perfectly separable pairs, which none exceeds.
    """
    value, error = np.full(axes.separate.shape, most), np.zeros(axes.separate.shape)
    applies, one = _one_axis(axes)
    on_one, several = applies & ~axes.separate, ~applies & ~axes.separate
    if on_one.any():
        value[on_one], error[on_one] = exact(*one.take(on_one)[:3])
    if several.any():
        value[several], error[several] = _monte_carlo(axes.take(several), integrand, draws, seed)
    return Estimate(np.clip(value, 0.0, most), error)


def _one_axis(axes: Axes) -> tuple[BoolArray, Axes]:
    """Where the two Gaussians differ along a single axis only, and that axis; (...) each."""
    unequal = np.abs(axes.first - axes.second) > _EQUAL  # (..., p)
    informative = unequal | (axes.difference != 0)
    equal = ~unequal.any(axis=-1)
    at = np.argmax(informative, axis=-1)[..., None]
    distance = np.sqrt((axes.difference**2).sum(axis=-1))
    difference, first, second = (np.take_along_axis(v, at, axis=-1)[..., 0] for v in axes[:3])
    between = (np.where(equal, 1.0, first), np.where(equal, 1.0, second))
    along = Axes(np.where(equal, distance, difference), *between, axes.separate)
    return equal | (informative.sum(axis=-1) <= 1), along


def _monte_carlo(
    axes: Axes, integrand: Callable[[FloatArray], FloatArray], draws: int, seed: int
) -> Estimate:
    """Mean over both Gaussians; fields of `axes` are (records, p)."""
    if draws < 4 or draws % 2:
        raise InputError(f"draws={draws}: must be an even number of at least 4")
    normal = np.random.default_rng(seed).standard_normal((2, draws // 2, axes.first.shape[-1]))
    weight = np.array([0.5, 0.5])
    value, error = np.empty(len(axes.first)), np.empty(len(axes.first))
    for row, (d, v1, v0) in enumerate(zip(*axes[:3], strict=True)):
        pairs = np.empty((2, draws // 2))
        for side, (centre, variance) in enumerate(((d, v1), (np.zeros_like(d), v0))):
            step = np.sqrt(variance) * normal[side]  # (draws / 2, p)
            ratios = [_log_ratio(x, d, v1, v0).sum(axis=-1) for x in (centre + step, centre - step)]
            pairs[side] = (integrand(ratios[0]) + integrand(ratios[1])) / 2
        value[row] = weight @ pairs.mean(axis=1)
        error[row] = scipy.special.ndtri(0.975) * np.sqrt(
            weight**2 @ pairs.var(axis=1, ddof=1) / (draws // 2)
        )
    return Estimate(value, error)


def _log_ratio(x: FloatArray, difference: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
    """ln(N(x; difference, first) / N(x; 0, second)), elementwise."""
    ratio: FloatArray = (np.log(second / first) + x**2 / second - (x - difference) ** 2 / first) / 2
    return ratio


def _entropy_left(log_odds: FloatArray) -> FloatArray:
    """h(l) (1 + exp(-l)) = ln(1 + exp(-l)) + exp(-l) ln(1 + exp(l)), in nats, without overflow."""
    small = np.exp(-np.abs(log_odds))
    log_sum = np.log1p(small)
    when_likely = log_sum + small * (log_odds + log_sum)
    when_unlikely = log_sum - log_odds + np.divide(log_sum, small, out=np.ones_like(small), where=small > 0)
    return np.where(log_odds > 0, when_likely, when_unlikely)


def _entropy_lost(log_ratio: FloatArray) -> FloatArray:
    """By how much the entropy of membership falls, in nats; bounded, and shrinks with the leakage."""
    size = np.abs(log_ratio)
    lost: FloatArray = _ONE_BIT - np.log1p(np.exp(-size)) - size * scipy.special.expit(-size)
    return lost


def _weighted_information(log_ratio: FloatArray, prior: float) -> FloatArray:
    """2 (a1 p1 ln(p1/m) + a0 p0 ln(p0/m)) / (p1 + p0) from ln(p1/p0), in nats."""
    share = scipy.special.expit(log_ratio)  # p1 / (p1 + p0)
    # ln m - ln p0 and ln m - ln p1, each where it does not overflow.
    over_second = np.logaddexp(np.log1p(-prior), np.log(prior) + log_ratio)
    over_first = over_second - log_ratio
    return np.asarray(-2 * (prior * share * over_first + (1 - prior) * (1 - share) * over_second))


def _weight_of_difference(log_ratio: FloatArray) -> FloatArray:
    return np.abs(np.tanh(log_ratio / 2))  # |p1 - p0| / (p1 + p0)
