import numpy as np
import pytest

from leakscope.errors import InputError
from leakscope.leakage.gaussian import fit, kl, symmetric_kl
from leakscope.leakage.nearest_neighbour import kl_nearest_neighbour


def test_agrees_with_the_closed_form_where_samples_are_gaussian():
    rng = np.random.default_rng(0)
    inside, outside = 0.8 + rng.normal(size=(3000, 2)), rng.normal(size=(3000, 2))
    assert kl_nearest_neighbour(inside, outside) == pytest.approx(0.64, abs=0.1)
    units = np.array([[1e-6, 200.0], [1e-6, -100.0]])
    assert kl_nearest_neighbour(inside @ units, outside @ units) == pytest.approx(
        kl_nearest_neighbour(inside, outside), rel=1e-6
    )


def test_sees_what_two_equal_means_and_covariances_hide():
    """Two modes against one of the same mean and variance: the Gaussian KL is 0, the truth is not."""
    rng = np.random.default_rng(0)
    modes = rng.choice([-1, 1], size=(2000, 1)) * 0.95 + np.sqrt(1 - 0.95**2) * rng.normal(size=(2000, 1))
    plain = rng.normal(size=(2000, 1))
    assert symmetric_kl(fit(modes), fit(plain)) < 0.02
    assert kl_nearest_neighbour(modes, plain) + kl_nearest_neighbour(plain, modes) > 0.5


def test_it_is_about_zero_without_leakage():
    rng = np.random.default_rng(0)
    pairs = rng.standard_t(3, size=(60, 2, 400, 2))
    values = np.array([kl_nearest_neighbour(inside, outside) for inside, outside in pairs])
    assert abs(values.mean()) < 0.05
    assert values.std() < 0.3


def test_edge_cases_are_defined():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(2, 20, 2))
    values[..., 1] = 7.0
    one = kl_nearest_neighbour(values[0][:, :1], values[1][:, :1])
    assert kl_nearest_neighbour(values[0], values[1]) == pytest.approx(one, rel=1e-9)
    assert kl_nearest_neighbour(np.zeros((9, 2)), np.zeros((9, 2))) == 0
    tied = rng.integers(0, 2, size=(2, 50, 1)).astype(float)
    assert np.isfinite(kl_nearest_neighbour(tied[0], tied[1]))
    assert np.isfinite(kl(fit(tied[0]), fit(tied[1])))
    with pytest.raises(InputError, match="k=5"):
        kl_nearest_neighbour(np.zeros((5, 1)), np.zeros((9, 1)))
    with pytest.raises(InputError, match="with equal p"):
        kl_nearest_neighbour(np.zeros((9, 1)), np.zeros((9, 2)))
