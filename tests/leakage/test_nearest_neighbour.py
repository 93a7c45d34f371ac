import numpy as np
import pytest

from leakscope.leakage.experiment import kl_nearest_neighbour
from leakscope.leakage.gaussian import fit, kl, symmetric_kl


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
