"""The results of advice: everything results.json holds, typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from leakscope.compare.results import DifferenceFigure
from leakscope.evaluate.nouns import Noun
from leakscope.evaluate.rating_results import Level
from leakscope.evaluate.utility import UtilityName
from leakscope.stats.estimate import Estimate
from leakscope.types import Prose

Effect = Literal["leaks less", "leaks more", "no difference detected"]


@dataclass(frozen=True)
class AdviceConfig:
    """What was tried, on what.

    Attributes:
        toml: the config file of the model; None where records and recipe were given in Python.
        records: name of the records.
        records_sha256: sha256 of the records.
        recipe: how one model is trained without a defence.
        minutes: time that the user gave.
        accepted_loss: accuracy that the user would give up, as a share; of a regression, R².
        utility: what a defence may cost, accuracy or R² (1 minus squared error over the variance of labels).
        unit: the column that says whose record it is; None: every record is a unit.
        seed: seed that all randomness derives from.
        design: how memberships are drawn; the same for every defence.
        models: models per defence.
        attacks: attacks as text, see `leakscope.attacks.spec`.
        fpr: the false positive rate of the TPR; None where the records resolve none well.
        defences: the defences to try, in order.
        settings: defence -> the tables of a config file that switch it on.
        not_applicable: defence -> why it cannot protect these models.
    """

    toml: str | None
    records: str
    records_sha256: str
    recipe: Mapping[str, Any]
    minutes: float
    accepted_loss: float
    utility: UtilityName
    unit: str | None
    seed: int
    design: str
    models: int
    attacks: tuple[str, ...]
    fpr: float | None
    defences: tuple[str, ...]
    settings: Mapping[str, str]
    not_applicable: Mapping[str, Prose]

    @property
    def noun(self) -> Noun:
        """What the figures are about: records, or the units."""
        return Noun.of_unit(self.unit)


@dataclass(frozen=True)
class PopulationSummary:
    """Models without a defence, or with one.

    Attributes:
        rating: how much leaks, in one word.
        attack: the strongest attack against them.
        auc: its AUC; the interval is for other models trained on random halves of these records.
        most_exposed: AUC of the strongest attack on the most exposed 1%, with such an interval; no value
            where they are too few.
        utility: accuracy or R² on non-members, with such an interval.
        converged: number of models that converged.
    """

    rating: Level
    attack: str
    auc: Estimate
    most_exposed: Estimate
    utility: Estimate
    converged: int


@dataclass(frozen=True)
class Tried:
    """A defence that was tried.

    Attributes:
        defence: the defence as text.
        settings: the tables of a config file that switch it on.
        population: the models with it.
        auc: AUC of the strongest attack against the models with it, and against those without; the interval
            of the difference holds for all defences together.
        tpr: the same of the TPR at a low FPR; None where the records resolve none well.
        utility: accuracy or R² on non-members, likewise.
        effect: whether the interval of the AUC's difference lies below zero, above it, or contains it.
        is_affordable: whether it costs no more accuracy or R² than the user accepts.
        dominated_by: a defence that surely leaks less than none, and by the estimates leaks no more than this
            one and predicts no worse; None: there is none.
    """

    defence: str
    settings: str
    population: PopulationSummary
    auc: DifferenceFigure
    tpr: DifferenceFigure | None
    utility: DifferenceFigure
    effect: Effect
    is_affordable: bool
    dominated_by: str | None


@dataclass(frozen=True)
class AdviceResults:
    """What each defence gains and costs for one model.

    Attributes:
        experiment: kind of results.
        config: what was tried, on what.
        baseline: the models without a defence.
        tried: the defences, best first.
        not_tried: defence -> why it was not tried.
        recommended: the first that leaks less and is affordable; None: no defence does.
        level: confidence of each interval; all of them hold together with 95%.
        gate: a `[gate]` table for the recommended config, or for the present one.
        gate_reasons: why its limits are these.
    """

    experiment: Literal["advise"]
    config: AdviceConfig
    baseline: PopulationSummary
    tried: tuple[Tried, ...]
    not_tried: Mapping[str, Prose]
    recommended: str | None
    level: float
    gate: str
    gate_reasons: tuple[Prose, ...]

    @property
    def best(self) -> Tried | None:
        """The recommended defence."""
        return next((one for one in self.tried if one.defence == self.recommended), None)
