"""Mutual information, total variation and the inequalities between them."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from leakscope.errors import InputError
from leakscope.leakage.gaussian import Gaussian, fit, symmetric_kl, with_noise
from leakscope.leakage.inequalities import (
    chain,
    information_at_prior,
    membership_entropy,
    mutual_information,
    total_variation,
)
from tests.leakage.gaussians import DIMENSIONS, SEEDS, projected, random_pair

FEW = 512  # draws


def line(mean, variance):
    return Gaussian(np.array([mean]), np.array([[variance]]))


def by_brute_force(first, second):
    """(mutual information, total variation) of one-dimensional Gaussians by adaptive quadrature."""
    a = stats.norm(first.mean[0], np.sqrt(first.covariance[0, 0]))
    b = stats.norm(second.mean[0], np.sqrt(second.covariance[0, 0]))
    low = min(a.mean() - 12 * a.std(), b.mean() - 12 * b.std())
    high = max(a.mean() + 12 * a.std(), b.mean() + 12 * b.std())

    def information(x):
        in_a, in_b = a.logpdf(x), b.logpdf(x)
        total = np.logaddexp(in_a, in_b) - np.log(2)
        return (np.exp(in_a) * (in_a - total) + np.exp(in_b) * (in_b - total)) / 2

    def integral(f):
        return integrate.quad(f, low, high, points=sorted([a.mean(), b.mean()]), limit=500)[0]

    return integral(information), integral(lambda x: abs(a.pdf(x) - b.pdf(x))) / 2


@pytest.mark.parametrize(("mean", "variance"), [(0.3, 1.0), (2.0, 0.2), (0.0, 5.0), (-3.0, 40.0)])
def test_one_dimension_agrees_with_brute_force(mean, variance):
    first, second = line(mean, variance), line(0.0, 1.0)
    information, distance = by_brute_force(first, second)
    found = mutual_information(first, second)
    assert found.value == pytest.approx(information, abs=1e-7)
    assert found.error < 1e-9
    assert total_variation(first, second).value == pytest.approx(distance, abs=1e-6)


@example(942, 5)  # a nearly singular covariance
@given(SEEDS, DIMENSIONS)
def test_equal_covariances_have_the_closed_form_of_the_distance(seed, p):
    first, second = random_pair(seed, p)
    second = second._replace(covariance=first.covariance)
    gap = first.mean - second.mean
    distance = np.sqrt(gap @ np.linalg.solve(first.covariance, gap))
    found = total_variation(first, second)
    assert found.value == pytest.approx(2 * stats.norm.cdf(distance / 2) - 1, abs=1e-6)
    information = mutual_information(first, second)
    on_a_line = mutual_information(line(distance, 1.0), line(0.0, 1.0))
    assert information.value == pytest.approx(float(on_a_line.value), abs=1e-6)


def test_monte_carlo_holds_its_stated_error():
    """A useless second axis of a little unequal variance makes it Monte Carlo; the truth hardly moves."""
    for seed, (mean, variance) in enumerate([(0.3, 1.0), (1.0, 0.3), (2.5, 1.5)]):
        exact = by_brute_force(line(mean, variance), line(0.0, 1.0))
        pair = [
            Gaussian(np.array([m, 0.0]), np.diag([v, w]))
            for m, v, w in ((mean, variance, 1 + 1e-5), (0, 1, 1))
        ]
        for found, truth in zip(
            (mutual_information(*pair, seed=seed), total_variation(*pair, seed=seed)), exact, strict=True
        ):
            assert 0 < found.error < 0.03
            assert abs(found.value - truth) < 1.6 * found.error  # three standard deviations


@settings(max_examples=40)
@given(SEEDS, DIMENSIONS)
def test_mutual_information_is_at_most_a_quarter_of_rho_kl(seed, p):
    first, second = random_pair(seed, p)
    found = mutual_information(first, second, draws=FEW)
    bound = min(float(symmetric_kl(first, second)) / 4, np.log(2))
    assert 0 <= found.value <= bound + 2 * found.error + 1e-9


@settings(max_examples=40)
@given(SEEDS, st.integers(2, 5))
def test_black_box_bits_are_at_most_white_box_bits(seed, p):
    """Data processing: what is computed from the parameters tells no more than they do."""
    first, second = random_pair(seed, p)
    direction = np.random.default_rng(seed).normal(size=(p, 1)) / np.geomspace(1e-3, 1e3, p)[:, None]
    answers = projected(first, direction), projected(second, direction)
    for measure in (mutual_information, total_variation):
        white, black = measure(first, second, draws=FEW), measure(*answers, draws=FEW)
        assert black.value <= white.value + 2 * (white.error + black.error) + 1e-9


@settings(max_examples=40)
@given(SEEDS, DIMENSIONS)
def test_noise_takes_bits_away(seed, p):
    first, second = random_pair(seed, p)
    for measure in (mutual_information, total_variation):
        found = [measure(with_noise(first, sd), with_noise(second, sd), draws=FEW) for sd in (0, 0.1, 1, 1e7)]
        for less, more in zip(found[1:], found[:-1], strict=True):
            assert less.value <= more.value + 2 * (less.error + more.error) + 1e-9
        assert found[-1].value < 0.02


@settings(max_examples=60)
@given(SEEDS, DIMENSIONS)
def test_the_inequalities_hold(seed, p):
    found = chain(*random_pair(seed, p), draws=FEW)
    tightest = min(found.pinsker, found.bretagnolle_huber)
    assert found.total_variation - 2 * found.total_variation_error <= tightest + 1e-9
    assert tightest <= found.farokhi_kaafar + 1e-12


def test_the_quantities_have_their_values():
    half = chain(line(1.0, 1.0), line(0.0, 1.0))  # KL 1/2 in both directions
    assert half.pinsker == pytest.approx(0.5) and half.farokhi_kaafar == pytest.approx(0.5)
    more = chain(line(np.sqrt(2 * np.log(4)), 1.0), line(0.0, 1.0))
    assert more.bretagnolle_huber == pytest.approx(np.sqrt(0.75))
    assert chain(line(0.0, 1.0), line(0.0, 0.0)).bretagnolle_huber == 1
    smaller = chain(line(0.0, 4.0), line(0.0, 1.0)).pinsker  # of the two directions of the KL divergence
    assert smaller == pytest.approx(np.sqrt((np.log(4) - 0.75) / 4))


def test_many_records_are_the_same_as_one_by_one_and_extremes_are_defined():
    first, second = random_pair(0, 2, (3,))
    together = mutual_information(first, second, draws=FEW)
    one = mutual_information(*(Gaussian(g.mean[1], g.covariance[1]) for g in (first, second)), draws=FEW)
    assert together.value[1] == pytest.approx(float(one.value), rel=1e-12)
    flat = Gaussian(np.zeros(2), np.diag([1.0, 0.0]))
    moving = Gaussian(np.zeros(2), np.eye(2))
    assert mutual_information(flat, moving).value == pytest.approx(np.log(2))
    assert total_variation(flat, moving).value == 1
    assert mutual_information(moving, moving).value == pytest.approx(0, abs=1e-14)
    assert total_variation(moving, moving).value == 0
    with pytest.raises(InputError, match="draws=3"):
        mutual_information(*random_pair(0, 2), draws=3)


@pytest.mark.parametrize("prior", [0.5, 0.1, 10 / 48_842])
def test_information_at_a_prior_is_the_integral(prior):
    first, second = stats.norm(1.0, 1.3), stats.norm(0.0, 1.0)

    def integrand(x):
        p1, p0 = first.pdf(x), second.pdf(x)
        mixture = prior * p1 + (1 - prior) * p0
        return prior * p1 * np.log(p1 / mixture) + (1 - prior) * p0 * np.log(p0 / mixture)

    expected = integrate.quad(integrand, -12, 12, limit=200)[0]
    pair = Gaussian(np.array([1.0]), np.array([[1.69]])), Gaussian(np.array([0.0]), np.array([[1.0]]))
    found = information_at_prior(*pair, prior, draws=65_536)
    assert abs(found.value - expected) < 2 * found.error
    assert found.error < 0.05 * expected
    assert found.value <= prior * (1 - prior) * symmetric_kl(*pair) + found.error


def test_information_at_equal_priors_is_the_same_and_certainty_is_the_entropy():
    rng = np.random.default_rng(0)
    pair = fit(rng.normal(size=(5, 40, 3))), fit(rng.normal(size=(5, 40, 3)) + 0.3)
    at_half, plain = information_at_prior(*pair, 0.5), mutual_information(*pair)
    np.testing.assert_allclose(at_half.value, plain.value, atol=1e-9)
    apart = Gaussian(np.zeros(1), np.zeros((1, 1))), Gaussian(np.ones(1), np.zeros((1, 1)))
    assert information_at_prior(*apart, 0.1).value == pytest.approx(membership_entropy(0.1))
    with pytest.raises(InputError, match="prior=0"):
        information_at_prior(*pair, 0.0)
