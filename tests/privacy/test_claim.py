"""A claim of a Gaussian trade-off is one that DP-SGD keeps."""

import warnings

import dp_accounting as dp
import numpy as np
import pytest
from dp_accounting import pld

from leakscope.errors import InputError
from leakscope.privacy.claim import Claim
from leakscope.stats.gdp import gdp_delta, gdp_mu

DELTA = 1e-5


@pytest.mark.parametrize(
    ("noise", "rate", "steps"),
    [
        (3.5, 0.29, 120),
        (1.0, 0.01, 1000),
        (1.0, 0.1, 100),
        (0.5, 0.01, 10),
        (0.6, 0.001, 1000),
        (2.0, 1.0, 4),
    ],
)
def test_dp_sgd_reveals_no_more_than_the_gaussian_mechanism_of_its_epsilon(
    noise: float, rate: float, steps: int
) -> None:
    accountant = pld.PLDAccountant(value_discretization_interval=1e-3)  # rounds up by 0.1% of delta at most
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        step = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise))
        accountant.compose(dp.SelfComposedDpEvent(step, steps))
        epsilon = accountant.get_epsilon(DELTA)
        mu = gdp_mu(epsilon, DELTA)
        for smaller in np.linspace(0, epsilon, 9):
            assert accountant.get_delta(smaller) <= 1.002 * gdp_delta(mu, smaller)


def test_settings_of_dp_sgd_claim_a_gaussian_tradeoff() -> None:
    settings = {"noise_multiplier": 1.0, "sampling_rate": 0.1, "steps": 10}
    assert Claim(**settings).is_gaussian
    assert not Claim(1.0).is_gaussian
    with pytest.raises(InputError, match="no finite epsilon"):
        Claim(**settings, delta=0.0)
    with pytest.raises(InputError, match="choose"):
        Claim(1.0, tradeoff="normal")
