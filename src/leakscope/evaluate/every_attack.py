"""What every attack achieves on the population, the most exposed records and the canaries."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from leakscope.array_types import IntArray
from leakscope.attacks.spec import resolve_all
from leakscope.evaluate.attack_figures import Groups, Scored, attack_figures
from leakscope.evaluate.attacked import Attacked
from leakscope.evaluate.config import EvaluationConfig
from leakscope.evaluate.headline import HalfAucs, half_aucs, strongest
from leakscope.evaluate.most_exposed import most_exposed_records
from leakscope.evaluate.record_sets import RecordSet, SetScores, figures_in_set, strongest_in_set
from leakscope.evaluate.results import AttackFigures, Headline
from leakscope.evaluate.uncertainty import Replicates, Sample


class _Sets(NamedTuple):
    """The sets of records that have figures of their own, by indices among all records.

    Attributes:
        population: int64 (records,), every record (unit) but the canaries.
        most_exposed: the most exposed of the population.
        canaries: None where there are none.
    """

    population: IntArray
    most_exposed: RecordSet
    canaries: RecordSet | None

    @classmethod
    def of(cls, everyone: Attacked, evidence: Attacked, canaries: IntArray) -> _Sets:
        population = np.setdiff1d(np.arange(everyone.memberships.n_records), canaries)
        targets = evidence.targets
        chosen = most_exposed_records(evidence.signals, evidence.design, targets, evidence.bank.scratch)
        records = None if chosen.records is None else population[chosen.records]
        planted = RecordSet(np.tile(canaries, (len(targets), 1))) if len(canaries) else None
        return cls(population, RecordSet(records, chosen.reason), planted)


def figures_of_attacks(
    everyone: Attacked, evidence: Attacked, canaries: IntArray, config: EvaluationConfig, groups: Groups
) -> tuple[dict[str, AttackFigures], Headline]:
    """The figures of each attack, and of the strongest.

    Args:
        everyone: all records, with the canaries.
        evidence: the same without the canaries.
        canaries: int64, the canaries among all records (units).
        config: what to measure.
        groups: column name -> each record's group, without canaries.
    """
    sets, targets, budgets = _Sets.of(everyone, evidence, canaries), evidence.targets, config.fpr_budgets
    sample = Sample.of(everyone.signals, everyone.design, targets, canaries)
    columns = np.flatnonzero(np.isin(sample.units, sets.population, assume_unique=True))
    in_sample = np.searchsorted(sets.population, sample.units[columns])
    figures: dict[str, AttackFigures] = {}
    aucs: dict[str, HalfAucs] = {}
    exposed: dict[str, SetScores | None] = {}
    planted: dict[str, SetScores | None] = {}
    for label in (attack.label for attack in resolve_all(config.attacks)):
        replicates = sample.replicates(everyone.fitted[label])
        exposed[label] = _on_set(sets.most_exposed, everyone, label, replicates, sample)
        planted[label] = _on_set(sets.canaries, everyone, label, replicates, sample)
        own = replicates.of_population(columns)
        scored = Scored(evidence.scores[label].values, evidence.memberships.rows(targets), own, in_sample)
        most_exposed = figures_in_set(label, sets.most_exposed, exposed[label], budgets)
        of_canaries = None
        if sets.canaries is not None:
            of_canaries = figures_in_set(label, sets.canaries, planted[label], budgets)
        scratch = evidence.bank.scratch
        figures[label] = attack_figures(scored, config, groups, most_exposed, of_canaries, scratch)
        aucs[label] = half_aucs(scored)
    best, auc = strongest(aucs, own, evidence.memberships.n_records)
    most_exposed = strongest_in_set(sets.most_exposed, exposed, budgets)
    of_canaries = None if sets.canaries is None else strongest_in_set(sets.canaries, planted, budgets)
    return figures, Headline(best, auc if len(figures) > 1 else figures[best].auc, most_exposed, of_canaries)


def _on_set(
    records: RecordSet | None, everyone: Attacked, label: str, replicates: Replicates, sample: Sample
) -> SetScores | None:
    """The scores of one attack on a set of records; None where the set is not measured."""
    if records is None or records.chosen is None or records.why_not is not None:
        return None
    scores, in_mask = everyone.scores[label].values, everyone.memberships.rows(everyone.targets)
    return SetScores.of(records.chosen, scores, in_mask, replicates, sample.units)
