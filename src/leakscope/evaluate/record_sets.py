"""What attacks achieve within a set of records: the canaries, or the most exposed 1%.

A set has few records, so all targets are pooled: a pair of a target and a record is one observation, as in
"Evaluations of Machine Learning Privacy Defenses are Misleading" (Aerni et al. 2024). Rates are within the
set: the non-members among its pairs set the threshold. The attacker whom the figures describe attacks the
records of the set and no others.

Pairs of one record share its reference models, and pairs of one target share its model. Intervals account for
both: a record's part in a figure is the sum over its pairs (`leakscope.stats.two_way`). Other models would
choose other records as the most exposed, so their figures have one interval only: for records like these.

Where several attacks run, the one that is strongest on one half of the set's records is measured on the other
half, so the choice among them does not raise the figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.disk.scratch import evict_pages
from leakscope.evaluate.figure import UNDEFINED, figure_with_intervals
from leakscope.evaluate.results import Figure, SetFigures, SetTpr
from leakscope.evaluate.uncertainty import Replicate, Replicates
from leakscope.stats.estimate import why_few_records
from leakscope.stats.intervals import clopper_pearson
from leakscope.stats.parts import (
    agreement_of_halves,
    auc_parts,
    best_threshold,
    halves,
    ranked,
    rate_parts,
    tpr_parts,
    tpr_slope,
)
from leakscope.stats.roc import why_unresolvable
from leakscope.stats.two_way import NoLeakage, Variance, two_way_variance


@dataclass(frozen=True, eq=False)
class RecordSet:
    """A set of records, for each target.

    Attributes:
        chosen: int64 (targets, records), indices; None where the set is unknown.
        reason: why it is unknown; None where it is known.
    """

    chosen: IntArray | None
    reason: str | None = None

    @property
    def n_records(self) -> int:
        """Number of records per target; 0 where they are unknown."""
        return 0 if self.chosen is None else int(self.chosen.shape[1])

    @property
    def why_not(self) -> str | None:
        """Why nothing is measured on the set; None where it is."""
        return why_few_records(self.n_records) if self.reason is None else self.reason


class Pairs(NamedTuple):
    """Pairs of a target and a record; all arrays are (pairs,).

    Attributes:
        scores: higher means member.
        is_member: whether the record is a member of the target's training set.
        record: number of the pair's record in its set.
    """

    scores: FloatArray
    is_member: BoolArray
    record: IntArray

    def of_half(self, fold: IntArray, half: int) -> Pairs:
        """The pairs whose records are in one half of the set."""
        own = fold[self.record] == half
        return Pairs(self.scores[own], self.is_member[own], self.record[own])


@dataclass(frozen=True, eq=False)
class SetScores:
    """The scores of one attack on a set of records.

    Attributes:
        pairs: all of them.
        fold: int64 (records of the set,), the half that each record is in.
        whole: the pairs of sampled records.
        without: the same without each group of models; empty where there are too few models.
        n_in_left_out: as in `Replicates`.
        sampled: int64, numbers of the set's records that are in the sample.
        uses_references: whether scores depend on other models.
        several: whether there are several targets.
        n_models: number of models, targets and references.
        is_fixed: whether the set has the same records for every target.
    """

    pairs: Pairs
    fold: IntArray
    whole: Pairs
    without: tuple[Pairs, ...]
    n_in_left_out: FloatArray | None
    sampled: IntArray
    uses_references: bool
    several: bool
    n_models: int
    is_fixed: bool

    @classmethod
    def of(
        cls,
        chosen: IntArray,
        scores: FloatArray,
        in_mask: BoolArray,
        replicates: Replicates,
        sample: IntArray,
    ) -> SetScores:
        """The scores on the records `chosen` for each target.

        Args:
            chosen: int64 (targets, chosen), indices of records.
            scores: float64 (targets, records).
            in_mask: bool (targets, records).
            replicates: the scores of a sample of records.
            sample: int64 (sampled records,), which records these are, ascending.
        """
        records, numbers = np.unique(chosen, return_inverse=True)
        numbers = numbers.reshape(chosen.shape)
        values, members = (_gathered(array, chosen) for array in (scores, in_mask))
        at = np.minimum(np.searchsorted(sample, chosen), len(sample) - 1)
        is_sampled = sample[at] == chosen

        def pairs_of(replicate: Replicate) -> Pairs:
            rows = replicate.rows
            own, columns = is_sampled[rows], at[rows]
            scores = np.take_along_axis(replicate.values, columns, 1)[own]
            is_member: BoolArray = np.take_along_axis(replicate.in_mask, columns, 1)[own]
            return Pairs(scores, is_member, numbers[rows][own])

        sampled = np.unique(numbers[is_sampled])
        is_fixed = bool((chosen == chosen[0]).all())
        # Where the set differs between targets, the design exchanges no members within it.
        counts = replicates.n_in_left_out if is_fixed else None
        return cls(
            Pairs(values.reshape(-1), members.reshape(-1), numbers.reshape(-1)),
            halves(len(records)),
            pairs_of(replicates.whole),
            tuple(map(pairs_of, replicates.without)),
            None if counts is None else counts[:, np.searchsorted(sample, records[sampled])],
            sampled,
            replicates.uses_references,
            len(chosen) > 1,
            replicates.n_models,
            is_fixed,
        )


def figures_in_set(
    attack: str, records: RecordSet, scores: SetScores | None, fpr_budgets: Sequence[float]
) -> SetFigures:
    """What one attack achieves within a set of records.

    Args:
        attack: its label.
        records: the set.
        scores: of the attack on the set; None where it is not measured.
        fpr_budgets: false positive rates.
    """
    if scores is None:
        return _not_measured(attack, records, fpr_budgets)
    return _figures(attack, records.n_records, [(scores, None)], fpr_budgets)


def strongest_in_set(
    records: RecordSet, scores: Mapping[str, SetScores | None], fpr_budgets: Sequence[float]
) -> SetFigures:
    """What the strongest attack achieves within a set of records; arguments as in `figures_in_set`."""
    measured = {label: own for label, own in scores.items() if own is not None}
    if len(measured) < 2:
        label = next(iter(scores))
        return figures_in_set(label, records, scores[label], fpr_budgets)
    strongest, pieces = _strongest_pieces(measured)
    return _figures(strongest, records.n_records, pieces, fpr_budgets)


def strongest_aucs_without_groups(scores: Mapping[str, SetScores]) -> FloatArray:
    """The AUC of `strongest_in_set` without each group of models, of sampled records; float64 (groups,)."""
    parts = [_parts_of_piece(own, half, ()) for own, half in _strongest_pieces(scores)[1]]
    aucs: FloatArray = np.mean([own.without[:, 0].sum(axis=1) for own in parts], axis=0)
    return aucs


def _strongest_pieces(
    scores: Mapping[str, SetScores],
) -> tuple[str, list[tuple[SetScores, int | None]]]:
    """The strongest attack, and for each half of the records the one that is strongest on the other half."""
    aucs = {
        label: [_auc(own.pairs.of_half(own.fold, half)) for half in (0, 1)] for label, own in scores.items()
    }
    best = [max(aucs, key=lambda label: aucs[label][1 - half]) for half in (0, 1)]
    strongest = max(aucs, key=lambda label: sum(aucs[label]))
    return strongest, [(scores[label], half) for half, label in enumerate(best)]


def _not_measured(attack: str, records: RecordSet, fpr_budgets: Sequence[float]) -> SetFigures:
    rates = tuple(SetTpr(**vars(UNDEFINED), fpr=fpr, reason=records.why_not) for fpr in fpr_budgets)
    return SetFigures(attack, records.n_records, UNDEFINED, UNDEFINED, rates, records.why_not)


def _figures(
    attack: str, n_chosen: int, pieces: Sequence[tuple[SetScores, int | None]], budgets: Sequence[float]
) -> SetFigures:
    """The mean over pieces: one attack on all records (None), or one attack on each half of them."""
    reasons = {fpr: next(filter(None, (_why_not(fpr, *piece) for piece in pieces)), None) for fpr in budgets}
    measurable = [fpr for fpr in budgets if reasons[fpr] is None]
    parts = [_parts_of_piece(own, half, measurable) for own, half in pieces]
    values = np.mean([own.value for own in parts], axis=0)
    first = pieces[0][0]
    whole = np.mean([own.whole for own in parts], axis=0)  # (figures, sampled records)
    without = np.mean([own.without for own in parts], axis=0) if first.without else None
    n_records = len(first.fold)
    uses_others = any(own.uses_references for own, _ in pieces)
    no_leakage = [NoLeakage(0.5), NoLeakage(0.0), *(NoLeakage(fpr, fpr) for fpr in measurable)]

    def figure(at: int, *, is_rate: bool = True) -> Figure:
        # One threshold serves all targets, so that every rate depends on other models.
        left_out = None if without is None else without[:, at]
        uses_models = uses_others or at > 0
        variance = two_way_variance(
            whole[at],
            left_out,
            first.n_in_left_out,
            n_records,
            first.n_models,
            uses_models,
            no_leakage[at],
        )
        variance = _of_few_records(variance, whole.shape[1])
        if not is_rate:
            error = variance.standard_error(these_records=False)
            variance = variance.with_records_times(agreement_of_halves(float(values[at]), error))
        if not first.is_fixed and first.several:
            variance = variance._replace(these_records=variance.like_these)
        return figure_with_intervals(
            float(values[at]),
            None,
            variance,
            lambda rate, level: clopper_pearson(round(rate * n_records), n_records, level),
            several=first.several,
            is_rate=is_rate,
            n_independent=n_chosen,
        )

    tprs = dict(zip(measurable, (figure(at) for at in range(2, 2 + len(measurable))), strict=True))
    rates = tuple(SetTpr(**vars(tprs.get(fpr, UNDEFINED)), fpr=fpr, reason=reasons[fpr]) for fpr in budgets)
    return SetFigures(attack, n_chosen, figure(0), figure(1, is_rate=False), rates, None)


def _why_not(fpr: float, scores: SetScores, half: int | None) -> str | None:
    pairs = scores.pairs if half is None else scores.pairs.of_half(scores.fold, half)
    n_members = int(pairs.is_member.sum())
    n_nonmembers = len(pairs.is_member) - n_members
    reason = why_unresolvable(fpr, n_members, n_nonmembers)
    pooled = ", over all targets" if scores.several else ""
    return f"{reason} (those of the set{pooled})" if reason else None


class _PieceParts(NamedTuple):
    """Figures (figures,) of a piece, and parts (figures, sampled records), also without groups of models."""

    value: FloatArray
    whole: FloatArray
    without: FloatArray


def _parts_of_piece(scores: SetScores, half: int | None, fprs: Sequence[float]) -> _PieceParts:
    def some(pairs: Pairs) -> Pairs:
        return pairs if half is None else pairs.of_half(scores.fold, half)

    n_records = len(scores.fold)
    counts = np.ones(n_records, dtype=np.bool_) if half is None else scores.fold == half
    pairs = some(scores.pairs)
    thresholds = _best_thresholds(pairs, n_records)
    of_all = _parts(pairs, thresholds, counts, fprs)
    of_sample = np.zeros(n_records, dtype=np.bool_)
    of_sample[scores.sampled] = True

    def sampled(pairs: Pairs) -> FloatArray:
        return _parts(some(pairs), thresholds, counts & of_sample, fprs)[:, scores.sampled]

    without = [sampled(one) for one in scores.without]
    return _PieceParts(of_all.sum(axis=1), sampled(scores.whole), np.array(without))


def _parts(pairs: Pairs, thresholds: FloatArray, counts: BoolArray, fprs: Sequence[float]) -> FloatArray:
    """Each record's part in the AUC, the advantage and the TPR at each FPR; (figures, records of the set).

    Args:
        pairs: the pairs.
        thresholds: float64 (records of the set,), of the advantage.
        counts: bool (records of the set,), the records that the figure is about.
        fprs: the false positive rates.
    """
    n_figures = 2 + len(fprs)
    if not pairs.is_member.any() or pairs.is_member.all():
        return np.full((n_figures, len(counts)), np.nan)
    ranks = ranked(pairs.scores[None], pairs.is_member[None])
    rows = [auc_parts(ranks), _advantage_parts(pairs, thresholds)]
    rows += [tpr_parts(ranks, fpr, tpr_slope(ranks, fpr)) for fpr in fprs]
    parts = np.zeros((n_figures, len(counts)))
    for own, row in zip(parts, rows, strict=True):
        # A record with more pairs deviates no more from the figure for that reason.
        value = row.sum()
        own += np.bincount(pairs.record, row - value / len(row), len(counts))
        own[counts] += value / counts.sum()
    return parts


def _best_thresholds(pairs: Pairs, n_records: int) -> FloatArray:
    """For the advantage, the threshold of each record, which comes from the other half; (records,)."""
    inner, thresholds = _inner_halves(n_records), np.full(n_records, np.nan)
    for half in (0, 1):
        other = inner[pairs.record] != half
        if other.any():
            at = best_threshold(pairs.scores[None, other], pairs.is_member[None, other])
            thresholds[inner == half] = at
    return thresholds


def _advantage_parts(pairs: Pairs, thresholds: FloatArray) -> FloatArray:
    called = (pairs.scores >= thresholds[pairs.record]).astype(np.float64)
    inner, parts = _inner_halves(len(thresholds))[pairs.record], np.zeros(len(called))
    for half in (0, 1):
        own = inner == half
        if own.any():
            members = pairs.is_member[None, own]
            both = [rate_parts(called[None, own], side) for side in (members, ~members)]
            parts[own] = (both[0] - both[1]) / 2
    return parts


def _inner_halves(n_records: int) -> IntArray:
    """Halves that cut each half of `halves` in two."""
    return np.random.default_rng(1).permutation(n_records) % 2


def _auc(pairs: Pairs) -> float:
    if not pairs.is_member.any() or pairs.is_member.all():
        return 0.5
    return float(auc_parts(ranked(pairs.scores[None], pairs.is_member[None])).sum())


def _of_few_records(variance: Variance, n_records: int) -> Variance:
    """The variance, widened where a scatter over few records is itself uncertain."""
    student = float(scipy.special.stdtrit(max(n_records - 1, 1), 0.975) / scipy.special.ndtri(0.975))
    return variance.with_records_times(student**2)


def _gathered(array: AnyArray, chosen: IntArray) -> AnyArray:
    """The chosen records of each target; one target's row in memory at a time."""
    rows = []
    for row, own in zip(array, chosen, strict=True):
        rows.append(np.take(row, own))
        evict_pages(array)
    return np.stack(rows)
