"""The publication's formulas, evaluated at points where a number decides whether they are right."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from math import comb

import numpy as np
from scipy import integrate, special, stats

from leakscope.array_types import FloatArray
from leakscope.leakage.bias import crossed
from leakscope.leakage.gaussian import Gaussian, fit, kl, symmetric_kl, with_noise
from leakscope.leakage.inequalities import mutual_information, total_variation
from leakscope.leakage.mechanism import delta_of
from leakscope.leakage.sensitivity import clipped, loss_sensitivity
from leakscope.studies.leakage.config import DELTA
from leakscope.studies.leakage.extension_results import Theory

_TRAININGS = (100, 400, 1600)
_NORM, _TARGET, _RADIUS = 1.0, 0.5, 2.0
_UNIVERSE, _ONES = 20, 18
"""Records of the rounded mean; this many are 1, the others 0."""
_MIDDLE = 0.55
"""Between the two points to which the mean is rounded, 0 and 1.1."""
_SMALL_VARIANCE = 1e-6


@cache
def evaluated() -> Theory:
    """Every number; the same in every run."""
    wide, narrow = _gaussian(0, 4), _gaussian(0, 1)
    at_one = _gaussian(1, 1)
    reductions = [_reduction(at_one, narrow, sd) for sd in (0.02, 0.01)]
    without_first = [chosen for chosen in combinations(range(10), 3) if 0 not in chosen]
    neighbours, replaced = _pairs_of_sets(6, 3)
    return Theory(
        # The printed trace term is trace(inv(S0) S0) = p, whatever S1 is.
        printed_divergence=float(np.log(1 / 4)) / 2,
        corrected_divergence=float(kl(wide, narrow)),
        exact_divergence=_integrated_divergence(),
        left_out_share=len(without_first) / comb(10, 3),
        printed_left_out_share=3 / 10,
        guess_correct=0.5,
        printed_success_limit=float(np.sqrt(symmetric_kl(narrow, narrow)) / 2),
        error_sum=_smallest_error_sum(),
        one_minus_variation=1 - float(total_variation(at_one, narrow).value),
        kl_reduction_ratio=reductions[0][0] / reductions[1][0],
        mi_reduction_ratio=reductions[0][1] / reductions[1][1],
        # The gradient of ln(p1 / p0) is 3x/4; the printed Fisher divergence averages its square over p0.
        printed_slope=-(0.75**2) / 2,
        exact_slope=_slope_in_variance(wide, narrow),
        leakage_by_size=(rounded_mean_leakage(3, 0.0), rounded_mean_leakage(4, 0.0)),
        leakage_by_weight=(rounded_mean_leakage(4, 0.0), rounded_mean_leakage(4, 0.5)),
        neighbours_counted=neighbours,
        replaced_pairs=replaced,
        classical_delta_below_one=_delta_of_classical_rule(0.5),
        classical_delta_above_one=_delta_of_classical_rule(16.0),
        lipschitz_found=_largest_quotient(),
        lipschitz_sensitivity=loss_sensitivity(_NORM, _TARGET, _RADIUS),
        estimation_error=tuple(_estimation_error(k) for k in _TRAININGS),
    )


def _gaussian(mean: float, variance: float) -> Gaussian:
    return Gaussian(np.array([float(mean)]), np.array([[float(variance)]]))


def _integrated_divergence() -> float:
    wide, narrow = stats.norm(0, 2), stats.norm(0, 1)
    return float(integrate.quad(lambda x: wide.pdf(x) * (wide.logpdf(x) - narrow.logpdf(x)), -25, 25)[0])


def _smallest_error_sum() -> float:
    """Over thresholds on x, which by Neyman and Pearson are the best tests between N(0, 1) and N(1, 1)."""
    thresholds = np.linspace(-6, 7, 13_001)
    return float((special.ndtr(thresholds - 1) + special.ndtr(-thresholds)).min())


def _reduction(first: Gaussian, second: Gaussian, sd: float) -> tuple[float, float]:
    """How much rho_KL and rho_MI noise of this sd removes."""
    noisy = with_noise(first, sd), with_noise(second, sd)
    in_kl = symmetric_kl(first, second) - symmetric_kl(*noisy)
    in_mi = mutual_information(first, second).value - mutual_information(*noisy).value
    return float(in_kl), float(in_mi)


def _slope_in_variance(first: Gaussian, second: Gaussian) -> float:
    """How fast noise changes the divergence, per unit of its variance."""
    noisy = (with_noise(one, _SMALL_VARIANCE**0.5) for one in (first, second))
    return float((kl(*noisy) - kl(first, second)) / _SMALL_VARIANCE)


def rounded_mean_leakage(size: int, weight: float) -> float:
    """rho_MI in bits of a ridge regression on a constant, rounded to 0 or 1.1; all training sets counted.

    The solution is the mean of the training set over 1 + weight. The records are 18 ones and 2 zeros, and
    `size` of them are drawn. Every assumption of Theorems 2 and 3 holds, and yet leakage is not monotone in
    the size or the weight.
    """
    prior = size / _UNIVERSE
    least = _MIDDLE * (1 + weight) * size  # ones in the training set from which the result is 1.1
    leakage = 0.0
    for value, n_records in ((1, _ONES), (0, _UNIVERSE - _ONES)):
        ones = np.ceil([least - value, least])  # ... among the other records, with the record and without it
        rounded_up = stats.hypergeom.sf(ones - 1, _UNIVERSE - 1, _ONES - value, [size - 1, size])
        mixed = np.dot([prior, 1 - prior], rounded_up)
        given = np.dot([prior, 1 - prior], _entropy(rounded_up))
        leakage += n_records / _UNIVERSE * float(_entropy(mixed) - given)
    return leakage / float(np.log(2))


def _entropy(probability: FloatArray) -> FloatArray:
    """Of a coin, in nats."""
    return np.asarray(special.entr(probability) + special.entr(1 - probability))


def _pairs_of_sets(n_records: int, size: int) -> tuple[int, int]:
    """Pairs of different sets of `size` whose indicators differ in at most one place, and in two."""
    sets = [set(chosen) for chosen in combinations(range(n_records), size)]
    differing = [len(first ^ second) for first, second in combinations(sets, 2)]
    return sum(count <= 1 for count in differing), sum(count == 2 for count in differing)


def _delta_of_classical_rule(epsilon: float) -> float:
    """Exact delta of the classical calibration to DELTA, at sensitivity 1 and any epsilon."""
    sigma = float(np.sqrt(2 * np.log(1.25 / DELTA)) / epsilon)
    return delta_of(sigma, epsilon, 1.0)


def _largest_quotient() -> float:
    """|l(theta) - l(theta')| / |theta - theta'| over random records, where the gradient is largest."""
    rng = np.random.default_rng(0)
    inputs = clipped(rng.normal(size=(20_000, 3)) * 5, _NORM)
    targets = rng.choice([-_TARGET, _TARGET], len(inputs))
    # The gradient is largest where theta is at the edge of the ball, against the record.
    first = -np.sign(targets)[:, None] * inputs / np.linalg.norm(inputs, axis=1, keepdims=True) * _RADIUS
    second = first * (1 - rng.uniform(1e-4, 1e-3, (len(inputs), 1)))
    quotients = np.abs(_loss(inputs, targets, first) - _loss(inputs, targets, second))
    return float((quotients / np.linalg.norm(first - second, axis=1)).max())


def _loss(inputs: FloatArray, targets: FloatArray, theta: FloatArray) -> FloatArray:
    return np.asarray(((inputs * theta).sum(axis=1) - targets) ** 2)


def _estimation_error(k: int) -> float:
    """Of rho_KL between Gaussians one standard deviation apart in two dimensions, where the truth is 1."""
    rng = np.random.default_rng(0)
    inside, outside = rng.standard_normal((2, 200, 2, k, 2))
    inside[..., 0] += 1
    estimate = crossed(fit(inside), fit(outside)).without_inverse_excess(2, k).corrected
    return float(np.sqrt(((estimate - 1) ** 2).mean()))
