"""The types of the figures in results.json: a number, a series over checkpoints or a path over the plane.

Each has its standard error and its noise floor. A figure that is undefined is None.
"""

from __future__ import annotations

from dataclasses import dataclass

Series = tuple[float | None, ...]
"""One number per checkpoint, or one per step between two checkpoints."""
Points = tuple[tuple[float | None, float | None], ...]
"""One (FPR, TPR) per checkpoint."""


class _ValueErrorFloor:
    """A figure with its standard error and its noise floor.

    Attributes:
        value: measured.
        standard_error: jackknife over groups of models.
        floor: the same figure under permuted memberships.
    """


class _MeanLowHigh:
    """A figure under permuted memberships.

    Attributes:
        mean: over the permutations.
        low: lowest of the permutations.
        high: highest of the permutations.
    """


@dataclass(frozen=True)
class Floor(_MeanLowHigh):
    """Noise floor of a single number."""

    mean: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Figure(_ValueErrorFloor):
    """A single number with its standard error and noise floor."""

    value: float | None
    standard_error: float | None
    floor: Floor


@dataclass(frozen=True)
class SeriesFloor(_MeanLowHigh):
    """Noise floor of a series over checkpoints."""

    mean: Series
    low: Series
    high: Series


@dataclass(frozen=True)
class SeriesFigure(_ValueErrorFloor):
    """A series over checkpoints with its standard errors and noise floor."""

    value: Series
    standard_error: Series
    floor: SeriesFloor

    @property
    def last(self) -> Figure:
        """The figure at the last checkpoint."""
        floor = Floor(self.floor.mean[-1], self.floor.low[-1], self.floor.high[-1])
        return Figure(self.value[-1], self.standard_error[-1], floor)


@dataclass(frozen=True)
class PointsFloor(_MeanLowHigh):
    """Noise floor of a path over the plane."""

    mean: Points
    low: Points
    high: Points


@dataclass(frozen=True)
class PointsFigure(_ValueErrorFloor):
    """A path over the plane with its standard errors and noise floor."""

    value: Points
    standard_error: Points
    floor: PointsFloor


class _Metrics:
    """The figures of one run, see `leakscope.dynamics.metrics`.

    Attributes:
        centre: center of mass of all records, (mean FPR, mean TPR) per checkpoint.
        advantage: mean TPR - FPR over the records, per checkpoint.
        vulnerable: share of the records in the vulnerable corner, per checkpoint.
        entropy: spatial entropy of the records on the plane, in bits, per checkpoint.
        recall: of the records vulnerable at the end, the share in the corner at a checkpoint.
        precision: of the records in the corner at a checkpoint, the share vulnerable at the end.
        speed: mean distance a record moves per epoch, in percent of the side, per step.
        entry: share of the records outside the corner that are inside at the next checkpoint, per step.
        entry_per_epoch: the constant probability per epoch that gives `entry`, per step.
        net_displacement: of the center of mass from first to last checkpoint, in percent of the side.
        path_length: of the center of mass, in percent of the side.
        entropy_change: entropy at the last checkpoint minus at the first, in bits.
        peak_entry: the largest `entry`.
        peak_entry_per_epoch: the largest `entry_per_epoch`.
        first_epoch: first checkpoint at which `recall` is at least 70%.
    """


@dataclass(frozen=True)
class RunFigures(_Metrics):
    """Every figure of one run, with standard errors and noise floors."""

    centre: PointsFigure
    advantage: SeriesFigure
    vulnerable: SeriesFigure
    entropy: SeriesFigure
    recall: SeriesFigure
    precision: SeriesFigure
    speed: SeriesFigure
    entry: SeriesFigure
    entry_per_epoch: SeriesFigure
    net_displacement: Figure
    path_length: Figure
    entropy_change: Figure
    peak_entry: Figure
    peak_entry_per_epoch: Figure
    first_epoch: Figure


@dataclass(frozen=True)
class FigureErrors(_Metrics):
    """The standard error of every figure."""

    centre: Points
    advantage: Series
    vulnerable: Series
    entropy: Series
    recall: Series
    precision: Series
    speed: Series
    entry: Series
    entry_per_epoch: Series
    net_displacement: float | None
    path_length: float | None
    entropy_change: float | None
    peak_entry: float | None
    peak_entry_per_epoch: float | None
    first_epoch: float | None
