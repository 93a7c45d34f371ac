import numpy as np
import pytest

from leakscope.errors import InputError
from leakscope.leakage.bias import analytic_bias, crossed
from leakscope.leakage.gaussian import Gaussian, fit, kl, symmetric_kl, with_noise


def exact_bias(p, k):
    """Without approximation: E[inv(S)] = inv(Sigma) (K-1)/(K-p-2), and the log determinants cancel."""
    return p * (p + 1 + 2 * (k - 1) / k) / (2 * (k - p - 2))


def trainings(seed, n_records, k, p, shift=0.0, tails=None):
    """(records, 2, K, p) with the record and without; both alike where shift is 0."""
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(p, p)) + 2 * np.eye(p)
    size = (2, n_records, 2, k, p)
    inside, outside = rng.standard_t(tails, size) if tails else rng.standard_normal(size)
    return (shift + inside) @ mix.T, outside @ mix.T


def mean_and_half_width(values):
    return values.mean(), 3 * values.std(ddof=1) / np.sqrt(len(values))


@pytest.mark.parametrize(("p", "k"), [(1, 50), (3, 100), (6, 400)])
def test_the_bias_law(p, k):
    """Two fits of one Gaussian differ by p(p+3)/(2K) in each direction."""
    inside, outside = trainings(0, 1_000, k, p)
    measured = kl(fit(inside), fit(outside)).mean()
    assert measured == pytest.approx(analytic_bias(p, k), rel=0.15)
    assert measured == pytest.approx(exact_bias(p, k), rel=0.06)


def test_the_law_is_of_first_order():
    inside, outside = trainings(1, 20_000, 14, 3)
    measured = kl(fit(inside), fit(outside)).mean()
    assert measured == pytest.approx(exact_bias(3, 14), rel=0.04)
    assert measured > 1.5 * analytic_bias(3, 14)
    assert exact_bias(3, 1_000_000_000) == pytest.approx(analytic_bias(3, 1_000_000_000), rel=1e-6)


@pytest.mark.parametrize("noise_sd", [0.0, 1.0, 10.0])
def test_without_leakage_the_corrected_value_is_zero(noise_sd):
    estimate = crossed(*(with_noise(fit(side), noise_sd) for side in trainings(2, 200, 120, 4)))
    mean, half_width = mean_and_half_width(estimate.corrected)
    assert abs(mean) < half_width
    assert estimate.floor.mean() == pytest.approx(estimate.plug_in.mean(), rel=0.1)
    if noise_sd == 0:
        assert estimate.floor.mean() == pytest.approx(2 * exact_bias(4, 120), rel=0.05)


def test_heavy_tails_raise_the_floor_as_they_raise_the_estimate():
    estimate = crossed(*map(fit, trainings(3, 200, 120, 3, tails=4)))
    mean, half_width = mean_and_half_width(estimate.corrected)
    assert estimate.floor.mean() > 1.5 * 2 * exact_bias(3, 120)
    assert abs(mean) < half_width


@pytest.mark.parametrize("noise_sd", [0.0, 0.5])
@pytest.mark.parametrize(("shift", "scale"), [(0.2, 1.0), (0.0, 1.3), (1.0, 0.8)])
def test_planted_leakage_has_its_true_value(shift, scale, noise_sd):
    k, p, rng = 100, 3, np.random.default_rng(0)
    inside = shift + scale * rng.normal(size=(200, 2, k, p))
    outside = rng.normal(size=(200, 2, k, p))
    truth = symmetric_kl(
        with_noise(Gaussian(np.full(p, shift), scale**2 * np.eye(p)), noise_sd),
        with_noise(Gaussian(np.zeros(p), np.eye(p)), noise_sd),
    )
    estimate = crossed(*(with_noise(fit(side), noise_sd) for side in (inside, outside)))
    mean, half_width = mean_and_half_width(estimate.without_inverse_excess(p, k).corrected)
    assert mean > half_width
    assert abs(mean - truth) < 0.03 * truth + half_width


def test_shuffled_presence_is_the_null():
    inside, outside = trainings(4, 100, 200, 3, shift=1.0)
    both = np.concatenate([inside, outside], axis=2)
    order = np.random.default_rng(0).permutation(400)
    estimate = crossed(fit(both[:, :, order[:200]]), fit(both[:, :, order[200:]]))
    mean, half_width = mean_and_half_width(estimate.corrected)
    assert abs(mean) < half_width
    assert estimate.plug_in.mean() == pytest.approx(2 * analytic_bias(3, 200), rel=0.15)


def test_two_trainings_a_constant_column_and_a_fixed_side_are_defined():
    rng = np.random.default_rng(0)
    inside, outside = rng.normal(size=(2, 5, 2, 2, 3))
    few = crossed(fit(inside), fit(outside))
    assert np.isfinite(few.without_inverse_excess(3, 2).corrected).all()
    inside[..., 1] = outside[..., 1] = 4.0
    assert np.isfinite(crossed(fit(inside), fit(outside)).corrected).all()
    assert (crossed(fit(np.zeros_like(inside)), fit(outside)).corrected == np.inf).all()
    same = fit(np.zeros((2, 2, 3, 1)))
    np.testing.assert_array_equal(crossed(same, same).corrected, 0)


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="p=0, k=5"):
        analytic_bias(0, 5)
