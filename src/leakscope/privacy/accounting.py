"""The accountant is `dp-accounting`, never one of ours: a bound that is wrong looks like any other.

It is imported where it is used: `import leakscope` and audits without DP-SGD do without it.
"""

from __future__ import annotations

import warnings
from functools import cache
from math import ceil, isfinite
from typing import Any

from leakscope.errors import InputError
from leakscope.privacy.settings import Privacy, PrivacySpent, Sampling

_SMALLEST_NOISE = 0.05  # below it, epsilon is in the thousands, and the accountant takes minutes
_LARGEST_NOISE = 1e4  # noise multipliers beyond it drown any gradient
_COARSEST, _FINEST = 1e-3, 1e-4  # steps of the privacy loss; the accountant rounds to the safe side


def noise_multiplier(privacy: Privacy, sampling: Sampling, epochs: int) -> float:
    """The noise multiplier of a training; solved by the accountant where epsilon is given."""
    if privacy.noise_multiplier is not None:
        return privacy.noise_multiplier
    assert privacy.epsilon is not None, "one of the two is given"
    return _solved(privacy.epsilon, privacy.delta, sampling.rate, sampling.steps_per_epoch * epochs)


def privacy_spent(privacy: Privacy, sampling: Sampling, epochs: int) -> PrivacySpent:
    """What the training spends.

    Raises:
        InputError: delta is no smaller than one over the number of members, which guarantees nothing.
    """
    if privacy.delta >= 1 / sampling.n_members:
        raise InputError(
            f"privacy.delta={privacy.delta:g}: must be below 1 / {sampling.n_members:,}, one over the number "
            "of members; publishing some records at random would satisfy it otherwise"
        )
    multiplier, steps = noise_multiplier(privacy, sampling, epochs), sampling.steps_per_epoch * epochs
    spent = epsilon_of_steps(multiplier, privacy.delta, sampling.rate, steps)
    return PrivacySpent(
        spent, privacy.delta, multiplier, privacy.clip, sampling.rate, steps, _accountant_name()
    )


@cache
def _solved(epsilon: float, delta: float, rate: float, steps: int) -> float:
    """The smallest noise multiplier that spends at most epsilon."""
    import dp_accounting as dp

    with _quiet():
        if epsilon_of_steps(_LARGEST_NOISE, delta, rate, steps) > epsilon:
            raise InputError(f"privacy.epsilon={epsilon:g}: no noise gives it in {steps:,} steps; raise it")
        solved = float(
            dp.calibrate_dp_mechanism(
                lambda: _fresh_accountant(steps), lambda noise: _event(noise, rate, steps), epsilon, delta
            )
        )
    solved = _rounded_up(solved)
    while epsilon_of_steps(solved, delta, rate, steps) > epsilon:  # the solver's own tolerance
        solved = _rounded_up(solved * (1 + 1e-6))
    return solved


@cache
def epsilon_of_steps(multiplier: float, delta: float, rate: float, steps: int) -> float:
    """Epsilon of Poisson-sampled noisy steps, rounded up."""
    if multiplier < _SMALLEST_NOISE:
        raise InputError(
            f"noise_multiplier={multiplier:g}: so little noise guarantees nothing; give at least "
            f"{_SMALLEST_NOISE}"
        )
    with _quiet():
        spent = _fresh_accountant(steps).compose(_event(multiplier, rate, steps)).get_epsilon(delta)
    if not isfinite(spent):
        raise InputError(
            f"privacy.noise_multiplier={multiplier:g}: the accountant finds no finite epsilon; raise it"
        )
    return _rounded_up(float(spent))


def _rounded_up(value: float) -> float:
    """To six decimals: the last bits differ between machines, and belong to a bank's identity."""
    return ceil(value * 1e6) / 1e6


def _fresh_accountant(steps: int) -> Any:
    from dp_accounting import pld

    return pld.PLDAccountant(value_discretization_interval=min(_COARSEST, max(_FINEST, 1 / steps)))


def _event(multiplier: float, rate: float, steps: int) -> Any:
    import dp_accounting as dp

    step = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(multiplier))
    return dp.SelfComposedDpEvent(step, steps)


def _accountant_name() -> str:
    from importlib.metadata import version

    return f"dp-accounting {version('dp-accounting')}, privacy loss distribution"


def _quiet() -> warnings.catch_warnings[None]:
    """Its arithmetic overflows on the way, harmlessly."""
    return warnings.catch_warnings(action="ignore", category=RuntimeWarning)
