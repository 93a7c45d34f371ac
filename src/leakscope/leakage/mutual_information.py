"""rho_MI: the mutual information between a release and one membership, for two Gaussians and a prior.

`I(theta; z)` where theta ~ first if z = 1 (probability `prior`) and theta ~ second otherwise. At equal
priors it is at most ln 2 nats, one bit, and at most a quarter of the symmetric KL divergence (Farokhi and
Kaafar 2020, Corollary 1).

On one axis it is `H(prior) - prior E[h(l) (1 + exp(-l))]` over the *narrower* component alone, where l are
the log-odds of z given theta and h is the entropy that remains (the ratio of the densities accounts for the
other component). That integrand is smooth in units of the narrower component whatever the two variances, so
the trapezoid rule converges exponentially. On several axes it is a Monte Carlo mean of the fall in entropy
`H(prior) - h(l)`, which is bounded and shrinks with the leakage, and so does its error.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from leakscope.array_types import FloatArray
from leakscope.errors import InputError
from leakscope.leakage.gaussian import Gaussian, common_axes
from leakscope.leakage.mixture import Estimate, log_ratio, monte_carlo, one_axis

_REACH = 9.0  # standard deviations; beyond lies a probability of 2e-19
_N_NODES = 201
_FEW_NODES = 25
_VALUES_AT_ONCE = 1_000_000
_ROUNDING = 1e-14


def mutual_information(
    first: Gaussian, second: Gaussian, prior: float = 0.5, draws: int = 8192, seed: int = 0
) -> Estimate:
    """Nats that theta reveals about whether it came from `first`; (...).

    Args:
        first: the Gaussian of trainings with the record.
        second: the Gaussian of trainings without it.
        prior: probability of `first`, strictly between 0 and 1.
        draws: of the Monte Carlo mean, from each of the two; even.
        seed: of the draws.
    """
    if not 0 < prior < 1:
        raise InputError(f"prior={prior}: must lie strictly between 0 and 1")
    axes = common_axes(first, second)
    single, shape = one_axis(axes), axes.separate.shape
    value, error = np.full(shape, _entropy(prior)), np.zeros(shape)  # of perfectly separable pairs
    on_one = single.applies & ~axes.separate
    if on_one.any():
        axis = single.take(on_one)
        value[on_one], error[on_one] = one_dimensional(axis.difference, axis.first, axis.second, prior)
    several = ~single.applies & ~axes.separate
    if several.any():
        value[several], error[several] = monte_carlo(
            axes.take(several), lambda ratio: _entropy_lost(ratio, prior), prior, draws, seed
        )
    return Estimate(np.clip(value, 0.0, _entropy(prior)), error)


def one_dimensional(
    difference: FloatArray,
    first: FloatArray,
    second: FloatArray,
    prior: float = 0.5,
    n_nodes: int = _N_NODES,
) -> Estimate:
    """Nats between N(difference, first) and N(0, second); variances above 0; (records,) each.

    Args:
        difference: of the means.
        first: variance of the first.
        second: variance of the second.
        prior: probability of the first.
        n_nodes: of the trapezoid rule; one more than a multiple of 4, so that every other node is a rule too.
    """
    nodes = np.linspace(-_REACH, _REACH, n_nodes)
    density = np.exp(-(nodes**2) / 2)
    coarse = np.where(np.arange(n_nodes) % 2 == 0, density, 0.0)
    weights = np.stack([density / density.sum(), coarse / coarse.sum()], axis=1)  # (nodes, 2)
    narrow, wide = np.minimum(first, second), np.maximum(first, second)
    weight = np.where(first <= second, prior, 1 - prior)  # of the narrower component
    means = np.empty((len(difference), 2))
    at_once = max(_VALUES_AT_ONCE // n_nodes, 1)
    for start in range(0, len(means), at_once):
        rows = slice(start, start + at_once)
        d, v1, v0 = (v[rows, None] for v in (difference, narrow, wide))
        log_odds = log_ratio(d + np.sqrt(v1) * nodes, d, v1, v0) + special.logit(weight[rows, None])
        means[rows] = _entropy_left(log_odds) @ weights
    fine, rough = np.clip(_entropy(prior) - weight[:, None] * means, 0.0, _entropy(prior)).T
    return Estimate(fine, np.abs(fine - rough) + _ROUNDING)


def one_dimensional_fast(difference: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
    """The same at equal priors with fewer nodes: within 1e-5 nats, for millions of records; (records,)."""
    return one_dimensional(difference, first, second, n_nodes=_FEW_NODES).value


def _entropy_left(log_odds: FloatArray) -> FloatArray:
    """h(l) (1 + exp(-l)) = ln(1 + exp(-l)) + exp(-l) ln(1 + exp(l)), in nats, without overflow."""
    small = np.exp(-np.abs(log_odds))
    log_sum = np.log1p(small)
    when_likely = log_sum + small * (log_odds + log_sum)
    when_unlikely = log_sum - log_odds + np.divide(log_sum, small, out=np.ones_like(small), where=small > 0)
    return np.where(log_odds > 0, when_likely, when_unlikely)


def _entropy_lost(log_ratio: FloatArray, prior: float) -> FloatArray:
    """By how much the entropy of z falls, in nats, given ln(first / second)."""
    size = np.abs(log_ratio + special.logit(prior))
    lost: FloatArray = _entropy(prior) - np.log1p(np.exp(-size)) - size * special.expit(-size)
    return lost


def _entropy(prior: float) -> float:
    return float(special.entr(prior) + special.entr(1 - prior))
