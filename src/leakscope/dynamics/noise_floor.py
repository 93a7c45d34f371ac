"""What the figures are when membership means nothing: the design permuted over models.

With twenty models a harmless record's TPR and FPR are each a share of ten, so records scatter over the plane,
move between checkpoints and visit the vulnerable corner by chance alone. How often that happens depends on
the answers' shape and on the attack, so it is measured: each record keeps its answers and its number of
IN models, but which models those are is drawn anew, independently for each record, the same at all
checkpoints; then attack, decisions and every figure are recomputed. Where membership leaves no trace
this redraws the design, so a figure within the floor's range says nothing.

One permutation of whole models would leave some models with their true members, for all records at
once; independent ones have no such luck in common, and few permutations suffice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leakscope.array_types import FloatArray
from leakscope.attacks.base import Attack
from leakscope.dynamics.decisions import Convention, decide
from leakscope.dynamics.grid import SIDE
from leakscope.dynamics.metrics import Metrics, metrics, over_repeats
from leakscope.dynamics.plane import ENTROPY_CELLS, trajectories
from leakscope.errors import InputError
from leakscope.randomness import Purpose, generator
from leakscope.types import Design, Signals


@dataclass(frozen=True, eq=False)
class NoiseFloor:
    """Figures over permuted designs: mean, lowest and highest.

    NaN where a figure was undefined under every permutation.
    """

    n_permutations: int
    mean: Metrics
    low: Metrics
    high: Metrics


def noise_floor(
    attack: Attack,
    signals: Signals,
    design: Design,
    convention: Convention | None = None,
    *,
    seed: int,
    n_permutations: int = 5,
    side: int = SIDE,
    entropy_cells: int = ENTROPY_CELLS,
) -> NoiseFloor:
    """Every figure with memberships permuted over models.

    Args:
        attack: the attack.
        signals: the bank's answers.
        design: who was in which training set.
        convention: when a score counts as "member".
        seed: of the permutations.
        n_permutations: how many.
        side: cells on a side of the grid.
        entropy_cells: cells on a side of the entropy's histogram.
    """
    if n_permutations < 1:
        raise InputError(f"n_permutations={n_permutations}: must be at least 1")
    repeats = []
    for permutation in range(n_permutations):
        shuffled = permuted(design, seed, permutation)
        decisions = decide(attack, signals, shuffled, convention)
        repeats.append(metrics(trajectories(decisions, shuffled.in_mask), side, entropy_cells))
    return NoiseFloor(
        n_permutations,
        mean=over_repeats(repeats, _defined_mean),
        low=over_repeats(repeats, lambda values: np.fmin.reduce(values)),
        high=over_repeats(repeats, lambda values: np.fmax.reduce(values)),
    )


def permuted(design: Design, seed: int, permutation: int) -> Design:
    """Each record's memberships dealt out to the models anew; every record keeps its number of IN models."""
    rng = generator(seed, 1 + permutation, Purpose.DESIGN)  # 0 made the design itself
    return Design(rng.permuted(design.in_mask, axis=0))


def _defined_mean(values: FloatArray) -> FloatArray:
    """Mean over the repeats that have a value; NaN where none has."""
    n_defined = (~np.isnan(values)).sum(axis=0)
    mean = np.full(values.shape[1:], np.nan)
    np.divide(np.nansum(values, axis=0), n_defined, out=mean, where=n_defined > 0)
    return mean
