import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakscope.errors import InputError
from leakscope.leakage.gaussian import (
    Gaussian,
    fit,
    kl,
    symmetric_kl,
    with_noise,
)
from tests.leakage.gaussians import DIMENSIONS, SEEDS, naive_kl, projected, random_pair


@given(SEEDS, DIMENSIONS)
def test_agrees_with_the_formula_by_inverses(seed, p):
    first, second = random_pair(seed, p)
    assert kl(first, second) == pytest.approx(naive_kl(first, second), rel=1e-6, abs=1e-9)
    both = naive_kl(first, second) + naive_kl(second, first)
    assert symmetric_kl(first, second) == pytest.approx(both, rel=1e-6, abs=1e-9)


def test_one_dimension_has_its_closed_form():
    first, second = Gaussian(np.array([3.0]), np.array([[4.0]])), Gaussian(np.array([1.0]), np.array([[9.0]]))
    assert kl(first, second) == pytest.approx(np.log(3 / 2) + (4 + 4) / 18 - 0.5)
    assert kl(first, first) == 0


def test_many_records_at_once_are_the_same_as_one_by_one():
    first, second = random_pair(0, 3, (4, 2))
    together = kl(first, second)
    assert together.shape == (4, 2)
    one = kl(
        Gaussian(first.mean[2, 1], first.covariance[2, 1]),
        Gaussian(second.mean[2, 1], second.covariance[2, 1]),
    )
    assert together[2, 1] == pytest.approx(float(one), rel=1e-12)


@given(SEEDS, DIMENSIONS)
def test_units_and_mixing_do_not_matter(seed, p):
    first, second = random_pair(seed, p)
    mix = np.random.default_rng(seed + 1).normal(size=(p, p)) + 3 * np.eye(p)
    mix /= np.geomspace(1e-3, 1e3, p)[:, None]
    mixed = kl(projected(first, mix), projected(second, mix))
    assert mixed == pytest.approx(float(kl(first, second)), rel=1e-5, abs=1e-8)


@given(SEEDS, st.integers(2, 5))
def test_a_part_of_the_parameters_tells_no_more_than_all(seed, p):
    first, second = random_pair(seed, p)
    directions = np.random.default_rng(seed).normal(size=(p, p - 1)) / np.geomspace(1e-3, 1e3, p)[:, None]
    part = symmetric_kl(projected(first, directions), projected(second, directions))
    assert part <= symmetric_kl(first, second) * (1 + 1e-6)


@given(SEEDS, DIMENSIONS)
def test_noise_only_takes_away(seed, p):
    first, second = random_pair(seed, p)
    found = [symmetric_kl(with_noise(first, sd), with_noise(second, sd)) for sd in (0, 0.01, 0.1, 1, 10, 1e7)]
    assert (np.diff(found) <= 1e-9 * found[0]).all()
    assert found[-1] < 0.01 * found[0] + 1e-3


def test_a_direction_fixed_on_both_sides_is_dropped():
    first, second = random_pair(0, 2)

    def with_constant(g):
        covariance = np.zeros((3, 3))
        covariance[:2, :2] = g.covariance
        return Gaussian(np.append(g.mean, 5.0), covariance)

    flat = with_constant(first), with_constant(second)
    assert kl(*flat) == pytest.approx(float(kl(first, second)), rel=1e-9)
    moved = flat[1]._replace(mean=flat[1].mean + np.array([0, 0, 1.0]))
    assert kl(flat[0], moved) == np.inf


def test_a_direction_fixed_on_one_side_only_is_infinite():
    moving = Gaussian(np.zeros(2), np.eye(2))
    flat = Gaussian(np.zeros(2), np.diag([1.0, 0.0]))
    assert kl(moving, flat) == np.inf
    assert kl(flat, moving) == np.inf
    nothing = Gaussian(np.zeros(2), np.zeros((2, 2)))
    assert kl(nothing, nothing) == 0


def test_a_fit_divides_by_one_less_and_shrinks_only_where_trainings_are_few():
    samples = np.random.default_rng(0).normal(size=(5, 40, 3))
    found = fit(samples)
    np.testing.assert_allclose(found.covariance[2], np.cov(samples[2].T), rtol=1e-12)
    few = fit(samples[:, :6])
    sample = np.cov(samples[2, :6].T)
    np.testing.assert_allclose(np.diag(few.covariance[2]), np.diag(sample), rtol=1e-12)
    off = few.covariance[2, 0, 1] / sample[0, 1]
    assert 0 <= off < 1


@pytest.mark.parametrize("p", [1, 2, 5])
def test_two_trainings_give_a_defined_kl(p):
    rng = np.random.default_rng(0)
    first, second = fit(rng.normal(size=(2, p))), fit(rng.normal(size=(2, p)))
    assert np.isfinite(kl(first, second))


def test_bad_samples_are_refused():
    with pytest.raises(InputError, match=r"samples \(1, 3\)"):
        fit(np.zeros((1, 3)))
    with pytest.raises(InputError, match="1 of 6 values are NaN"):
        fit(np.array([[1.0, 2], [3, np.nan], [4, 5]]))
    with pytest.raises(InputError, match="noise sd=-1"):
        with_noise(Gaussian(np.zeros(1), np.eye(1)), -1)
