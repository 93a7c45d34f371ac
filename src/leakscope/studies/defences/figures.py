"""Accuracy and leakage of one population, and how much those of two populations of one design differ.

Both populations leave out the same models in turn, so what these have in common cancels: differences are more
certain than the figures themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.attacks.base import Attack
from leakscope.evaluate.attack_figures import Scored
from leakscope.evaluate.figure import figure_of_targets
from leakscope.evaluate.headline import HalfAucs, half_aucs, strongest
from leakscope.evaluate.record_sets import RecordSet, SetScores, strongest_auc_parts, strongest_in_set
from leakscope.evaluate.results import Figure
from leakscope.evaluate.uncertainty import Parts, Replicates, Sample, accuracy_parts
from leakscope.stats.estimate import Estimate
from leakscope.stats.intervals import Interval, clopper_pearson
from leakscope.stats.parts import ranked, tpr_parts, tpr_slope
from leakscope.stats.rates import rates_by_model
from leakscope.stats.roc import split_scores, why_unresolvable
from leakscope.stats.roc_summary import tpr_at_expected_fpr
from leakscope.stats.two_way import NoLeakage, two_way_variance
from leakscope.types import Design, Signals

_LEVEL = 0.95
_LARGEST_SCORE = 20.0


@dataclass(frozen=True, eq=False)
class Replicated:
    """A figure as a sum over records, with all models and without each group of them.

    Attributes:
        figure: value and intervals.
        parts: float64 (records,).
        without: float64 (groups, records).
        n_in_left_out: as in `two_way_variance`.
        n_models: number of models.
        uses_references: whether a target's figure depends on other models.
    """

    figure: Figure
    parts: FloatArray
    without: FloatArray
    n_in_left_out: FloatArray | None
    n_models: int
    uses_references: bool = True

    def minus(self, other: Replicated) -> Estimate:
        """The difference, with the 95% interval for these records."""
        assert self.figure.value is not None and other.figure.value is not None, "both are defined"
        variance = two_way_variance(
            self.parts - other.parts,
            self.without - other.without,
            self.n_in_left_out,
            len(self.parts),
            self.n_models,
            self.uses_references,
        )
        value = self.figure.value - other.figure.value
        half = variance.quantile(_LEVEL, these_records=True) * variance.standard_error(these_records=True)
        return Estimate(value, max(value - half, -1.0), min(value + half, 1.0))


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
    auc: Replicated
    tpr: Figure | None


@dataclass(frozen=True, eq=False)
class PopulationFigures:
    """One setting.

    Attributes:
        n_models: number of models.
        accuracy_members: accuracy on the records a model was trained on.
        accuracy: accuracy on the other records.
        population: leakage over all records but the canaries.
        sets: name of a set of records -> leakage there.
    """

    n_models: int
    accuracy_members: Replicated
    accuracy: Replicated
    population: SetLeakage
    sets: Mapping[str, SetLeakage]


def most_exposed(scores: FloatArray, in_mask: BoolArray, n_records: int) -> IntArray:
    """The records whose scores differ most between models with and without them; int64, ascending.

    Scores are float64 (models, records).
    """
    bounded = np.clip(scores, -_LARGEST_SCORE, _LARGEST_SCORE)  # one model cannot decide alone
    n_in, n_out = np.maximum(in_mask.sum(axis=0), 1), np.maximum((~in_mask).sum(axis=0), 1)
    seen = np.where(in_mask, bounded, 0.0).sum(axis=0) / n_in
    unseen = np.where(in_mask, 0.0, bounded).sum(axis=0) / n_out
    return np.sort(np.argsort(unseen - seen, kind="stable")[:n_records])


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
        population: int64, all records but the canaries; accuracy is measured on them.
        sets: name -> int64, the records of further sets.
        fpr: false positive rate at which the true positive rate is reported.
    """
    records = np.arange(design.n_records)
    sample = Sample(signals, design, np.arange(design.n_models), records, design.n_records)
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
    correct = np.asarray(signals.last("correct"))
    replicated = sample.replicates_of(correct.astype(np.float64))
    members, others = _accuracies(correct, design, replicated, population)
    return PopulationFigures(design.n_models, members, others, _leakage(of_population, fpr), of_sets)


def _accuracies(
    correct: BoolArray, design: Design, replicates: Replicates, population: IntArray
) -> tuple[Replicated, Replicated]:
    """On members, and on other records."""
    rates = rates_by_model(correct[:, population], design.in_mask[:, population])
    own = replicates.of_population(population)
    variances = own.variances(accuracy_parts, len(population))
    parts = accuracy_parts(own.whole.values, own.whole.in_mask)
    without = np.stack([accuracy_parts(one.values, one.in_mask) for one in own.without])

    def side(at: int, values: FloatArray, n: int) -> Replicated:
        def otherwise(rate: float, level: float) -> Interval:
            return clopper_pearson(round(rate * n), n, level)

        figure = figure_of_targets(values, variances[at], otherwise)
        return Replicated(
            figure, parts[at], without[:, at], own.n_in_left_out, own.n_models, uses_references=False
        )

    members = side(0, rates.members, int(rates.n_members[0]))
    return members, side(1, rates.nonmembers, int(rates.n_nonmembers[0]))


def _leakage(scored: Mapping[str, Scored], fpr: float) -> SetLeakage:
    """Over all records, target by target."""
    aucs = {label: half_aucs(one) for label, one in scored.items()}
    first = next(iter(scored.values()))
    counts, n_records = first.replicates.n_in_left_out, first.scores.shape[1]
    best, figure = strongest(aucs, first.replicates, n_records)
    auc = Replicated(figure, *_chosen_parts(aucs), counts, first.replicates.n_models)
    return SetLeakage(n_records, best, auc, _tpr(scored[best], fpr))


def _chosen_parts(aucs: Mapping[str, HalfAucs]) -> tuple[FloatArray, FloatArray]:
    """The AUC as a sum over records: on each half, the attack that is strongest on the other."""
    means = {label: np.nan_to_num(one.of_targets.mean(axis=1)) for label, one in aucs.items()}
    chosen = [aucs[max(means, key=lambda label: float(means[label][1 - half]))] for half in (0, 1)]
    parts = np.sum([one.parts[half] for half, one in enumerate(chosen)], axis=0) / 2
    without = np.sum([one.without[:, half] for half, one in enumerate(chosen)], axis=0) / 2
    return parts, without


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
    first = next(iter(scores.values()))
    auc = Replicated(figures.auc, *strongest_auc_parts(scores), first.n_in_left_out, first.n_models)
    (tpr,) = figures.tpr_at_fpr
    plain = Figure(**{field.name: getattr(tpr, field.name) for field in fields(Figure)})
    return SetLeakage(figures.records, figures.attack, auc, None if tpr.reason else plain)
