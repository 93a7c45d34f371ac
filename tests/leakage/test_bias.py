import numpy as np
import pytest

from leakscope.errors import InputError
from leakscope.leakage.bias import (
    analytic_bias,
    corrected_symmetric_kl,
    exact_bias,
    mean_over_records,
)
from leakscope.leakage.gaussian import Gaussian, fit, kl, symmetric_kl, with_noise


def two_sides(seed, n_records, k, p, shift=0.0, scale=1.0, tails=None):
    """K trainings with and without; both alike where shift is 0 and scale 1."""
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(p, p)) + 2 * np.eye(p)
    draw = rng.standard_normal if tails is None else lambda size: rng.standard_t(tails, size)
    return (shift + scale * draw((n_records, k, p))) @ mix.T, draw((n_records, k, p)) @ mix.T


@pytest.mark.parametrize(("p", "k"), [(1, 50), (3, 100), (6, 400)])
def test_the_bias_law(p, k):
    """Two fits of one Gaussian differ by p(p+3)/(2K) in each direction."""
    inside, outside = two_sides(0, 2_000, k, p)
    found = kl(fit(inside), fit(outside)).mean()
    assert found == pytest.approx(analytic_bias(p, k), rel=0.15)
    assert found == pytest.approx(exact_bias(p, k), rel=0.06)


def test_the_exact_bias_holds_with_few_trainings_too():
    inside, outside = two_sides(1, 40_000, 14, 3)
    found = kl(fit(inside, shrinkage=0.0), fit(outside, shrinkage=0.0)).mean()
    assert found == pytest.approx(exact_bias(3, 14), rel=0.04)
    assert found > 1.5 * analytic_bias(3, 14)
    assert exact_bias(3, 5) == np.inf
    assert exact_bias(3, 1e9) == pytest.approx(analytic_bias(3, 1_000_000_000), rel=1e-6)


@pytest.mark.parametrize("noise_sd", [0.0, 1.0, 10.0])
def test_without_leakage_the_corrected_value_is_zero_within_its_interval(noise_sd):
    inside, outside = two_sides(2, 200, 120, 4)
    found = corrected_symmetric_kl(inside, outside, noise_sd)
    mean = mean_over_records(found)
    assert mean.low < 0 < mean.high
    assert mean.floor == pytest.approx(found.plug_in.mean(), rel=0.1)
    assert ((found.low < 0) & (found.high > 0)).mean() >= 0.93
    if noise_sd == 0:
        assert mean.floor == pytest.approx(2 * exact_bias(4, 120), rel=0.05)


def test_heavy_tails_raise_the_floor_as_they_raise_the_estimate():
    inside, outside = two_sides(3, 200, 120, 3, tails=4)
    mean = mean_over_records(corrected_symmetric_kl(inside, outside))
    assert mean.floor > 1.5 * 2 * exact_bias(3, 120)
    assert mean.low < 0 < mean.high


@pytest.mark.parametrize("noise_sd", [0.0, 0.5])
@pytest.mark.parametrize(("shift", "scale"), [(0.2, 1.0), (0.0, 1.3), (1.0, 0.8)])
def test_planted_leakage_is_found_at_its_true_value(shift, scale, noise_sd):
    k, p, rng = 100, 3, np.random.default_rng(0)
    inside = shift + scale * rng.normal(size=(200, k, p))
    outside = rng.normal(size=(200, k, p))
    truth = symmetric_kl(
        with_noise(Gaussian(np.full(p, shift), scale**2 * np.eye(p)), noise_sd),
        with_noise(Gaussian(np.zeros(p), np.eye(p)), noise_sd),
    )
    found = corrected_symmetric_kl(inside, outside, noise_sd)
    mean = mean_over_records(found)
    assert mean.low > 0
    assert abs(mean.value - truth) < 0.03 * truth + (mean.high - mean.low) / 2
    assert 0.85 <= ((found.low < truth) & (found.high > truth)).mean() <= 0.99


def test_shuffled_presence_is_the_null():
    inside, outside = two_sides(4, 100, 200, 3, shift=1.0)
    pooled = np.concatenate([inside, outside], axis=1)
    order = np.random.default_rng(0).permutation(400)
    shuffled = corrected_symmetric_kl(pooled[:, order[:200]], pooled[:, order[200:]])
    mean = mean_over_records(shuffled)
    assert mean.low < 0 < mean.high
    assert shuffled.plug_in.mean() == pytest.approx(2 * analytic_bias(3, 200), rel=0.15)


def test_one_record_has_its_own_interval():
    inside, outside = two_sides(5, 1, 50, 2, shift=1.0)
    found = corrected_symmetric_kl(inside[0], outside[0])
    assert found.value.shape == ()
    mean = mean_over_records(found)
    assert (mean.low, mean.high) == (float(found.low), float(found.high))
    assert mean.low < mean.value < mean.high


def test_two_trainings_a_constant_column_and_a_fixed_side_are_defined():
    rng = np.random.default_rng(0)
    inside, outside = rng.normal(size=(2, 5, 2, 3))
    assert np.isfinite(corrected_symmetric_kl(inside, outside).value).all()
    inside[..., 1] = outside[..., 1] = 4.0
    assert np.isfinite(corrected_symmetric_kl(inside, outside).value).all()
    fixed = corrected_symmetric_kl(np.zeros_like(inside), outside)
    assert (fixed.value == np.inf).all()
    assert "5 of 5 records are told apart for sure" in fixed.reason
    assert mean_over_records(fixed).reason == fixed.reason
    same = corrected_symmetric_kl(np.zeros((2, 3, 1)), np.zeros((2, 3, 1)))
    np.testing.assert_array_equal(same.value, 0)


def test_bad_input_is_refused():
    with pytest.raises(InputError, match=r"must be one shape"):
        corrected_symmetric_kl(np.zeros((4, 2)), np.zeros((5, 2)))
    with pytest.raises(InputError, match="p=0, k=5"):
        analytic_bias(0, 5)
    with pytest.raises(InputError, match="n_splits=1"):
        corrected_symmetric_kl(np.zeros((4, 2)), np.zeros((4, 2)), n_splits=1)
