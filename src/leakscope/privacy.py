"""Differential privacy of a training: what a recipe requests, and what the training spends.

The accountant is `dp-accounting`, never one of ours: a bound that is wrong by a factor looks like any other.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from math import ceil, isfinite
from typing import Any, NamedTuple

from leakscope.errors import InputError
from leakscope.types import Design

_LARGEST_NOISE = 1e4  # noise multipliers beyond it drown any gradient
_COARSEST, _FINEST = 1e-3, 1e-4  # steps of the privacy loss; the accountant rounds to the safe side


@dataclass(frozen=True)
class Privacy:
    """DP-SGD (Abadi et al. 2016): Poisson-sampled batches, clipped gradients, Gaussian noise.

    Attributes:
        epsilon: what the whole training may spend for each record; None where `noise_multiplier` is given.
        noise_multiplier: standard deviation of the noise, in units of `clip`; None where `epsilon` is given.
        delta: the probability that is excepted from epsilon; below one over the number of members.
        clip: the largest norm of one record's gradient; larger ones are scaled down to it.
        views: flipped and cropped views of a record whose gradients are averaged before clipping
            (augmentation multiplicity, De et al. 2022).
    """

    epsilon: float | None = None
    noise_multiplier: float | None = None
    delta: float = 1e-5
    clip: float = 1.0
    views: int = 1

    def __post_init__(self) -> None:
        problems = _problems(self)
        if problems:
            raise InputError("; ".join(problems))


class Sampling(NamedTuple):
    """How members join batches: each one independently with probability `rate`, at every step.

    `rate` is the recipe's batch size over `n_members`, the number of members that the design gives a model:
    its share of members, to a percent, of the records. That number is public. It is the same for all models,
    and no member of any model changes it.
    """

    n_members: int
    batch_size: int  # expected
    rate: float
    steps_per_epoch: int

    @classmethod
    def of(cls, design: Design, batch_size: int) -> Sampling:
        """The sampling of a design."""
        share = max(0.01, round(float(design.in_mask.mean()), 2))
        n_members = max(1, round(share * design.n_records))
        expected = min(batch_size, n_members)
        return cls(n_members, expected, expected / n_members, ceil(n_members / expected))


@dataclass(frozen=True)
class PrivacySpent:
    """The guarantee of a training with DP-SGD, for each record by itself.

    Neighboring training sets differ by one record more or less. The guarantee covers the weights at every
    checkpoint together, and whatever is computed from them.

    Attributes:
        epsilon: upper bound on epsilon for the whole training.
        delta: the probability that is excepted.
        noise_multiplier: standard deviation of the noise, in units of `clip`.
        clip: largest norm of one record's gradient.
        sampling_rate: probability with which a member joins a batch.
        steps: number of noisy steps.
        accountant: package, version and method that computed epsilon.
    """

    epsilon: float
    delta: float
    noise_multiplier: float
    clip: float
    sampling_rate: float
    steps: int
    accountant: str


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
    spent = _epsilon(multiplier, privacy.delta, sampling.rate, steps)
    return PrivacySpent(
        spent, privacy.delta, multiplier, privacy.clip, sampling.rate, steps, _accountant_name()
    )


def _problems(privacy: Privacy) -> list[str]:
    """Everything wrong with what is requested, in words."""
    problems = []
    if (privacy.epsilon is None) == (privacy.noise_multiplier is None):
        problems.append("give exactly one of epsilon and noise_multiplier")
    for name in ("epsilon", "noise_multiplier", "clip"):
        value = getattr(privacy, name)
        if value is not None and not (value > 0 and isfinite(value)):
            problems.append(f"{name}={value}: must be above 0 and finite")
    if not 0 < privacy.delta < 1:
        problems.append(f"delta={privacy.delta}: must be in (0, 1)")
    if privacy.views < 1:
        problems.append(f"views={privacy.views}: must be at least 1")
    return problems


@cache
def _solved(epsilon: float, delta: float, rate: float, steps: int) -> float:
    """The smallest noise multiplier that spends at most epsilon."""
    import dp_accounting as dp

    with _quiet():
        if _epsilon(_LARGEST_NOISE, delta, rate, steps) > epsilon:
            raise InputError(f"privacy.epsilon={epsilon:g}: no noise gives it in {steps:,} steps; raise it")
        solved = float(
            dp.calibrate_dp_mechanism(
                lambda: _fresh_accountant(steps), lambda noise: _event(noise, rate, steps), epsilon, delta
            )
        )
    while _epsilon(solved, delta, rate, steps) > epsilon:  # the solver's own tolerance
        solved *= 1 + 1e-6
    return solved


@cache
def _epsilon(multiplier: float, delta: float, rate: float, steps: int) -> float:
    with _quiet():
        return float(_fresh_accountant(steps).compose(_event(multiplier, rate, steps)).get_epsilon(delta))


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
