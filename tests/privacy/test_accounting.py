"""The accountant: against Opacus's, against the Gaussian mechanism's closed form, and lazily imported."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from leakscope.errors import InputError
from leakscope.privacy.accounting import noise_multiplier, privacy_spent
from leakscope.privacy.settings import Privacy, PrivacySpent, Sampling

DIGITS = Sampling(899, 64, 64 / 899, 15)


def opacus_epsilon(name, sigma, rate, steps, delta):
    pytest.importorskip("opacus", reason="opacus is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from opacus.accountants import create_accountant

        accountant = create_accountant(name)
        accountant.history = [(sigma, rate, steps)]
        return accountant.get_epsilon(delta)


@pytest.mark.slow
@pytest.mark.parametrize(("sigma", "epochs"), [(1.0, 30), (2.5, 10), (0.7, 5)])
def test_epsilon_is_that_of_opacus(sigma, epochs):
    """Its PRV accountant is accurate to 0.01 by default; its RDP accountant gives a looser upper bound."""
    spent = privacy_spent(Privacy(noise_multiplier=sigma), DIGITS, epochs)
    common = (sigma, DIGITS.rate, spent.steps, 1e-5)
    assert spent.epsilon == pytest.approx(opacus_epsilon("prv", *common), abs=0.02)
    assert spent.epsilon < opacus_epsilon("rdp", *common)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_the_solved_noise_spends_what_was_requested_and_no_more(epsilon):
    privacy = Privacy(epsilon=epsilon)
    spent = privacy_spent(privacy, DIGITS, 10)
    assert 0.99 * epsilon < spent.epsilon <= epsilon
    assert spent.noise_multiplier == noise_multiplier(privacy, DIGITS, 10)
    again = privacy_spent(Privacy(noise_multiplier=spent.noise_multiplier), DIGITS, 10)
    assert again == spent


def gaussian_epsilon(sigma, steps, delta):
    """Balle and Wang 2018: `steps` Gaussian mechanisms are one with noise sigma / sqrt(steps)."""
    s = sigma / np.sqrt(steps)

    def excess(epsilon):
        return norm.cdf(0.5 / s - epsilon * s) - np.exp(epsilon) * norm.cdf(-0.5 / s - epsilon * s) - delta

    return brentq(excess, 0, 100)


def test_full_batches_are_the_gaussian_mechanism():
    spent = privacy_spent(Privacy(noise_multiplier=4.0), Sampling(50, 50, 1.0, 1), 20)
    assert spent.steps == 20
    assert spent.epsilon == pytest.approx(gaussian_epsilon(4.0, 20, 1e-5), rel=2e-3)
    assert spent.epsilon >= gaussian_epsilon(4.0, 20, 1e-5), "it rounds to the safe side"


def test_a_delta_that_guarantees_nothing_is_refused():
    with pytest.raises(InputError, match=r"privacy.delta=0.002: must be below 1 / 500"):
        privacy_spent(Privacy(noise_multiplier=1.0, delta=0.002), Sampling(500, 50, 0.1, 10), 1)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({}, "exactly one of epsilon and noise_multiplier"),
        ({"epsilon": 8.0, "noise_multiplier": 1.0}, "exactly one of epsilon and noise_multiplier"),
        ({"epsilon": 0.0}, "epsilon=0.0: must be above 0"),
        ({"epsilon": float("nan")}, "epsilon=nan: must be above 0"),
        ({"noise_multiplier": float("inf")}, "noise_multiplier=inf: must be above 0 and finite"),
        ({"epsilon": 1.0, "clip": 0.0}, "clip=0.0: must be above 0"),
        ({"epsilon": 1.0, "delta": 0.0}, "delta=0.0: must be in"),
        ({"epsilon": 1.0, "views": 0}, "views=0: must be at least 1"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, problem):
    with pytest.raises(InputError, match=problem):
        Privacy(**wrong)


@pytest.mark.slow
def test_without_privacy_the_accountant_is_not_imported():
    code = (
        "import sys, leakscope\n"
        "import leakscope.train.loop, leakscope.engine.request, leakscope.evaluate.judge\n"
        "assert not any(name.startswith(('dp_accounting', 'opacus')) for name in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_the_guarantee_is_read_from_a_bank_s_description():
    spent = PrivacySpent(1.0, 1e-5, 2.0, 1.0, 0.1, 10, "an accountant")
    assert PrivacySpent.of_recipe({"privacy_spent": vars(spent)}) == spent
    assert PrivacySpent.of_recipe({"net": "mlp"}) is None
