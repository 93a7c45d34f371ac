"""What every attack achieves on the population, the most exposed records and the canaries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.attacks.base import Attack
from leakscope.attacks.spec import resolve_all
from leakscope.disk.scratch import Scratch
from leakscope.disk.second_process import are_small, shared_out
from leakscope.evaluate.attack_figures import Groups, Scored, attack_figures, curve_figures
from leakscope.evaluate.attacked import Attacked
from leakscope.evaluate.config import EvaluationConfig
from leakscope.evaluate.figure import with_gate_ends_of
from leakscope.evaluate.headline import HalfAucs, half_aucs, strongest
from leakscope.evaluate.most_exposed import most_exposed_records
from leakscope.evaluate.record_sets import figures_in_set, strongest_in_set
from leakscope.evaluate.results import AttackFigures, Headline
from leakscope.evaluate.set_scores import RecordSet, SetScores
from leakscope.evaluate.uncertainty import SAMPLED_SCORES, LeftOut, Replicates, Sample


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


class _Common(NamedTuple):
    """What all attacks have in common.

    Attributes:
        sample: the records on which attacks are repeated.
        columns: int64, those of the sample that are no canaries.
        in_sample: int64, the same among the records without canaries.
        sets: sets of records with figures of their own.
        in_mask: bool (targets, records), with the canaries.
        own_mask: the same without them.
        config: what to measure.
        groups: column name -> each record's group, without canaries.
        scratch: where large arrays go.
    """

    sample: Sample
    columns: IntArray
    in_sample: IntArray
    sets: _Sets
    in_mask: BoolArray
    own_mask: BoolArray
    config: EvaluationConfig
    groups: Groups
    scratch: Scratch


class _Attack(NamedTuple):
    """One attack, as it was scored; scores are float64 (targets, records), with canaries and without."""

    label: str
    fitted: Attack
    scores: FloatArray
    own_scores: FloatArray

    def turned(self, scratch: Scratch) -> _Attack:
        """The same with scores of the opposite sign."""
        scores, own_scores = (
            np.negative(values, out=scratch.empty(values.shape)) for values in (self.scores, self.own_scores)
        )
        return self._replace(scores=scores, own_scores=own_scores)


class _Measured(NamedTuple):
    """What one attack achieves: its figures, and what the choice of the strongest needs."""

    figures: AttackFigures
    aucs: HalfAucs
    exposed: SetScores | None
    planted: SetScores | None
    left_out: LeftOut


def figures_of_attacks(
    everyone: Attacked,
    evidence: Attacked,
    canaries: IntArray,
    config: EvaluationConfig,
    groups: Groups,
    sampled_scores: int = SAMPLED_SCORES,
) -> tuple[dict[str, AttackFigures], Headline]:
    """The figures of each attack, and of the strongest.

    Args:
        everyone: all records, with the canaries.
        evidence: the same without the canaries.
        canaries: int64, the canaries among all records (units).
        config: what to measure.
        groups: column name -> each record's group, without canaries.
        sampled_scores: attacks are repeated without some models on at most so many scores.
    """
    sets, targets, budgets = _Sets.of(everyone, evidence, canaries), evidence.targets, config.fpr_budgets
    sample = Sample.of(everyone.signals, everyone.design, targets, canaries, sampled_scores)
    columns = np.flatnonzero(np.isin(sample.units, sets.population, assume_unique=True))
    in_sample = np.searchsorted(sets.population, sample.units[columns])
    masks = everyone.memberships.rows(targets), evidence.memberships.rows(targets)
    common = _Common(sample, columns, in_sample, sets, *masks, config, groups, evidence.bank.scratch)
    labels = [attack.label for attack in resolve_all(config.attacks)]
    measured = dict(zip(labels, _each_measured(common, everyone, evidence, labels), strict=True))
    exposed = {label: one.exposed for label, one in measured.items()}
    planted = {label: one.planted for label, one in measured.items()}
    aucs = {label: one.aucs for label, one in measured.items()}
    figures = {label: one.figures for label, one in measured.items()}
    best, auc = strongest(aucs, measured[labels[-1]].left_out, evidence.memberships.n_records)
    most_exposed = strongest_in_set(sets.most_exposed, exposed, budgets)
    of_canaries = None if sets.canaries is None else strongest_in_set(sets.canaries, planted, budgets)
    return figures, Headline(best, auc if len(figures) > 1 else figures[best].auc, most_exposed, of_canaries)


def _each_measured(
    common: _Common, everyone: Attacked, evidence: Attacked, labels: Sequence[str]
) -> list[_Measured]:
    """In the order of the labels. A second process helps where arrays are small and attacks are ours."""
    attacks = [
        _Attack(label, everyone.fitted[label], everyone.scores[label].values, evidence.scores[label].values)
        for label in labels
    ]
    are_ours = all(type(one.fitted).__module__.startswith("leakscope.") for one in attacks)
    arrays = [*(one.scores for one in attacks), *common.sample.signals.arrays.values()]
    if not are_ours or not are_small(*arrays):
        return [_measured(common, one) for one in attacks]
    # Those that are repeated with other references take longest, so they come first.
    order = sorted(range(len(attacks)), key=lambda at: (attacks[at].fitted.references == "none", -at))
    done = shared_out(partial(_measured, common), [attacks[at] for at in order])
    return [one for _, one in sorted(zip(order, done, strict=True), key=lambda pair: pair[0])]


def _measured(common: _Common, one: _Attack) -> _Measured:
    """The figures of one attack, in the direction in which it works.

    Attacks without references of both kinds assume that members have the higher scores. Some trainings, such
    as label smoothing, turn that around, and whoever notices turns the scores around, too. With references
    of both kinds, an attack learns the direction; if its members have lower scores all the same, its sign or
    a list of members is wrong, and scores that separate members leak whichever way they point. The 99%
    interval decides, so models that leak nothing are judged this way in 0.5% of audits. Where neither
    direction is certain, the scores stay as they are, but a gate has to hold in both.
    """
    replicates = common.sample.replicates(one.fitted)
    found = _measured_as_scored(common, one, replicates)
    auc = found.figures.auc
    if auc.high_99 is None:
        return found
    is_turned = auc.high_99 < 0.5
    is_settled = one.fitted.references == "both" or (auc.low is not None and auc.low > 0.5)
    if is_settled and not is_turned:
        return found
    turned, of_turned = one.turned(common.scratch), replicates.negated()
    if is_turned:
        found = _measured_as_scored(common, turned, of_turned)
        return found._replace(figures=replace(found.figures, inverted=True))
    of_population = of_turned.of_population(common.columns)
    scored = Scored(turned.own_scores, common.own_mask, of_population, common.in_sample)
    other_way = curve_figures(scored, common.config.fpr_budgets, common.scratch)
    return found._replace(figures=with_gate_ends_of(found.figures, other_way))


def _measured_as_scored(common: _Common, one: _Attack, replicates: Replicates) -> _Measured:
    sets, sample, budgets = common.sets, common.sample, common.config.fpr_budgets
    exposed, planted = (
        _on_set(records, one.scores, common.in_mask, replicates, sample)
        for records in (sets.most_exposed, sets.canaries)
    )
    own = replicates.of_population(common.columns)
    scored = Scored(one.own_scores, common.own_mask, own, common.in_sample)
    most_exposed = figures_in_set(one.label, sets.most_exposed, exposed, budgets)
    of_canaries = None
    if sets.canaries is not None:
        of_canaries = figures_in_set(one.label, sets.canaries, planted, budgets)
    of_sets = most_exposed, of_canaries
    figures = attack_figures(scored, common.config, common.groups, *of_sets, common.scratch)
    return _Measured(figures, half_aucs(scored), exposed, planted, own.left_out)


def _on_set(
    records: RecordSet | None,
    scores: FloatArray,
    in_mask: BoolArray,
    replicates: Replicates,
    sample: Sample,
) -> SetScores | None:
    """The scores of one attack on a set of records; None where the set is not measured."""
    if records is None or records.chosen is None or records.why_not is not None:
        return None
    return SetScores.of(records.chosen, scores, in_mask, replicates, sample.units)
