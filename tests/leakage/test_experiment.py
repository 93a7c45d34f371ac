from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from leakscope.array_types import FloatArray
from leakscope.errors import InputError
from leakscope.leakage.bias import analytic_bias, crossed
from leakscope.leakage.experiment import (
    Experiment,
    Release,
    at_output,
    below_threshold,
    experiment,
    likelihood_ratio_votes,
    pooled,
    stacked,
)
from leakscope.leakage.gaussian import Gaussian, fit, with_noise
from leakscope.leakage.inequalities import total_variation


def independent(shift: float, k: int = 400, p: int = 3, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    """(records=30, 2, K, p) of both sides, unit covariance, means `shift` apart along the first axis."""
    rng = np.random.default_rng(seed)
    inside, outside = rng.standard_normal((2, 30, 2, k, p))
    inside[..., 0] += shift
    return inside, outside


def mean_and_error(values: FloatArray) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


@pytest.mark.parametrize("shift", [0.0, 0.5])
def test_the_null_removes_the_bias_and_leaves_the_leakage(shift: float) -> None:
    inside, outside = independent(shift)
    found = crossed(fit(inside), fit(outside))
    mean, error = mean_and_error(found.corrected)
    assert abs(mean * (400 - 5) / 399 - shift**2) < 4 * error
    assert found.floor.mean() == pytest.approx(2 * analytic_bias(3, 400), rel=0.1)
    assert found.plug_in.mean() - shift**2 > 4 * error  # the plug-in estimate is significantly off


def test_draws_shared_by_both_sides_make_the_correction_precise() -> None:
    """What the pairing is for: the same leakage, a much smaller spread, still no bias."""
    apart = crossed(*map(fit, independent(0.1))).corrected
    _, outside = independent(0.0)
    shared = crossed(fit(outside + np.array([0.1, 0, 0])), fit(outside)).corrected
    assert shared.std() < 0.5 * apart.std()
    mean, error = mean_and_error(shared)
    assert abs(mean - 0.01) < 4 * error


def test_noise_in_closed_form_is_noise_on_the_trainings() -> None:
    inside, outside = independent(0.8)
    rng = np.random.default_rng(9)
    noisy = [side + 0.7 * rng.standard_normal(side.shape) for side in (inside, outside)]
    simulated = crossed(fit(noisy[0]), fit(noisy[1])).corrected
    closed = crossed(with_noise(fit(inside), 0.7), with_noise(fit(outside), 0.7)).corrected
    mean, error = mean_and_error(simulated - closed)
    assert abs(mean) < 4 * error
    assert closed.mean() < crossed(fit(inside), fit(outside)).corrected.mean()


def test_perfectly_separable_is_infinite_and_never_nan() -> None:
    inside, outside = independent(0.0)
    inside[..., 0] = 1.0
    found = crossed(fit(inside), fit(outside))
    assert np.isinf(found.corrected).all()


def test_a_parameter_that_never_varies_changes_nothing() -> None:
    inside, outside = independent(0.5)
    with_constant = [np.concatenate([side, np.zeros((*side.shape[:-1], 1))], axis=-1)
                     for side in (inside, outside)]  # fmt: skip
    expected = crossed(fit(inside), fit(outside)).corrected
    found = crossed(fit(with_constant[0]), fit(with_constant[1])).corrected
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    votes = [likelihood_ratio_votes(sides[0], fit(inside[0]), fit(outside[0]))
             for sides in (inside, outside)]  # fmt: skip
    wide = [likelihood_ratio_votes(sides[0], fit(with_constant[0][0]), fit(with_constant[1][0]))
            for sides in with_constant]  # fmt: skip
    np.testing.assert_array_equal(wide, votes)


def test_the_threshold_adversary_is_exact_with_and_without_noise() -> None:
    residual = np.array([-1.5, -0.2, 0.0, 0.5, 0.51])
    np.testing.assert_array_equal(below_threshold(residual, 0.25), [0, 1, 1, 1, 0])
    draws = residual + 0.4 * np.random.default_rng(0).standard_normal((100_000, 1))
    np.testing.assert_allclose(
        below_threshold(residual, 0.25, 0.4), (draws**2 <= 0.25).mean(axis=0), atol=0.01
    )


def unshrunk(halves: FloatArray) -> Gaussian:
    return Gaussian(halves.mean(axis=1), np.stack([np.cov(half.T) for half in halves]))


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_the_likelihood_ratio_adversary_reaches_the_total_variation_and_is_not_flattered(
    shift: float,
) -> None:
    """With 20 trials for 8 parameters a fit judged on itself would find much where there is nothing."""
    found = []
    inside, outside = independent(shift, k=20, p=8) if shift == 0 else independent(shift)
    for i in range(30):
        fits = unshrunk(inside[i]), unshrunk(outside[i])
        votes = [likelihood_ratio_votes(side[i], *fits) for side in (inside, outside)]
        found.append(votes[0].mean() - votes[1].mean())
    mean, error = mean_and_error(np.array(found))
    assert abs(mean - (2 * stats.norm.cdf(shift / 2) - 1)) < 4 * error + 0.02 * (shift > 0)


def test_both_halves_together_are_one_fit() -> None:
    inside, _ = independent(0.3)
    together = fit(inside.reshape(30, 800, 3))
    found = pooled(fit(inside), 400)
    np.testing.assert_allclose(found.mean, together.mean, atol=1e-12)
    np.testing.assert_allclose(found.covariance, together.covariance, atol=1e-12)


def test_the_output_is_a_projection_and_leaks_no_more() -> None:
    inside, outside = independent(0.6)
    inputs = np.array([1.0, 0.5, -2.0])
    outputs = fit((inside @ inputs)[..., None])
    found = at_output(fit(inside), inputs)
    np.testing.assert_allclose(found.mean, outputs.mean)
    np.testing.assert_allclose(found.covariance, outputs.covariance)
    black_box = crossed(found, at_output(fit(outside), inputs)).corrected
    assert black_box.mean() < crossed(fit(inside), fit(outside)).corrected.mean()


def one(shift: float, k: int = 600, **options: object) -> Experiment:
    inside, outside = (side[0] for side in independent(shift, k=k))
    inputs = np.array([1.0, 0.0, 0.0])
    return experiment(inside, outside, inputs, target=shift, threshold=1.0, **options)  # type: ignore[arg-type]


def test_one_record_from_its_trainings() -> None:
    found = one(1.0, with_neighbours=True)
    # Residuals: N(0, 1) with the record and N(-1, 1) without.
    expected = (2 * stats.norm.cdf(1) - 1) - (stats.norm.cdf(2) - stats.norm.cdf(0))
    assert abs(found.advantage - expected) < 4 * found.advantage_error
    limit = total_variation(pooled(found.inside, 600), pooled(found.outside, 600)).value
    assert found.advantage < limit and found.likelihood_ratio < limit + 4 * found.likelihood_ratio_error
    assert found.neighbours - found.neighbours_floor == pytest.approx(1.0, abs=0.35)
    nothing = one(0.0, with_neighbours=True)
    assert nothing.neighbours - nothing.neighbours_floor == pytest.approx(0.0, abs=0.15)
    assert abs(one(0.0).advantage) < 4 * one(0.0).advantage_error


def test_noise_hides_the_record_from_every_adversary() -> None:
    noise = np.random.default_rng(3).standard_normal((2, 600, 3))
    plain, noisy = one(1.0, with_neighbours=True), one(1.0, release=Release(3.0, noise), with_neighbours=True)
    for name in ("advantage", "likelihood_ratio", "neighbours"):
        assert getattr(noisy, name) < 0.5 * getattr(plain, name)
    np.testing.assert_allclose(noisy.inside_covariance, plain.inside_covariance + 9 * np.eye(3))


def test_two_trials_and_stacking_are_defined() -> None:
    few = one(0.5, k=2, with_neighbours=True)
    unknown = {"counted", "counted_floor", "accuracy", "constant_accuracy", "squared_error"}
    assert all(np.isfinite(v).all() for name, v in few._asdict().items() if name not in unknown)
    both = stacked([few, few])
    assert both.inside.mean.shape == (2, 2, 3) and both.advantage.shape == (2,)
    assert not np.isnan(crossed(both.inside, both.outside).corrected).any()


def test_shapes_are_checked() -> None:
    inside, outside = independent(0.0)
    with pytest.raises(InputError, match=r"must both be \(2, K, p\)"):
        experiment(inside[0, 0], outside[0, 0], np.ones(3), 0.0, 1.0)


def test_the_informed_adversary_is_as_good_as_the_distance_between_the_solutions_allows() -> None:
    rng = np.random.default_rng(0)
    outside = rng.standard_normal((2, 5000, 3))
    inside, noise = outside + np.array([0.6, 0.8, 0.0]), rng.standard_normal((2, 5000, 3))
    found = experiment(inside, outside, np.ones(3), 0.0, 1.0, Release(2.0, noise))
    expected = 2 * stats.norm.cdf(1 / (2 * 2.0)) - 1
    assert abs(found.informed - expected) < 4 * found.informed_error
    assert found.informed > found.likelihood_ratio  # who does not know the other records is worse off
    assert found.largest_distance == pytest.approx(1.0)


def test_equal_solutions_tell_the_informed_adversary_nothing() -> None:
    same = np.random.default_rng(0).standard_normal((2, 50, 3))
    found = experiment(same, same, np.ones(3), 0.0, 1.0)
    assert found.informed == 0 and found.largest_distance == 0


def test_rounding_hides_what_is_smaller_than_the_grid() -> None:
    outside = 0.001 * np.random.default_rng(0).standard_normal((2, 100, 3))
    found = experiment(outside + 0.002, outside, np.ones(3), 0.0, 1.0, Release(grid=0.1))
    assert found.counted == 0 == found.counted_floor and found.informed == 0 == found.likelihood_ratio
