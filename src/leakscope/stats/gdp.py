"""Gaussian differential privacy: exact conversion, and a sharper epsilon where the trade-off is Gaussian.

A mechanism is mu-GDP if distinguishing two neighboring training sets is as hard as distinguishing N(0, 1)
from N(mu, 1) (Dong, Roth and Su 2022). If the trade-off curve of the scores has that shape, all scores
estimate one mu, and epsilon follows at any delta: far sharper than `leakscope.stats.epsilon`, but wrong where
the shape is. So the shape is tested first; where the test rejects it, or has too little power, the bound is
NaN, with the reason.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

from leakscope.array_types import FloatArray, IntArray
from leakscope.stats.epsilon import EpsilonBound, check_delta, rank_rates
from leakscope.stats.intervals import check_level, delong_of_split
from leakscope.stats.roc import SplitScores, auc_of_split

_METHOD = "Gaussian trade-off, mu from the AUC (DeLong)"
_N_THRESHOLDS = 12
# With fewer scores of a side beyond a threshold, the probit of its rate is too skewed for a chi-square test.
_LEAST_IN_TAIL = 20
_LEAST_RECORDS = 500
_REJECT_BELOW, _LEAST_POWER = 0.05, 0.9  # p-value of the shape; power against another


class GaussianFit(NamedTuple):
    """Test of the Gaussian shape of a trade-off.

    Attributes:
        p_value: small when the shape is not Gaussian; NaN when it cannot be tested.
        power: power of the test, at 5%, against a logistic trade-off of equal advantage; NaN likewise.
        reason: why the others are NaN; empty otherwise.
    """

    p_value: float
    power: float
    reason: str = ""


def gdp_delta(mu: float, epsilon: float) -> float:
    """The delta of a mu-GDP mechanism at epsilon: Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu)."""
    if mu <= 0:
        return 0.0
    log_minus = epsilon + scipy.special.log_ndtr(-mu / 2 - epsilon / mu)
    return max(float(scipy.special.ndtr(mu / 2 - epsilon / mu) - np.exp(log_minus)), 0.0)


def gdp_epsilon(mu: float, delta: float) -> float:
    """The epsilon of a mu-GDP mechanism at delta, exact to 1e-12 (relative); inf for delta 0 and mu > 0."""
    check_delta(delta)
    if mu <= 0 or gdp_delta(mu, 0.0) <= delta:
        return 0.0
    if delta == 0 or np.isinf(mu):
        return float("inf")
    low, high = 0.0, 1.0
    while gdp_delta(mu, high) > delta:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if gdp_delta(mu, middle) > delta else (low, middle)
    return high


def gdp_mu(epsilon: float, delta: float) -> float:
    """The largest mu of a mechanism that is (epsilon, delta)-private, the inverse of `gdp_epsilon`."""
    low, high = 0.0, 1.0
    while gdp_delta(high, epsilon) <= delta:
        high *= 2
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if gdp_delta(middle, epsilon) <= delta else (low, middle)
    return low


GDP_THRESHOLDS = 4
"""Of `gdp_epsilon_of_split`, half of them from the top; the error is divided among them."""


def even_ranks(n_nonmembers: int, n_ranks: int) -> IntArray:
    """Ranks from a tenth to a half of the non-members: one mu explains all, so the middle tells most."""
    return np.floor(np.linspace(0.1, 0.5, n_ranks) * n_nonmembers).astype(np.int64)


def gdp_epsilon_of_split(
    sides: SplitScores, *, delta: float = 1e-5, confidence: float = 0.95
) -> EpsilonBound:
    """Lower bound on the epsilon of a Gaussian mechanism, exact for any number of scores.

    A mu-GDP training allows no attack a pair of rates with `probit(TPR) - probit(FPR)` above mu, whatever the
    shape of the attack's own curve. So a claim of mu-GDP needs no test of the shape.

    Args:
        sides: sorted scores, higher means member; at least one of each.
        delta: in [0, 1).
        confidence: one-sided confidence of the bound.
    """
    check_delta(delta)
    check_level(confidence)
    n_thresholds = GDP_THRESHOLDS
    tpr_low, fpr_high = rank_rates(sides, n_thresholds, (1 - confidence) / n_thresholds, even_ranks)
    mu = float(np.max(scipy.special.ndtri(tpr_low) - scipy.special.ndtri(fpr_high)))
    method = f"Clopper-Pearson, Gaussian trade-off, Bonferroni over {n_thresholds} thresholds"
    return EpsilonBound(gdp_epsilon(mu, delta), delta, confidence, method)


def gaussian_tradeoff_of_split(
    sides: SplitScores, *, delta: float = 1e-5, confidence: float = 0.95
) -> EpsilonBound:
    """Lower bound on epsilon where the trade-off between members and non-members is Gaussian.

    Then AUC = Phi(mu / sqrt 2) under any monotone transformation of the scores, so a lower confidence bound
    of the AUC gives one of mu. We use the lower end of the two-sided interval: it spends half of the error,
    which leaves a margin for the interval being asymptotic. An AUC bound at or below 1/2 gives epsilon 0,
    which needs no assumption. Otherwise the bound is NaN unless `gaussian_fit` does not reject the shape and
    has a power of at least 0.9 against a logistic one, whose epsilon is bounded; weak leaks are therefore
    undefined. The shape is extrapolated from the observed scores down to `delta`, which no test can justify.

    Args:
        sides: sorted scores, higher means member.
        delta: in [0, 1).
        confidence: confidence of the bound.
    """
    check_delta(delta)
    check_level(confidence)
    if min(map(len, sides)) < 2:
        return _undefined_bound("it takes 2 members and 2 non-members", delta, confidence)
    auc_low = delong_of_split(sides, confidence).interval.low
    if auc_low <= 0.5:
        return EpsilonBound(0.0, delta, confidence, f"{_METHOD}; the AUC is not above 1/2")
    fit = gaussian_fit(sides)
    reason = _why_not_gaussian(fit)
    if reason:
        return _undefined_bound(reason, delta, confidence)
    epsilon = gdp_epsilon(float(np.sqrt(2) * scipy.special.ndtri(auc_low)), delta)
    method = f"{_METHOD}; shape not rejected, p = {fit.p_value:.2g}"
    return EpsilonBound(epsilon, delta, confidence, method)


def gaussian_fit(sides: SplitScores) -> GaussianFit:
    """Tests whether probit(TPR) - probit(FPR) is constant, as under a Gaussian trade-off.

    The difference is fitted by generalized least squares with its joint covariance at up to 12 thresholds,
    spread over the range where both sides have at least 20 scores beyond. A slope (unequal variances) and a
    curvature (heavy tails, mixtures) are tested together, chi-square with 2 degrees of freedom.
    """
    n_least = min(map(len, sides))
    if n_least < _LEAST_RECORDS:
        return _untestable(
            f"{n_least} members or non-members; testing the shape takes {_LEAST_RECORDS} of each"
        )
    thresholds = _inner_thresholds(sides)
    if len(thresholds) < _N_THRESHOLDS // 2:
        return _untestable("too few distinct scores to test the shape")
    tpr, fpr = (_smoothed_rates(side, thresholds) for side in sides)  # (thresholds,) each
    covariance = _probit_covariance(tpr, len(sides.members)) + _probit_covariance(fpr, len(sides.nonmembers))
    wald = _slope_and_curvature(tpr, fpr, covariance)
    shift = 2 * scipy.special.logit(scipy.special.ndtr(scipy.special.ndtri(auc_of_split(sides)) / np.sqrt(2)))
    wald_logistic = _slope_and_curvature(
        scipy.special.expit(scipy.special.logit(fpr) + shift), fpr, covariance
    )
    power = 1 - scipy.special.chndtr(scipy.special.chdtri(2, 0.05), 2, wald_logistic)
    return GaussianFit(float(scipy.special.chdtrc(2, wald)), float(power))


def _why_not_gaussian(fit: GaussianFit) -> str:
    if fit.reason:
        return fit.reason
    if fit.p_value < _REJECT_BELOW:
        return f"the trade-off is not Gaussian (p = {fit.p_value:.2g})"
    if fit.power < _LEAST_POWER:
        return f"the leak is too weak, or the scores are too few, to test the shape (power {fit.power:.2f})"
    return ""


def _undefined_bound(reason: str, delta: float, confidence: float) -> EpsilonBound:
    return EpsilonBound(float("nan"), delta, confidence, _METHOD, reason)


def _untestable(reason: str) -> GaussianFit:
    return GaussianFit(float("nan"), float("nan"), reason)


def _inner_thresholds(sides: SplitScores) -> FloatArray:
    """Distinct thresholds, ascending, even on the probit scale of the pooled scores; (at most 12,)."""
    pooled = np.sort(np.concatenate(sides))
    lowest = max(side[_LEAST_IN_TAIL - 1] for side in sides)
    highest = min(side[-_LEAST_IN_TAIL] for side in sides)
    if not lowest < highest:
        return np.empty(0)
    ends = scipy.special.ndtri((np.searchsorted(pooled, [lowest, highest], side="right") - 0.5) / len(pooled))
    at = scipy.special.ndtr(np.linspace(ends[0], ends[1], _N_THRESHOLDS)) * len(pooled)
    return np.unique(pooled[np.minimum(at.astype(np.int64), len(pooled) - 1)])


def _smoothed_rates(side: FloatArray, thresholds: FloatArray) -> FloatArray:
    """Share of the side at or above each threshold, kept off 0 and 1; (thresholds,)."""
    return 1 - (np.searchsorted(side, thresholds, side="left") + 0.5) / (len(side) + 1)


def _probit_covariance(rates: FloatArray, n: int) -> FloatArray:
    """Covariance of the probits of empirical tail rates, by the delta method; (thresholds, thresholds)."""
    density = np.exp(-(scipy.special.ndtri(rates) ** 2) / 2) / np.sqrt(2 * np.pi)
    smaller, larger = np.minimum.outer(rates, rates), np.maximum.outer(rates, rates)
    covariance: FloatArray = smaller * (1 - larger) / (n * np.outer(density, density))
    return covariance


def _slope_and_curvature(tpr: FloatArray, fpr: FloatArray, covariance: FloatArray) -> float:
    """Wald statistic of slope and curvature of the probit difference over the curve."""
    probit_tpr, probit_fpr = scipy.special.ndtri(tpr), scipy.special.ndtri(fpr)
    position = probit_tpr + probit_fpr
    position = (position - position.mean()) / position.std()
    root = np.linalg.cholesky(covariance)
    terms = np.linalg.solve(root, np.vander(position, 3, increasing=True))  # (thresholds, 3)
    coefficients, *_ = np.linalg.lstsq(terms, np.linalg.solve(root, probit_tpr - probit_fpr))
    spread = np.linalg.inv(terms.T @ terms)[1:, 1:]
    return float(coefficients[1:] @ np.linalg.solve(spread, coefficients[1:]))
