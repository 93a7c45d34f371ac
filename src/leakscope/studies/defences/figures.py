"""Accuracy and leakage of one population, and how much those of two populations of one design differ.

Both populations leave out the same models in turn, so what these have in common cancels: differences are far
more certain than the figures themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.attacks.base import Attack
from leakscope.disk.scratch import gather_records
from leakscope.evaluate.attack_figures import Scored, figure_of_targets
from leakscope.evaluate.headline import HalfAucs, half_aucs, headline
from leakscope.evaluate.results import Figure
from leakscope.evaluate.uncertainty import Parts, Sample, accuracy_parts
from leakscope.stats.estimate import Estimate
from leakscope.stats.intervals import clopper_pearson
from leakscope.stats.parts import ranked, tpr_parts, tpr_slope
from leakscope.stats.rates import rates_by_model
from leakscope.stats.roc import split_scores, why_unresolvable
from leakscope.stats.roc_summary import tpr_at_expected_fpr
from leakscope.stats.two_way import two_way_variance
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
        uses_references: whether a target's figure depends on other models.
    """

    figure: Figure
    parts: FloatArray
    without: FloatArray
    n_in_left_out: FloatArray | None
    uses_references: bool

    def minus(self, other: Replicated) -> Estimate:
        """The difference, with the 95% interval for these records."""
        assert self.figure.value is not None and other.figure.value is not None, "both are defined"
        variance = two_way_variance(
            self.parts - other.parts,
            self.without - other.without,
            self.n_in_left_out,
            len(self.parts),
            self.uses_references,
        )
        value = self.figure.value - other.figure.value
        half = variance.quantile(_LEVEL, these_records=True) * variance.standard_error(these_records=True)
        return Estimate(value, max(value - half, -1.0), min(value + half, 1.0))


@dataclass(frozen=True, eq=False)
class SetLeakage:
    """What the attacks achieve on one set of records."""

    n_records: int
    attack: str
    auc: Replicated
    tpr: Figure | None


@dataclass(frozen=True, eq=False)
class PopulationFigures:
    """One setting: accuracy on members and on others, and leakage by set of records."""

    n_models: int
    accuracy_members: Replicated
    accuracy: Replicated
    sets: Mapping[str, SetLeakage]


def most_exposed(scores: FloatArray, in_mask: BoolArray, n_records: int) -> IntArray:
    """The records whose scores differ most between models with and without them; int64, in order.

    Scores are float64 (models, records).
    """
    bounded = np.clip(scores, -_LARGEST_SCORE, _LARGEST_SCORE)  # one model cannot decide alone
    n_in, n_out = np.maximum(in_mask.sum(axis=0), 1), np.maximum((~in_mask).sum(axis=0), 1)
    gap = (
        np.where(in_mask, bounded, 0.0).sum(axis=0) / n_in
        - np.where(in_mask, 0.0, bounded).sum(axis=0) / n_out
    )
    return np.sort(np.argsort(-gap, kind="stable")[:n_records])


def population_figures(
    signals: Signals,
    design: Design,
    attacks: Mapping[str, Attack],
    sets: Mapping[str, IntArray],
    counted: IntArray,
    fpr: float,
) -> PopulationFigures:
    """Every figure of one population.

    Args:
        signals: of the models that converged.
        design: who was in which training set.
        attacks: label -> attack.
        sets: name -> int64, the records of each set.
        counted: int64, the records on which accuracy is measured.
        fpr: false positive rate at which the true positive rate is reported.
    """
    models = np.arange(design.n_models)
    sample = Sample(signals, design, models, np.arange(design.n_records), design.n_records)
    scored = {
        label: Scored(
            attack(signals, design).values, design.in_mask, sample.replicates(attack), sample.records
        )
        for label, attack in attacks.items()
    }
    members, others = _accuracies(signals, design, sample, counted)
    return PopulationFigures(
        design.n_models,
        members,
        others,
        {name: _set_leakage(scored, records, fpr) for name, records in sets.items()},
    )


def _accuracies(
    signals: Signals, design: Design, sample: Sample, counted: IntArray
) -> tuple[Replicated, Replicated]:
    correct = np.asarray(signals.last("correct"))[:, counted].astype(np.float64)
    in_mask = design.in_mask[:, counted]
    whole = sample.replicates_of(np.asarray(signals.last("correct")).astype(np.float64))
    replicates = whole.of_records(counted)
    rates = rates_by_model(correct, in_mask)
    variances = replicates.variances(accuracy_parts, len(counted))
    parts = accuracy_parts(replicates.whole.values, replicates.whole.in_mask)
    without = np.stack([accuracy_parts(one.values, one.in_mask) for one in replicates.without])
    of_sides = []
    for at, (values, n) in enumerate(
        ((rates.members, rates.n_members), (rates.nonmembers, rates.n_nonmembers))
    ):
        figure = figure_of_targets(
            values, variances[at], lambda rate, n=int(n[0]): clopper_pearson(round(rate * n), n)
        )
        of_sides.append(Replicated(figure, parts[at], without[:, at], replicates.n_in_left_out, False))
    return of_sides[0], of_sides[1]


def _set_leakage(scored: Mapping[str, Scored], records: IntArray, fpr: float) -> SetLeakage:
    of_set = {label: _restricted(one, records) for label, one in scored.items()}
    aucs = {label: half_aucs(one) for label, one in of_set.items()}
    counts = next(iter(of_set.values())).replicates.n_in_left_out
    strongest = headline(aucs, counts, len(records))
    chosen = of_set[strongest.attack]
    auc = _chosen_auc(aucs, strongest.auc, counts)
    return SetLeakage(len(records), strongest.attack, auc, _tpr(chosen, fpr))


def _chosen_auc(aucs: Mapping[str, HalfAucs], figure: Figure, counts: FloatArray | None) -> Replicated:
    """The headline as a sum over records: on each half, the attack that is strongest on the other."""
    means = {label: np.nan_to_num(one.of_targets.mean(axis=1)) for label, one in aucs.items()}
    chosen = [aucs[max(means, key=lambda label: float(means[label][1 - half]))] for half in (0, 1)]
    parts = sum(one.parts[half] for half, one in enumerate(chosen)) / 2
    without = sum(one.without[:, half] for half, one in enumerate(chosen)) / 2
    return Replicated(figure, np.asarray(parts), np.asarray(without), counts, True)


def _restricted(scored: Scored, records: IntArray) -> Scored:
    return Scored(
        gather_records(scored.scores, records, 1),
        gather_records(scored.in_mask, records, 1),
        scored.replicates.of_records(records),
        np.arange(len(records)),
    )


def _tpr(scored: Scored, fpr: float) -> Figure | None:
    """True positive rate at a false positive rate within the set; None where the set is too small."""
    sides = [split_scores(*row) for row in zip(scored.scores, scored.in_mask, strict=True)]
    if any(why_unresolvable(fpr, *map(len, side)) for side in sides):
        return None
    values = np.array([tpr_at_expected_fpr(side, fpr) for side in sides])
    variance = scored.replicates.variances(_tpr_parts_at(fpr), len(scored.sample))[0]
    n = len(sides[0].members)
    return figure_of_targets(values, variance, lambda rate: clopper_pearson(round(rate * n), n))


def _tpr_parts_at(fpr: float) -> Parts:
    def parts(scores: FloatArray, in_mask: BoolArray) -> FloatArray:
        ranks = ranked(scores, in_mask)
        return tpr_parts(ranks, fpr, tpr_slope(ranks, fpr))[None]

    return parts
