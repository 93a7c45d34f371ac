"""The distribution of gaps over records: learned in any shape, and used as Bayes' rule says."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm, t

from leakscope.leakage.gap_prior import GapPrior, OwnGaps, fit_gap_prior
from leakscope.leakage.trends import Trend, quantile_bins

N = 2_000


def observed(gaps: np.ndarray, noise: float, degrees: float, rng: np.random.Generator) -> OwnGaps:
    """Gaps in units of a spread that was estimated with so many degrees of freedom, without their bias."""
    spread = np.sqrt(rng.chisquare(degrees, len(gaps)) / degrees)
    correction = 1 - 3 / (4 * degrees - 1)
    values = correction * (gaps + np.sqrt(noise) * rng.normal(size=len(gaps))) / spread
    full = np.full(len(gaps), 1.0)
    return OwnGaps(values, correction**2 * noise * full, degrees * full)


def test_the_posterior_is_that_of_bayes_rule() -> None:
    """Beside a sum over a fine grid, with components so narrow that a gap is nearly one of their points."""
    points, weights = np.array([-1.0, 0.5, 3.0]), np.array([0.2, 0.5, 0.3])
    prior = GapPrior(Trend(np.zeros(1), np.full(1, 0.4)), Trend(np.zeros(1), np.full(1, 2.0)), points,
                     np.full(3, 1e-3), weights)  # fmt: skip
    own = OwnGaps(np.array([-3.0, 0.4, 1.4, 9.0]), np.full(4, 0.3), np.array([4.0, 9.0, 60.0, 4.0]))
    at = 0.4 + 2.0 * points
    scale = np.sqrt(own.noise[:, None] + at**2 / (2 * own.degrees[:, None]))
    joint = weights * t.pdf(own.value[:, None], own.degrees[:, None], at, scale)
    shares = joint / joint.sum(axis=1, keepdims=True)
    mean = shares @ at
    variance = (shares * (at - mean[:, None]) ** 2).sum(axis=1)
    posterior = prior.posterior(own, np.zeros(4))
    np.testing.assert_allclose(posterior.mean, mean, atol=1e-4)
    np.testing.assert_allclose(posterior.variance, variance, atol=1e-4)


def test_one_wide_component_shrinks_as_a_gaussian_does() -> None:
    prior = GapPrior(Trend(np.zeros(1), np.ones(1)), Trend(np.zeros(1), np.ones(1)), np.zeros(1), np.ones(1),
                     np.ones(1))  # fmt: skip
    own = OwnGaps(np.array([2.0, 2.0]), np.array([0.5, np.inf]), np.full(2, 1e6))
    posterior = prior.posterior(own, np.zeros(2))
    np.testing.assert_allclose(posterior.mean, [1 + 1 / 1.5, 1.0], rtol=1e-5)
    np.testing.assert_allclose(posterior.variance, [0.5 / 1.5, 1.0], rtol=1e-5)


@pytest.mark.parametrize("degrees", [6.0, 60.0])
@pytest.mark.parametrize("name", ["alike", "few", "two sides"])
def test_any_shape_is_learned(name: str, degrees: float) -> None:
    rng = np.random.default_rng(5)
    gaps = {
        "alike": np.full(N, 0.8),
        "few": np.where(np.arange(N) < 0.03 * N, 4.0, 0.2),
        "two sides": np.where(np.arange(N) % 2, -1.5, 1.5),
    }[name]
    own, centre = observed(gaps, 0.2, degrees, rng), rng.normal(size=N)
    posterior = fit_gap_prior(own, centre, quantile_bins(centre)).posterior(own, centre)
    error = float(((posterior.mean - gaps) ** 2).mean())
    assert error < 0.6 * float(((own.value - gaps) ** 2).mean())
    # Errors are no larger than the posterior says, which says less than the record's own noise.
    assert 0.8 * error < float(posterior.variance.mean()) < 0.2
    assert abs(float(posterior.mean.mean()) - gaps.mean()) < 0.05


def test_what_is_not_known_has_the_prior() -> None:
    rng = np.random.default_rng(6)
    own, centre = observed(norm.rvs(1, 0.5, size=N, random_state=rng), 0.1, 30.0, rng), np.zeros(N)
    unknown = own._replace(noise=np.where(np.arange(N) < 10, np.inf, own.noise))
    posterior = fit_gap_prior(unknown, centre, quantile_bins(centre)).posterior(unknown, centre)
    assert np.ptp(posterior.mean[:10]) == 0 and posterior.mean[0] == pytest.approx(1.0, abs=0.05)
    assert posterior.variance[0] == pytest.approx(0.25, abs=0.05)
    nothing = own._replace(noise=np.full(N, np.inf))
    prior = fit_gap_prior(nothing, centre, quantile_bins(centre))
    assert not prior.posterior(nothing, centre).mean.any()


def test_one_record_is_its_own_prior() -> None:
    own = OwnGaps(np.array([1.5]), np.array([0.2]), np.array([9.0]))
    posterior = fit_gap_prior(own, np.zeros(1), quantile_bins(np.zeros(1))).posterior(own, np.zeros(1))
    assert posterior.mean[0] == pytest.approx(1.5) and posterior.variance[0] >= 0
