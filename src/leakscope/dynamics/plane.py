"""The vulnerability plane: the state (FPR, TPR) of each record and how it moves during training.

TPR is the share of the models trained on a record (IN) whose output counts as a member's; FPR is the same
share of the models not trained on it (OUT). At (0, 1) an attacker is right about every model; on the diagonal
the attack is no better than guessing. The vulnerability of a record is its advantage, TPR - FPR.

Lengths are in percent of the plane's side, so the diagonal is 141 long. A point on the border between two
cells belongs to the higher cell; rates are fractions k/n, so the test is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.dynamics.decisions import Decisions
from leakscope.errors import InputError
from leakscope.report.charts import Chart, axis, line
from leakscope.report.notebook import picture

ENTROPY_CELLS = 20
_PERCENT = 100.0
_ROUNDING = 1e-9  # k/n times a whole number misses a border by less
_DECIMALS = 9  # differences of fractions of up to ten thousand models


@dataclass(frozen=True, eq=False)
class Trajectories:
    """The path of every record over the plane.

    Attributes:
        epochs: epochs of the checkpoints.
        states: float64 (checkpoints, records, 2), FPR then TPR; NaN for a record that every model or
            no model was trained on.
    """

    epochs: tuple[int, ...]
    states: FloatArray

    @property
    def is_defined(self) -> BoolArray:
        """bool (records,): whether a record has IN and OUT models."""
        return np.asarray(~np.isnan(self.states).any(axis=(0, 2)))

    @property
    def advantage(self) -> FloatArray:
        """TPR - FPR; float64 (checkpoints, records), in [-1, 1].

        Rounded: 0.3 - 0.1 is not 0.2 in floating point, and rank correlations depend on who is equal.
        """
        advantage: FloatArray = np.round(self.states[..., 1] - self.states[..., 0], _DECIMALS)
        return advantage

    def defined(self) -> Trajectories:
        """The paths of the records with IN and OUT models."""
        if not self.is_defined.any():
            raise InputError("no record has both IN and OUT models; train more models")
        return Trajectories(self.epochs, self.states[:, self.is_defined])

    def _repr_html_(self) -> str:
        """The plane at the first, a middle and the last checkpoint, for a notebook."""
        return _drawn(self)


def trajectories(decisions: Decisions, in_mask: BoolArray) -> Trajectories:
    """The states: shares of OUT and of IN models whose output counts as a member's.

    Args:
        decisions: bool (models, checkpoints, records).
        in_mask: bool (models, records).
    """
    n_in = in_mask.sum(axis=0)
    member = in_mask[:, None]
    hits = np.count_nonzero(decisions.is_called & member, axis=0)  # (checkpoints, records)
    false_alarms = np.count_nonzero(decisions.is_called & ~member, axis=0)
    with np.errstate(invalid="ignore"):
        states = np.stack([false_alarms / (len(in_mask) - n_in), hits / n_in], axis=-1)
    states[:, np.isnan(states).any(axis=(0, 2))] = np.nan
    return Trajectories(decisions.epochs, states)


def cells(states: FloatArray, side: int) -> IntArray:
    """Number of the cell of each state on a side x side grid: `side * FPR part + TPR part`; int64."""
    parts = np.minimum((states * side + _ROUNDING).astype(np.int64), side - 1)
    numbers: IntArray = parts[..., 0] * side + parts[..., 1]
    return numbers


def net_displacement(centre: FloatArray) -> float:
    """Distance from the first to the last center of mass, in percent of the side; NaN for one checkpoint."""
    if len(centre) < 2:
        return float("nan")
    return _PERCENT * float(np.linalg.norm(centre[-1] - centre[0]))


def path_length(centre: FloatArray) -> float:
    """Length of the path of the center of mass, in percent of the side; NaN for one checkpoint."""
    if len(centre) < 2:
        return float("nan")
    return _PERCENT * float(np.linalg.norm(np.diff(centre, axis=0), axis=-1).sum())


def spatial_entropy(states: FloatArray, side: int = ENTROPY_CELLS) -> FloatArray:
    """Entropy in bits of a side x side histogram of the records; (checkpoints,).

    0 where all records share a cell, at most `2 log2(side)`; less with few models, because their rates are
    multiples of one over the number of models.
    """
    entropies = []
    for at_checkpoint in cells(states, side):
        share = np.bincount(at_checkpoint) / len(at_checkpoint)
        share = share[share > 0]
        entropies.append(max(0.0, -float(share @ np.log2(share))))
    return np.array(entropies)


def encoding_speed(states: FloatArray, epochs: tuple[int, ...]) -> FloatArray:
    """Mean distance a record moves per epoch, in percent of the side; (checkpoints - 1,)."""
    moved = np.linalg.norm(np.diff(states, axis=0), axis=-1).mean(axis=1)
    speed: FloatArray = _PERCENT * moved / np.diff(epochs)
    return speed


def _drawn(paths: Trajectories) -> str:
    """The records on the plane, with the path of the center of mass up to each checkpoint."""
    if not paths.is_defined.any():
        return "<p>No plane: no record has both IN and OUT models.</p>"
    last = len(paths.epochs) - 1
    return picture([plane_chart(paths, at) for at in sorted({0, last // 2, last})])


def plane_chart(paths: Trajectories, at: int) -> Chart:
    """The defined records at one checkpoint, darker where there are more."""
    states = paths.defined().states
    centre = states.mean(axis=1)[: at + 1]
    counts = np.bincount(cells(states[at], ENTROPY_CELLS), minlength=ENTROPY_CELLS**2)
    middles = (np.arange(ENTROPY_CELLS) + 0.5) / ENTROPY_CELLS
    density = {
        "type": "heatmap",
        "x": middles,
        "y": middles,
        "z": np.sqrt(counts.reshape(ENTROPY_CELLS, ENTROPY_CELLS).T),  # a root: single records stay visible
        "colorscale": [[0, "var(--paper)"], [1, "var(--c0)"]],
    }
    diagonal = line([0, 1], [0, 1], "guessing", "var(--muted)", "dash")
    path = line(centre[:, 0], centre[:, 1], "center of mass", "var(--c1)")
    title = f"Epoch {paths.epochs[at]}: mean advantage {centre[at, 1] - centre[at, 0]:.3f}"
    alt = f"{title}; {states.shape[1]:,} records on the vulnerability plane, darker where there are more"
    axes = {
        "xaxis": axis("FPR: share of OUT models", range=[0, 1]),
        "yaxis": axis("TPR: share of IN models", range=[0, 1]),
    }
    return Chart(
        "plane",
        {"data": [density, diagonal, path], "layout": {**axes, "showlegend": False}},
        alt,
        title=title,
    )
