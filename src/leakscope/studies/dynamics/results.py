"""The results of the dynamics study: everything results.json holds, typed.

Conventions: rates and shares lie between 0 and 1, lengths on the plane are in percent of its side, entropies
in bits. A figure that is undefined is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from leakscope.dynamics.entropy_dependence import EntropyFigure
from leakscope.dynamics.jackknife import AdvantageVariation
from leakscope.dynamics.metrics import Metrics
from leakscope.dynamics.noise_floor import Floor
from leakscope.hardness.correlations import HardnessFigures
from leakscope.hardness.over_training import EarlyCorrelations
from leakscope.studies.dynamics.settings import DynamicsConfig, Setting
from leakscope.types import Prose

Number = float | None
Series = tuple[Number, ...]
"""One number per checkpoint, or one per step between two checkpoints."""
Points = tuple[tuple[Number, Number], ...]
"""One (FPR, TPR) per checkpoint."""
T = TypeVar("T")


@dataclass(frozen=True)
class Figure(Generic[T]):
    """A figure with its standard error and its noise floor.

    Attributes:
        value: measured.
        standard_error: jackknife over groups of models.
        floor: the same figure under permuted memberships.
    """

    value: T
    standard_error: T
    floor: Floor[T]

    @property
    def last(self: Figure[Series]) -> Figure[Number]:
        """The figure at the last checkpoint."""
        floor = Floor(self.floor.mean[-1], self.floor.low[-1], self.floor.high[-1])
        return Figure(self.value[-1], self.standard_error[-1], floor)


RunFigures = Metrics[Figure[Points], Figure[Series], Figure[Number]]
FigureErrors = Metrics[Points, Series, Number]


@dataclass(frozen=True)
class RunPopulation:
    """The models and records of one run.

    Attributes:
        models: number of models that converged.
        diverged_models: number of models that diverged; they are excluded.
        records: number of records.
        judged_records: number of records with models trained on them and models not trained on them.
        members_per_model: mean size of a training set.
        device: where the models were trained.
    """

    models: int
    diverged_models: int
    records: int
    judged_records: int
    members_per_model: float
    device: str


@dataclass(frozen=True)
class AccuracyOverTraining:
    """Mean accuracy of the models, per checkpoint.

    Attributes:
        members: on the records a model was trained on.
        nonmembers: on the others.
    """

    members: Series
    nonmembers: Series


@dataclass(frozen=True)
class Transitions:
    """How records move between the cells of the grid.

    Attributes:
        cells: names of the cells.
        overall: row: cell at a checkpoint, column: cell at the next; shares of the row over all of training.
        counts: number of records that move from one cell to another, for each step.
    """

    cells: tuple[Prose, ...]
    overall: tuple[Series, ...]
    counts: tuple[tuple[tuple[int, ...], ...], ...]


@dataclass(frozen=True)
class RunResults:
    """The results of one setting.

    Attributes:
        setting: what was trained.
        population: models and records.
        epochs: epochs of the checkpoints.
        accuracy: of the models, per checkpoint.
        figures: every figure with its standard error and noise floor.
        advantage: variation of the advantage at the last checkpoint.
        transitions: moves between cells.
        hardness: measure of hardness -> its correlations with the advantage.
        early_hardness: measure -> its correlations at each checkpoint with the advantage at the end.
        entropy_by_resolution: the spatial entropy for several numbers of models and of cells.
        complexity: nearest-neighbor error of the records; undefined where their features are unknown.
        undefined: why some figures are missing; empty where none is.
    """

    setting: Setting
    population: RunPopulation
    epochs: tuple[int, ...]
    accuracy: AccuracyOverTraining
    figures: RunFigures
    advantage: AdvantageVariation
    transitions: Transitions
    hardness: Mapping[str, HardnessFigures]
    early_hardness: Mapping[str, EarlyCorrelations]
    entropy_by_resolution: tuple[EntropyFigure, ...]
    complexity: float | None
    undefined: tuple[Prose, ...]


@dataclass(frozen=True)
class PopulationSpread:
    """How much the figures of one setting vary between independent populations.

    Attributes:
        standard_error: standard deviation of every figure over the populations.
        advantage: variation of the advantage at the last checkpoint.
    """

    standard_error: FigureErrors
    advantage: AdvantageVariation


@dataclass(frozen=True)
class DynamicsResults:
    """When, during training, records become exposed.

    Attributes:
        experiment: kind of results.
        config: what was run.
        conventions: term -> how it is defined.
        runs: name of each run -> its results.
        populations: setting -> variation between its independent populations, where there are several.
        runtime: package -> version that computed the results.
    """

    experiment: Literal["dynamics of membership exposure"]
    config: DynamicsConfig
    conventions: Mapping[str, Prose]
    runs: Mapping[str, RunResults]
    populations: Mapping[str, PopulationSpread]
    runtime: Mapping[str, str]
