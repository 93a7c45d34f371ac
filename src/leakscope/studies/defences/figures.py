"""Accuracy and leakage of one population, and how much those of two populations of one design differ.

Both populations leave out the same models in turn, as targets and as references, so what these have in common
cancels: differences are more certain than the figures themselves. It is the jackknife by which audits are
compared, too (`leakscope.stats.differences`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.attacks.base import Attack
from leakscope.evaluate.attack_figures import Scored
from leakscope.evaluate.figure import figure_of_targets
from leakscope.evaluate.headline import HalfAucs, chosen_elsewhere, half_aucs, strongest
from leakscope.evaluate.record_sets import strongest_aucs_without_groups, strongest_in_set
from leakscope.evaluate.results import Figure
from leakscope.evaluate.set_scores import RecordSet, SetScores
from leakscope.evaluate.uncertainty import Parts, Sample, accuracy_parts
from leakscope.evaluate.utility import figure_of_means, utility_values
from leakscope.signals.registry import REGRESSION, task_of
from leakscope.stats.differences import Replicated, jackknife_difference
from leakscope.stats.estimate import Estimate
from leakscope.stats.intervals import Interval, clopper_pearson
from leakscope.stats.parts import ranked, tpr_parts, tpr_slope
from leakscope.stats.rates import rates_by_model
from leakscope.stats.roc import split_scores, why_unresolvable
from leakscope.stats.roc_summary import tpr_at_expected_fpr
from leakscope.stats.two_way import NoLeakage
from leakscope.types import Design, Signals


@dataclass(frozen=True, eq=False)
class Paired:
    """A figure of one population that can be compared with that of another one of the same design.

    Attributes:
        figure: value and intervals.
        without: float64 (groups,), its value without each group of models.
        is_bounded: whether it lies between 0 and 1, and differences between -1 and 1.
    """

    figure: Figure
    without: FloatArray
    is_bounded: bool = True

    def minus(self, other: Paired, level: float = 0.95) -> Estimate:
        """The difference, with the interval for these records."""
        (difference,) = jackknife_difference(other._replicated, self._replicated, is_paired=True, level=level)
        low, high = difference.interval.low, difference.interval.high
        if self.is_bounded:
            low, high = max(low, -1.0), min(high, 1.0)
        return Estimate(difference.value, low, high)

    @property
    def _replicated(self) -> Replicated:
        assert self.figure.value is not None, "the figure is defined"
        return Replicated(np.array([self.figure.value]), self.without[:, None])


@dataclass(frozen=True, eq=False)
class SetLeakage:
    """What the attacks achieve on one set of records.

    Attributes:
        n_records: number of records.
        attack: label of the strongest attack.
        auc: AUC of the strongest attack.
        tpr: its true positive rate at the false positive rate of the comparison; None: not resolvable.
    """

    n_records: int
    attack: str
    auc: Paired
    tpr: Figure | None


@dataclass(frozen=True, eq=False)
class PopulationFigures:
    """One setting.

    Attributes:
        n_models: number of models.
        utility_members: utility on the records a model was trained on.
        utility: utility on the other records.
        population: leakage over all records but the canaries.
        sets: name of a set of records -> leakage there.
    """

    n_models: int
    utility_members: Paired
    utility: Paired
    population: SetLeakage
    sets: Mapping[str, SetLeakage]


def population_figures(
    signals: Signals,
    design: Design,
    attacks: Mapping[str, Attack],
    population: IntArray,
    sets: Mapping[str, IntArray],
    fpr: float,
) -> PopulationFigures:
    """Every figure of one population.

    Args:
        signals: of the models.
        design: who was in which training set.
        attacks: label -> attack.
        population: int64, all records but the canaries; utility is measured on them.
        sets: name -> int64, the records of further sets.
        fpr: false positive rate at which the true positive rate is reported.
    """
    records = np.arange(design.n_records)
    sample = Sample(signals, design, np.arange(design.n_models), records)
    replicates = {label: sample.replicates(attack) for label, attack in attacks.items()}
    scores = {label: one.whole.values for label, one in replicates.items()}
    of_population = {
        label: Scored(
            values[:, population],
            design.in_mask[:, population],
            replicates[label].of_population(population),
            np.arange(len(population)),
        )
        for label, values in scores.items()
    }
    of_sets = {}
    for name, own in sets.items():
        chosen = np.tile(own, (design.n_models, 1))
        on_set = {
            label: SetScores.of(chosen, values, design.in_mask, replicates[label], records)
            for label, values in scores.items()
        }
        of_sets[name] = _set_leakage(RecordSet(chosen), on_set, fpr)
    members, others = _utilities(signals, design, sample, population)
    return PopulationFigures(design.n_models, members, others, _leakage(of_population, fpr), of_sets)


def _utilities(
    signals: Signals, design: Design, sample: Sample, population: IntArray
) -> tuple[Paired, Paired]:
    """Accuracy or R², on members and on other records."""
    values, is_rate = utility_values(signals, population), task_of(signals.labels) != REGRESSION
    means = rates_by_model(values[:, population], design.in_mask[:, population])
    own = sample.replicates_of(values).of_population(population)
    variances = own.variances(accuracy_parts, len(population))
    without = np.stack([accuracy_parts(one.values, one.in_mask).sum(axis=1) for one in own.without])

    def side(at: int, values: FloatArray, n: int) -> Paired:
        def otherwise(rate: float, level: float) -> Interval:
            return clopper_pearson(round(rate * n), n, level)

        if not is_rate:
            return Paired(figure_of_means(values, variances[at]), without[:, at], is_bounded=False)
        return Paired(figure_of_targets(values, variances[at], otherwise), without[:, at])

    members = side(0, means.members, int(means.n_members[0]))
    return members, side(1, means.nonmembers, int(means.n_nonmembers[0]))


def _leakage(scored: Mapping[str, Scored], fpr: float) -> SetLeakage:
    """Over all records, target by target."""
    aucs = {label: half_aucs(one) for label, one in scored.items()}
    first = next(iter(scored.values()))
    n_records = first.scores.shape[1]
    best, figure = strongest(aucs, first.replicates.left_out, n_records)
    return SetLeakage(n_records, best, Paired(figure, _without_groups(aucs)), _tpr(scored[best], fpr))


def _without_groups(aucs: Mapping[str, HalfAucs]) -> FloatArray:
    """The AUC without each group of models: of each attack as far as the headline measures it."""
    chosen = chosen_elsewhere(aucs)
    without: FloatArray = np.sum(
        [
            (chosen[half] == at).mean() * one.without[:, half].sum(axis=1) / 2
            for at, one in enumerate(aucs.values())
            for half in (0, 1)
        ],
        axis=0,
    )
    return without


def _tpr(scored: Scored, fpr: float) -> Figure | None:
    sides = [split_scores(*row) for row in zip(scored.scores, scored.in_mask, strict=True)]
    if any(why_unresolvable(fpr, *map(len, side)) for side in sides):
        return None
    values = np.array([tpr_at_expected_fpr(side, fpr) for side in sides])
    variance = scored.replicates.variances(_tpr_parts_at(fpr), len(scored.sample), [NoLeakage(fpr, fpr)])[0]
    n = len(sides[0].members)
    return figure_of_targets(values, variance, lambda rate, level: clopper_pearson(round(rate * n), n, level))


def _tpr_parts_at(fpr: float) -> Parts:
    def parts(scores: FloatArray, in_mask: BoolArray) -> FloatArray:
        ranks = ranked(scores, in_mask)
        return tpr_parts(ranks, fpr, tpr_slope(ranks, fpr))[None]

    return parts


def _set_leakage(records: RecordSet, scores: Mapping[str, SetScores], fpr: float) -> SetLeakage:
    """Within a set, all targets pooled, as in an audit."""
    figures = strongest_in_set(records, scores, (fpr,))
    auc = Paired(figures.auc, strongest_aucs_without_groups(scores))
    (tpr,) = figures.tpr_at_fpr
    plain = Figure(**{field.name: getattr(tpr, field.name) for field in fields(Figure)})
    return SetLeakage(figures.records, figures.attack, auc, None if tpr.reason else plain)
