import numpy as np
import pytest

from leakscope.leakage.gaussian import fit, kl, symmetric_kl
from leakscope.leakage.neighbours import kl_nearest_neighbour, neighbour_leakage


def test_agrees_with_the_closed_form_where_samples_are_gaussian():
    rng = np.random.default_rng(0)
    inside, outside = 0.8 + rng.normal(size=3000), rng.normal(size=3000)
    assert kl_nearest_neighbour(inside, outside) == pytest.approx(0.32, abs=0.1)
    for unit in (1e-6, -200.0):
        assert kl_nearest_neighbour(unit * inside, unit * outside) == pytest.approx(
            kl_nearest_neighbour(inside, outside), rel=1e-6
        )


def test_sees_what_two_equal_means_and_covariances_hide():
    """Two modes against one of the same mean and variance: the Gaussian KL is 0, the truth is not."""
    rng = np.random.default_rng(0)
    modes = rng.choice([-1, 1], size=2000) * 0.95 + np.sqrt(1 - 0.95**2) * rng.normal(size=2000)
    plain = rng.normal(size=2000)
    assert symmetric_kl(fit(modes[:, None]), fit(plain[:, None])) < 0.02
    assert kl_nearest_neighbour(modes, plain) + kl_nearest_neighbour(plain, modes) > 0.5


def test_it_is_about_zero_without_leakage():
    rng = np.random.default_rng(0)
    pairs = rng.standard_t(3, size=(60, 2, 400))
    values = np.array([kl_nearest_neighbour(inside, outside) for inside, outside in pairs])
    assert abs(values.mean()) < 0.05
    assert values.std() < 0.3


def test_edge_cases_are_defined():
    rng = np.random.default_rng(0)
    assert kl_nearest_neighbour(np.zeros(9), np.zeros(9)) == 0
    assert kl_nearest_neighbour(np.full(9, 0.1), np.full(9, 0.1)) == 0
    tied = rng.integers(0, 2, size=(2, 50)).astype(float)
    assert np.isfinite(kl_nearest_neighbour(tied[0], tied[1]))
    assert np.isfinite(kl(fit(tied[0][:, None]), fit(tied[1][:, None])))


def outputs(shift, k, n_records=40, seed=0):
    """Outputs (records, 2, K) of both sides, unit Gaussians `shift` apart; rho_KL is shift squared."""
    inside, outside = np.random.default_rng(seed).normal(size=(2, n_records, 2, k))
    return inside + shift, outside


@pytest.mark.parametrize("k", [2, 4, 16, 50])
def test_at_every_k_the_floor_removes_the_bias_where_nothing_leaks(k):
    found = [neighbour_leakage(*pair) for pair in zip(*outputs(0.0, k), strict=True)]
    corrected = np.array([one.plug_in - one.floor for one in found])
    assert abs(corrected.mean()) < 4 * corrected.std(ddof=1) / np.sqrt(len(corrected))


@pytest.mark.parametrize("k", [16, 50])
def test_on_gaussian_outputs_it_reports_what_it_expects_of_gaussians(k):
    """Its bias is known: a large divergence is far out of reach, on the outputs as on the simulated ones."""
    found = [neighbour_leakage(*pair) for pair in zip(*outputs(12.0, k), strict=True)]
    difference = np.array([one.plug_in - one.floor - one.if_gaussian for one in found])
    assert abs(difference.mean()) < 4 * difference.std(ddof=1) / np.sqrt(len(difference))
    assert max(one.if_gaussian for one in found) < 20 < 144


def test_it_tells_heavy_tails_from_their_gaussian_fit():
    """Outliers on both sides: the fits are far apart by chance, the outputs are not."""
    rng = np.random.default_rng(1)
    inside, outside = rng.standard_cauchy((2, 40, 2, 50))
    found = [neighbour_leakage(*pair) for pair in zip(inside, outside, strict=True)]
    corrected = np.array([one.plug_in - one.floor for one in found])
    expected = np.array([one.if_gaussian for one in found])
    assert expected.mean() > 0.5 > abs(corrected.mean())
