"""The results of a comparison of defences: everything results.json holds, typed.

Rates are shares from 0 to 1. Utility is what a defence may cost: accuracy of classifiers, R² of regressions
(1 minus squared error over the variance of the labels). Intervals are 95% intervals for these records: other
models trained on random halves of them. Differences are "this setting minus no defence", paired by model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from leakscope.evaluate.results import Figure
from leakscope.stats.estimate import Estimate
from leakscope.studies.defences.config import DefencesConfig, LeftOutDefence


@dataclass(frozen=True)
class SetFigures:
    """What the attacks achieve on one set of records.

    Attributes:
        records: number of records in the set.
        attack: label of the attack with the highest AUC.
        auc: AUC of the strongest attack; the attack that is strongest on one half of the set's records and
            one half of the models is measured on the other halves, so the choice does not raise it.
        tpr: true positive rate of the strongest attack at the false positive rate of the comparison; None
            where the set is too small to measure it.
        auc_difference: difference in AUC from no defence; None for no defence itself.
    """

    records: int
    attack: str
    auc: Figure
    tpr: Figure | None
    auc_difference: Estimate | None


@dataclass(frozen=True)
class SettingResults:
    """One defence at one strength.

    Attributes:
        defence: name of the defence; "none" for the models without one.
        label: the defence with its options.
        changes: what it acts on; None for no defence.
        models: number of models that converged.
        utility_members: utility on the records a model was trained on, canaries left out.
        utility: utility on the other records, canaries left out.
        utility_difference: difference in utility on the other records from no defence; None for no defence.
        sets: "population", "canaries" and "worst" -> what the attacks achieve there.
        epsilon: the epsilon that the training guarantees; None without a guarantee.
        is_on_frontier: whether no other setting has both a higher utility and a lower leakage.
        looks_safe_only: whether it looks safe over all records and is not on another set.
        leaks_less: whether its AUC is lower than without a defence on a set that decides, beyond intervals
            that hold for all settings together with 95%.
        tables: what to write into a config file to get it.
    """

    defence: str
    label: str
    changes: str | None
    models: int
    utility_members: Figure
    utility: Figure
    utility_difference: Estimate | None
    sets: Mapping[str, SetFigures]
    epsilon: float | None
    is_on_frontier: bool
    looks_safe_only: bool
    leaks_less: bool
    tables: str


@dataclass(frozen=True)
class Domination:
    """One setting leaks less than another at equal or higher utility, on every set of records that decides.

    Attributes:
        winner: label of the setting that is better.
        loser: label of the other.
        utility_difference: winner minus loser.
        auc_differences: canaries and most exposed records -> winner minus loser.
    """

    winner: str
    loser: str
    utility_difference: Estimate
    auc_differences: Mapping[str, Estimate]


@dataclass(frozen=True)
class BestAtLoss:
    """The setting that leaks least among those that cost no more than a given loss of utility.

    Attributes:
        utility_loss: the largest loss that counts: 0.02 are two points of accuracy, or 0.02 of R².
        label: the setting; "none" where no defence leaks less.
    """

    utility_loss: float
    label: str


@dataclass(frozen=True)
class DefencesResults:
    """The results of a comparison of defences.

    Attributes:
        experiment: kind of results.
        config: what was run.
        records: number of records, canaries included.
        canaries: number of canaries.
        worst: number of the most exposed records.
        decides: the sets of records that decide: canaries, where there are any, and the most exposed records.
            The leakage of a setting is the highest AUC on any of them.
        settings: no defence first, then defence by defence, from weak to strong.
        dominations: pairs of settings of different defences, one of which is better; at equal utility.
        best: the best setting for several losses of utility.
        left_out: defences that do not apply, or whose training failed.
        recipe: how a model without defence is trained.
    """

    experiment: Literal["study defences"]
    config: DefencesConfig
    records: int
    canaries: int
    worst: int
    decides: tuple[str, ...]
    settings: tuple[SettingResults, ...]
    dominations: tuple[Domination, ...]
    best: tuple[BestAtLoss, ...]
    left_out: tuple[LeftOutDefence, ...]
    recipe: Mapping[str, Any]

    @property
    def none(self) -> SettingResults:
        """The models without a defence."""
        return self.settings[0]
