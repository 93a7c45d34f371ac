"""What a recipe requests of DP-SGD, how members are sampled, and what the training spends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, isfinite
from typing import Any, NamedTuple

from leakscope.errors import InputError
from leakscope.types import Design

PRIVACY_SPENT = "privacy_spent"
"""Under which name a bank's description of its recipe has the guarantee of its training."""


@dataclass(frozen=True)
class Privacy:
    """DP-SGD (Abadi et al. 2016): Poisson-sampled batches, clipped gradients, Gaussian noise.

    Attributes:
        epsilon: what the whole training may spend for each record; None where `noise_multiplier` is given.
        noise_multiplier: standard deviation of the noise, in units of `clip`; None where `epsilon` is given.
        delta: the probability with which epsilon may fail; below one over the number of members.
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
        delta: the probability with which epsilon may fail.
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

    @classmethod
    def of_recipe(cls, description: Mapping[str, Any]) -> PrivacySpent | None:
        """The guarantee in a bank's description of its recipe; None: models were trained without."""
        stored = description.get(PRIVACY_SPENT)
        return None if stored is None else cls(**stored)


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
