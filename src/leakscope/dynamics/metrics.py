"""Every figure of the dynamics from one function.

The same code computes the figures for the real design, for permuted designs (`noise_floor`) and without some
of the models (`jackknife`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from leakscope.array_types import FloatArray
from leakscope.dynamics.grid import (
    SIDE,
    early_exposure,
    entry_of_all,
    entry_probability,
    ever_vulnerable,
    is_vulnerable,
    per_epoch,
    stay_probabilities,
)
from leakscope.dynamics.plane import (
    ENTROPY_CELLS,
    Trajectories,
    encoding_speed,
    net_displacement,
    path_length,
    spatial_entropy,
)

PathT = TypeVar("PathT")
SeriesT = TypeVar("SeriesT")
NumberT = TypeVar("NumberT")


@dataclass(frozen=True)
class Metrics(Generic[PathT, SeriesT, NumberT]):
    """Every figure of the dynamics, over the records with IN and OUT models.

    Attributes:
        centre: center of mass of all records, (mean FPR, mean TPR) per checkpoint.
        advantage: mean TPR - FPR over the records, per checkpoint.
        vulnerable: share of the records in the vulnerable corner, per checkpoint.
        entropy: spatial entropy of the records on the plane, in bits, per checkpoint.
        recall: of the records vulnerable at the end, the share in the corner at a checkpoint.
        precision: of the records in the corner at a checkpoint, the share vulnerable at the end.
        ever_recall: of the records vulnerable at the end, the share that was in the corner at a checkpoint or
            before.
        ever_precision: of the records that were in the corner at a checkpoint or before, the share vulnerable
            at the end.
        speed: mean distance a record moves per epoch, in percent of the side, per step.
        entry: share of the records outside the corner that are inside at the next checkpoint, per step.
        entry_of_all: share of all records that are outside the corner and inside at the next checkpoint, per
            step.
        entry_per_epoch: the constant probability per epoch that gives `entry`, per step.
        net_displacement: of the center of mass from first to last checkpoint, in percent of the side.
        path_length: of the center of mass, in percent of the side.
        entropy_change: entropy at the last checkpoint minus at the first, in bits.
        peak_entry: the largest `entry`.
        peak_entry_of_all: the largest `entry_of_all`.
        peak_entry_per_epoch: the largest `entry_per_epoch`.
        first_epoch: first checkpoint at which `recall` is at least 70%.
        first_epoch_ever: first checkpoint at which `ever_recall` is at least 70%.
        newcomers_stay: of the records that entered the corner, the share still there one checkpoint later.
        others_stay: the same share of the records that had been in the corner before.
    """

    centre: PathT
    advantage: SeriesT
    vulnerable: SeriesT
    entropy: SeriesT
    recall: SeriesT
    precision: SeriesT
    ever_recall: SeriesT
    ever_precision: SeriesT
    speed: SeriesT
    entry: SeriesT
    entry_of_all: SeriesT
    entry_per_epoch: SeriesT
    net_displacement: NumberT
    path_length: NumberT
    entropy_change: NumberT
    peak_entry: NumberT
    peak_entry_of_all: NumberT
    peak_entry_per_epoch: NumberT
    first_epoch: NumberT
    first_epoch_ever: NumberT
    newcomers_stay: NumberT
    others_stay: NumberT


Arrays = Metrics[FloatArray, FloatArray, FloatArray]
"""Figures as float64 arrays: `centre` (checkpoints, 2), series (checkpoints,) or (steps,), numbers ().

NaN where undefined, such as every figure about steps when there is a single checkpoint.
"""


def metrics(paths: Trajectories, side: int = SIDE, entropy_cells: int = ENTROPY_CELLS) -> Arrays:
    """Every figure of the trajectories.

    Args:
        paths: the path of every record; records without IN or OUT models are ignored.
        side: cells per side of the grid whose corner is called vulnerable.
        entropy_cells: cells per side of the histogram behind the spatial entropy.
    """
    judged = paths.defined()
    states, epochs = judged.states, judged.epochs
    vulnerable = is_vulnerable(states, side)
    centre, entropy = states.mean(axis=1), spatial_entropy(states, entropy_cells)
    entry, of_all = entry_probability(vulnerable), entry_of_all(vulnerable)
    exposure = early_exposure(vulnerable, vulnerable[-1], epochs)
    ever = early_exposure(ever_vulnerable(vulnerable), vulnerable[-1], epochs)
    newcomers_stay, others_stay = stay_probabilities(vulnerable)
    entry_each_epoch = per_epoch(entry, epochs)
    return Metrics(
        centre=centre,
        advantage=judged.advantage.mean(axis=1),
        vulnerable=vulnerable.mean(axis=1),
        entropy=entropy,
        recall=exposure.recall,
        precision=exposure.precision,
        ever_recall=ever.recall,
        ever_precision=ever.precision,
        speed=encoding_speed(states, epochs),
        entry=entry,
        entry_of_all=of_all,
        entry_per_epoch=entry_each_epoch,
        net_displacement=np.array(net_displacement(centre)),
        path_length=np.array(path_length(centre)),
        entropy_change=np.array(entropy[-1] - entropy[0] if len(epochs) > 1 else np.nan),
        peak_entry=_peak(entry),
        peak_entry_of_all=_peak(of_all),
        peak_entry_per_epoch=_peak(entry_each_epoch),
        first_epoch=np.array(exposure.first_epoch),
        first_epoch_ever=np.array(ever.first_epoch),
        newcomers_stay=np.array(newcomers_stay),
        others_stay=np.array(others_stay),
    )


def over_repeats(repeats: Sequence[Arrays], reduce: Callable[[FloatArray], FloatArray]) -> Arrays:
    """Combines the figures of several repeats; `reduce` gets float64 (repeats, ...), returns (...)."""
    by_figure = zip(*(vars(repeat).values() for repeat in repeats), strict=True)
    return Metrics(*(np.asarray(reduce(np.stack(arrays))) for arrays in by_figure))


def _peak(values: FloatArray) -> FloatArray:
    """The largest defined value; NaN where none is defined."""
    defined = values[~np.isnan(values)]
    return np.array(defined.max() if len(defined) else np.nan)
