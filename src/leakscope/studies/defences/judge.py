"""From the banks of a comparison to its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.attacks.spec import resolve_all
from leakscope.bank.bank import Bank
from leakscope.evaluate.attacked import converged_models, without_models
from leakscope.evaluate.most_exposed import most_exposed_of_population
from leakscope.leakage.bits import MOST_EXPOSED_SHARE
from leakscope.stats.estimate import Estimate
from leakscope.studies.defences.config import DefencesConfig, LeftOutDefence, Tried
from leakscope.studies.defences.figures import (
    PopulationFigures,
    SetLeakage,
    population_figures,
)
from leakscope.studies.defences.frontier import best_at_loss, dominating_pairs, on_frontier
from leakscope.studies.defences.results import (
    BestAtLoss,
    DefencesResults,
    Domination,
    SetFigures,
    SettingResults,
)

POPULATION, CANARIES, WORST = "population", "canaries", "worst"
LOSSES = (0.0, 0.01, 0.02, 0.05)
"""Losses of utility for which the best setting is named."""
_FEWEST_WORST = 40  # an audit chooses anew for every target, and measures 1% of the records of each
_LOOKS_SAFE, _IS_EXPOSED = 0.55, 0.65
_MOST_DIVERGED = 0.25  # share of the models of a setting; with more, the setting is left out


@dataclass(frozen=True, eq=False)
class Populations:
    """The settings that trained, and what they share."""

    tried: Sequence[int]  # positions in config.settings
    figures: Sequence[PopulationFigures]
    left_out: Sequence[LeftOutDefence]


def judged(
    config: DefencesConfig, banks: Sequence[Bank], choosing: Bank, is_canary: BoolArray
) -> DefencesResults:
    """The results of a comparison.

    Args:
        config: what was run.
        banks: one per setting, no defence first.
        choosing: a population without defence that chooses the most exposed records.
        is_canary: bool (records,).
    """
    sets = _sets(choosing, is_canary)
    populations = _populations(config, banks, np.flatnonzero(~is_canary), sets)
    compared = _Compared(populations.figures)
    frontier = on_frontier(compared.utility, compared.leakage)
    settings = tuple(
        _setting(config.settings[at], compared, k, bool(frontier[k]))
        for k, at in enumerate(populations.tried)
    )
    names = [setting.defence for setting in settings]
    pairs = dominating_pairs(names, compared.utility_difference, compared.leakage_differences)
    return DefencesResults(
        experiment="study defences",
        config=config,
        records=len(is_canary),
        canaries=int(is_canary.sum()),
        worst=len(sets[WORST]),
        decides=tuple(sets),
        settings=settings,
        dominations=tuple(
            Domination(
                settings[winner].label,
                settings[loser].label,
                compared.utility_difference(winner, loser),
                compared.leakage_differences(winner, loser),
            )
            for winner, loser in pairs
        ),
        best=tuple(
            BestAtLoss(loss, settings[best_at_loss(compared.utility, compared.leakage, loss)].label)
            for loss in LOSSES
        ),
        left_out=(*config.inapplicable, *populations.left_out),
        recipe=banks[0].identity.recipe,
    )


def _sets(choosing: Bank, is_canary: BoolArray) -> dict[str, IntArray]:
    """The records of each set; canaries are in none but their own, for nobody would meet them in practice."""
    signals, design = converged_models(choosing)
    others = np.flatnonzero(~is_canary)
    n_worst = min(max(round(MOST_EXPOSED_SHARE * len(others)), _FEWEST_WORST), len(others))
    worst = most_exposed_of_population(signals, design, others, n_worst, choosing.scratch)
    canaries = {CANARIES: np.flatnonzero(is_canary)} if is_canary.any() else {}
    return {**canaries, WORST: worst}


def _populations(
    config: DefencesConfig, banks: Sequence[Bank], population: IntArray, sets: Mapping[str, IntArray]
) -> Populations:
    """The figures of each setting, over the models that converged in all of them."""
    failed = [at for at, bank in enumerate(banks) if len(bank.diverged) > _MOST_DIVERGED * config.models]
    tried = [at for at in range(len(banks)) if at not in failed]
    diverged = {model for at in tried for model in banks[at].diverged}
    attacks = {attack.label: attack for attack in resolve_all(config.attacks)}

    def figures(bank: Bank) -> PopulationFigures:
        signals, design = without_models(bank.signals(), bank.design(), diverged)
        return population_figures(signals, design, attacks, population, sets, config.fpr)

    reasons = {at: f"{len(banks[at].diverged)} of {config.models} models diverged" for at in failed}
    left_out = [LeftOutDefence(config.settings[at].label, reason) for at, reason in reasons.items()]
    return Populations(tried, [figures(banks[at]) for at in tried], left_out)


class _Compared:
    """Figures of all settings, and their differences."""

    def __init__(self, figures: Sequence[PopulationFigures]) -> None:
        self.figures = figures
        self.utility: FloatArray = np.array([one.utility.figure.value for one in figures])
        self.leakage: FloatArray = np.array([
            max(own.auc.figure.value or 0.0 for own in one.sets.values()) for one in figures
        ])  # fmt: skip

    def utility_difference(self, one: int, other: int) -> Estimate:
        """In utility on records that a model was not trained on."""
        return self.figures[one].utility.minus(self.figures[other].utility)

    def leakage_differences(self, one: int, other: int) -> dict[str, Estimate]:
        """In AUC, on each set of records that decides."""
        first, second = (self.figures[at].sets for at in (one, other))
        return {name: own.auc.minus(second[name].auc) for name, own in first.items()}

    def leaks_less(self, at: int) -> bool:
        """Whether a setting leaks less than no defence; its intervals hold for all settings together."""
        none, own = self.figures[0].sets, self.figures[at].sets
        n_intervals = max(len(self.figures) - 1, 1) * len(own)
        ends = [one.auc.minus(none[name].auc, 1 - 0.05 / n_intervals).high for name, one in own.items()]
        return any(high is not None and high < 0 for high in ends)


def _setting(tried: Tried, compared: _Compared, at: int, is_on_frontier: bool) -> SettingResults:
    own, none = compared.figures[at], compared.figures[0]
    pairs = {POPULATION: (own.population, none.population)}
    pairs |= {name: (one, none.sets[name]) for name, one in own.sets.items()}
    sets = {name: _set_figures(*pair, is_none=at == 0) for name, pair in pairs.items()}
    return SettingResults(
        defence=tried.defence,
        label=tried.label,
        changes=tried.changes,
        models=own.n_models,
        utility_members=own.utility_members.figure,
        utility=own.utility.figure,
        utility_difference=None if at == 0 else own.utility.minus(none.utility),
        sets=sets,
        epsilon=tried.epsilon,
        is_on_frontier=is_on_frontier,
        looks_safe_only=looks_safe_only(sets),
        leaks_less=compared.leaks_less(at),
        tables=tried.tables,
    )


def _set_figures(own: SetLeakage, none: SetLeakage, *, is_none: bool) -> SetFigures:
    difference = None if is_none else own.auc.minus(none.auc)
    return SetFigures(own.n_records, own.attack, own.auc.figure, own.tpr, difference)


def looks_safe_only(sets: Mapping[str, SetFigures]) -> bool:
    """Whether the AUC is surely below 0.55 over all records, and surely above 0.65 on another set."""
    high = sets[POPULATION].auc.these_high
    lows = [one.auc.these_low or 0.0 for name, one in sets.items() if name != POPULATION]
    return high is not None and high < _LOOKS_SAFE and max(lows) > _IS_EXPOSED
