"""How the spatial entropy depends on choices that the publication leaves open: models, and cells per side.

Rates are multiples of one over the number of IN models, so with M models a record can be in about (M/2 + 1)^2
places however fine the cells are. Entropies of different numbers of models or cells cannot be compared; this
table shows by how much they differ on the same outputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leakscope.array_types import IntArray
from leakscope.attacks.base import Attack
from leakscope.dynamics.decisions import decide
from leakscope.dynamics.noise_floor import permuted
from leakscope.dynamics.plane import spatial_entropy, trajectories
from leakscope.types import Design, Signals

CELLS = (3, 5, 10, 20, 40)
_FEWEST_MODELS = 4


@dataclass(frozen=True)
class EntropyFigure:
    """The spatial entropy for one number of models and of cells.

    Attributes:
        models: number of models.
        cells: cells per side.
        first: entropy in bits at the first checkpoint.
        last: entropy in bits at the last checkpoint.
        floor_change: last minus first under permuted memberships, in bits.
    """

    models: int
    cells: int
    first: float
    last: float
    floor_change: float

    @property
    def change(self) -> float:
        """Last minus first, in bits."""
        return self.last - self.first


def entropy_dependence(
    attack: Attack, signals: Signals, design: Design, fpr: float | None, *, seed: int
) -> tuple[EntropyFigure, ...]:
    """The entropy with all models and with the first half of them, for several numbers of cells."""
    n_models = design.n_models
    halves = [n for n in (n_models, n_models // 2) if n >= _FEWEST_MODELS]
    return tuple(f for n in halves for f in _of_models(attack, signals, design, fpr, np.arange(n), seed))


def _of_models(
    attack: Attack, signals: Signals, design: Design, fpr: float | None, models: IntArray, seed: int
) -> list[EntropyFigure]:
    ends = [0, -1]
    arrays = {name: signals.arrays[name][models][:, ends] for name in attack.needs}
    own = Signals(arrays, (signals.epochs[0], signals.epochs[-1]), signals.labels)
    designs = (design.take(models), permuted(design.take(models), seed, 0))
    real, by_chance = (trajectories(decide(attack, own, d, fpr), d.in_mask).defined().states for d in designs)
    figures = []
    for cells in CELLS:
        (first, last), floor = spatial_entropy(real, cells), spatial_entropy(by_chance, cells)
        figures.append(EntropyFigure(len(models), cells, float(first), float(last), float(np.diff(floor)[0])))
    return figures
