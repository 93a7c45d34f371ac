"""A claim of differential privacy: what somebody says about a training, to be put to the test."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from numbers import Real
from typing import Literal

from leakscope.errors import InputError
from leakscope.privacy.accounting import epsilon_of_steps

_OF_STEPS = ("noise_multiplier", "sampling_rate", "steps")


@dataclass(frozen=True)
class Claim:
    """ "This training is (epsilon, delta)-private."

    Attributes:
        epsilon: the claimed epsilon; None where the settings of DP-SGD are claimed instead.
        delta: the probability with which the guarantee may fail.
        noise_multiplier: standard deviation of the noise, in units of the clipping norm.
        sampling_rate: probability with which a record joins a batch.
        steps: number of noisy steps.
        confidence: a true claim is refuted with at most the remaining probability.
        tradeoff: "any" private training; or "gaussian": the training reveals no more than a Gaussian
            mechanism of this epsilon and delta, as with DP-SGD. Fewer models refute it, because more is
            claimed. Settings of DP-SGD claim it, too.
    """

    epsilon: float | None = None
    delta: float = 1e-5
    noise_multiplier: float | None = None
    sampling_rate: float | None = None
    steps: int | None = None
    confidence: float = 0.95
    tradeoff: Literal["any", "gaussian"] = "any"

    def __post_init__(self) -> None:
        problems = _problems(self)
        if problems:
            raise InputError("claim: " + "; ".join(problems))

    @property
    def is_gaussian(self) -> bool:
        """Whether the claim is that no more is revealed than by a Gaussian mechanism."""
        return self.tradeoff == "gaussian" or self.noise_multiplier is not None

    @property
    def supposes_sampling(self) -> bool:
        """Whether epsilon was accounted for batches that records join independently, not all of them."""
        return self.sampling_rate is not None and self.sampling_rate < 1

    def claimed_epsilon(self) -> float:
        """Epsilon as claimed, or of the claimed settings by the accountant."""
        if self.epsilon is not None:
            return self.epsilon
        assert self.noise_multiplier is not None and self.sampling_rate is not None
        assert self.steps is not None, "the three are given together"
        return epsilon_of_steps(self.noise_multiplier, self.delta, self.sampling_rate, self.steps)


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _problems(claim: Claim) -> list[str]:
    """Everything wrong with a claim, in words."""
    problems = [
        f"{name}={value!r}: must be a number"
        for name, value in vars(claim).items()
        if name != "tradeoff"
        and not (value is None and name in ("epsilon", *_OF_STEPS))
        and not _is_number(value)
    ]
    if problems:
        return problems
    given = [name for name in _OF_STEPS if getattr(claim, name) is not None]
    if (claim.epsilon is None) != (len(given) == len(_OF_STEPS)) or (claim.epsilon is not None and given):
        problems.append(f"give either epsilon, or all of {', '.join(_OF_STEPS)}")
    for name in ("epsilon", *_OF_STEPS):
        value = getattr(claim, name)
        if value is not None and not (value > 0 and isfinite(value)):
            problems.append(f"{name}={value}: must be above 0 and finite")
    if claim.steps is not None and int(claim.steps) != claim.steps:
        problems.append(f"steps={claim.steps}: must be a whole number")
    if claim.sampling_rate is not None and claim.sampling_rate > 1:
        problems.append(f"sampling_rate={claim.sampling_rate}: must be at most 1")
    if not 0 <= claim.delta < 1:
        problems.append(f"delta={claim.delta}: must be in [0, 1)")
    if not 0.5 <= claim.confidence < 1:
        problems.append(f"confidence={claim.confidence}: must be at least 0.5 and below 1")
    if claim.tradeoff not in ("any", "gaussian"):
        problems.append(f'tradeoff={claim.tradeoff!r}: choose "any" or "gaussian"')
    elif claim.is_gaussian and claim.delta == 0:
        problems.append("delta=0: a Gaussian mechanism has no finite epsilon there; give a delta above 0")
    return problems
