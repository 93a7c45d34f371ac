"""Every figure of the dynamics from one function.

The same code computes the figures for the real design, for permuted designs (`noise_floor`) and without some
of the models (`jackknife`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from leakscope.array_types import FloatArray
from leakscope.dynamics.early_exposure import early_exposure
from leakscope.dynamics.grid import SIDE, entry_probability, is_vulnerable, per_epoch
from leakscope.dynamics.plane import (
    ENTROPY_CELLS,
    Trajectories,
    centre_of_mass,
    encoding_speed,
    net_displacement,
    path_length,
    spatial_entropy,
)


class Metrics(NamedTuple):
    """Figures over the records with IN and OUT models; float64 arrays, scalars of shape ().

    Over checkpoints (checkpoints,): `centre` (checkpoints, 2), `advantage` (mean TPR - FPR), `vulnerable`
    (share of the records in the corner), `entropy` (bits), `recall` and `precision` of early exposure.
    Between checkpoints (checkpoints - 1,): `speed` (percent of the side per epoch), `entry` (probability of
    entering the corner), `entry_per_epoch`. Scalars: `net_displacement` and `path_length` of the center
    (percent of the side), `entropy_change` (bits, last minus first), `peak_entry`,
    `peak_entry_per_epoch`, `first_epoch` (recall of 70%). NaN where undefined, such as every figure about
    steps when there is a single checkpoint.
    """

    centre: FloatArray
    advantage: FloatArray
    vulnerable: FloatArray
    entropy: FloatArray
    recall: FloatArray
    precision: FloatArray
    speed: FloatArray
    entry: FloatArray
    entry_per_epoch: FloatArray
    net_displacement: FloatArray
    path_length: FloatArray
    entropy_change: FloatArray
    peak_entry: FloatArray
    peak_entry_per_epoch: FloatArray
    first_epoch: FloatArray


def metrics(paths: Trajectories, side: int = SIDE, entropy_cells: int = ENTROPY_CELLS) -> Metrics:
    """Every figure of the trajectories.

    Args:
        paths: the path of every record; records without IN or OUT models are ignored.
        side: cells per side of the grid whose corner is called vulnerable.
        entropy_cells: cells per side of the histogram behind the spatial entropy.
    """
    judged = paths.defined()
    states, epochs = judged.states, judged.epochs
    vulnerable = is_vulnerable(states, side)
    centre, entropy = centre_of_mass(states), spatial_entropy(states, entropy_cells)
    entry, exposure = entry_probability(vulnerable), early_exposure(vulnerable, epochs)
    entry_each_epoch = per_epoch(entry, epochs)
    return Metrics(
        centre=centre,
        advantage=judged.advantage.mean(axis=1),
        vulnerable=vulnerable.mean(axis=1),
        entropy=entropy,
        recall=exposure.recall,
        precision=exposure.precision,
        speed=encoding_speed(states, epochs),
        entry=entry,
        entry_per_epoch=entry_each_epoch,
        net_displacement=np.array(net_displacement(centre)),
        path_length=np.array(path_length(centre)),
        entropy_change=np.array(entropy[-1] - entropy[0] if len(epochs) > 1 else np.nan),
        peak_entry=_peak(entry),
        peak_entry_per_epoch=_peak(entry_each_epoch),
        first_epoch=np.array(exposure.first_epoch),
    )


def over_repeats(repeats: Sequence[Metrics], reduce: Callable[[FloatArray], FloatArray]) -> Metrics:
    """Combines the figures of several repeats, one array per figure.

    Args:
        repeats: figures of each repeat.
        reduce: from float64 (repeats, ...) to (...).
    """
    return Metrics(*(np.asarray(reduce(np.stack(arrays))) for arrays in zip(*repeats, strict=True)))


def _peak(values: FloatArray) -> FloatArray:
    """The largest defined value; NaN where none is defined."""
    defined = values[~np.isnan(values)]
    return np.array(defined.max() if len(defined) else np.nan)
