"""The noise floor: every figure recomputed with permuted memberships.

With twenty models, the TPR and the FPR of a record are each a share of ten models. Even records that leak
nothing scatter over the plane, move between checkpoints and enter the vulnerable corner by chance. How often
they do depends on the outputs and on the attack, so it is measured: the outputs of each record and its number
of IN models stay the same, but the IN models are drawn again, independently for each record and identically
at all checkpoints. Attack, decisions and figures are then recomputed. Where membership has no effect on the
outputs, this draws another valid design, so a figure within the range of its floor is no evidence of leakage.

Permuting whole models instead would leave some models with their true members for all records at once.
Independent permutations do not share such coincidences, so a few are enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from leakscope.array_types import FloatArray
from leakscope.attacks.base import Attack
from leakscope.dynamics.decisions import decide
from leakscope.dynamics.grid import SIDE
from leakscope.dynamics.metrics import Arrays, metrics, over_repeats
from leakscope.dynamics.plane import ENTROPY_CELLS, trajectories
from leakscope.errors import InputError
from leakscope.randomness import Purpose, generator
from leakscope.types import Design, Signals

T = TypeVar("T")


@dataclass(frozen=True)
class Floor(Generic[T]):
    """A figure under permuted memberships; undefined where it is so under every permutation.

    Attributes:
        mean: over the permutations.
        low: lowest of the permutations.
        high: highest of the permutations.
    """

    mean: T
    low: T
    high: T


def noise_floor(
    attack: Attack,
    signals: Signals,
    design: Design,
    fpr: float | None = None,
    *,
    seed: int,
    n_permutations: int = 5,
    side: int = SIDE,
    entropy_cells: int = ENTROPY_CELLS,
) -> Floor[Arrays]:
    """Every figure with memberships permuted over the models; `fpr` as in `decide`, cells as in `metrics`."""
    if n_permutations < 1:
        raise InputError(f"n_permutations={n_permutations}: must be at least 1")
    repeats = []
    for permutation in range(n_permutations):
        shuffled = permuted(design, seed, permutation)
        decisions = decide(attack, signals, shuffled, fpr)
        repeats.append(metrics(trajectories(decisions, shuffled.in_mask), side, entropy_cells))
    return Floor(
        mean=over_repeats(repeats, _defined_mean),
        low=over_repeats(repeats, lambda values: np.fmin.reduce(values)),
        high=over_repeats(repeats, lambda values: np.fmax.reduce(values)),
    )


def permuted(design: Design, seed: int, permutation: int) -> Design:
    """The design with each record's IN models drawn again; their number stays the same."""
    rng = generator(seed, 1 + permutation, Purpose.DESIGN)  # 0 drew the design itself
    return Design(rng.permuted(design.in_mask, axis=0))


def _defined_mean(values: FloatArray) -> FloatArray:
    """Mean over the repeats with a value; NaN where there are none."""
    n_defined = (~np.isnan(values)).sum(axis=0)
    mean = np.full(values.shape[1:], np.nan)
    np.divide(np.nansum(values, axis=0), n_defined, out=mean, where=n_defined > 0)
    return mean
