"""What attacks achieve within a set of records: the canaries, or the most exposed 1%.

A set has few records, so all targets are pooled: a pair of a target and a record is one observation, as in
"Evaluations of Machine Learning Privacy Defenses are Misleading" (Aerni et al. 2024). Rates are within the
set: the non-members among its pairs set the threshold. The attacker whom the figures describe attacks the
records of the set and no others.

Pairs of one record share its reference models, and pairs of one target share its model. Intervals account for
both: a record's part in a figure is the sum over its pairs (`leakscope.stats.two_way`). Other models would
choose other records as the most exposed, so their figures have one interval only: for records like these.

Where several attacks run, the one that is strongest on one half of the set's records and one half of the
models is measured on the other halves, as for all records (`leakscope.evaluate.headline`), so the choice
among them does not raise the figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import scipy

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.evaluate.figure import UNDEFINED, figure_with_intervals
from leakscope.evaluate.results import Figure, SetFigures, SetTpr
from leakscope.evaluate.set_scores import Pairs, RecordSet, SetScores
from leakscope.stats.intervals import clopper_pearson
from leakscope.stats.parts import (
    agreement_of_halves,
    auc_parts,
    best_threshold,
    ranked,
    rate_parts,
    tpr_parts,
    tpr_slope,
)
from leakscope.stats.roc import why_unresolvable
from leakscope.stats.two_way import NoLeakage, Variance, two_way_variance


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
    return _figures(attack, records.n_records, [_Piece(scores)], fpr_budgets)


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
    pieces = _strongest_pieces(scores)[1]
    parts = [_parts_of_piece(piece, ()) for piece in pieces]
    return _mean_of_pieces(pieces, [own.without[:, 0].sum(axis=1) for own in parts])


class _Piece(NamedTuple):
    """One attack on all records of the set, on one half of them, or on that with one half of the models."""

    scores: SetScores
    half: int | None = None
    model_half: int | None = None

    @property
    def weight(self) -> float:
        """Its share of the set's figures."""
        return (1.0 if self.half is None else 0.5) * (1.0 if self.model_half is None else 0.5)

    def some(self, pairs: Pairs) -> Pairs:
        """Those of the pairs that the piece is about."""
        own = np.ones(len(pairs.record), dtype=np.bool_)
        if self.half is not None:
            own &= self.scores.fold[pairs.record] == self.half
        if self.model_half is not None:
            own &= pairs.model_half == self.model_half
        return pairs.where(own)


def _mean_of_pieces(pieces: Sequence[_Piece], values: Sequence[FloatArray]) -> FloatArray:
    mean: FloatArray = np.average(values, axis=0, weights=[piece.weight for piece in pieces])
    return mean


def _strongest_pieces(scores: Mapping[str, SetScores]) -> tuple[str, list[_Piece]]:
    """The strongest attack, and on each half of records and models the one that is strongest on the others.

    Models for which the same attack is chosen stay together: a rate needs as many pairs as possible.
    """

    def aucs(half: int, model_half: int | None = None) -> dict[str, float]:
        pieces = {label: _Piece(own, half, model_half) for label, own in scores.items()}
        return {label: _auc(piece.some(piece.scores.pairs)) for label, piece in pieces.items()}

    sides: list[int] = np.unique(next(iter(scores.values())).pairs.model_half).tolist()
    pieces: list[_Piece] = []
    for half in (0, 1):
        judged = [aucs(1 - half, 1 - side if len(sides) > 1 else None) for side in sides]
        chosen = [max(own, key=own.__getitem__) for own in judged]
        if len(set(chosen)) == 1:
            pieces.append(_Piece(scores[chosen[0]], half))
        else:
            pieces += [_Piece(scores[label], half, side) for label, side in zip(chosen, sides, strict=True)]
    first, second = aucs(0), aucs(1)
    return max(scores, key=lambda label: first[label] + second[label]), pieces


def _not_measured(attack: str, records: RecordSet, fpr_budgets: Sequence[float]) -> SetFigures:
    rates = tuple(SetTpr(**vars(UNDEFINED), fpr=fpr, reason=records.why_not) for fpr in fpr_budgets)
    return SetFigures(attack, records.n_records, UNDEFINED, UNDEFINED, rates, records.why_not)


def _figures(attack: str, n_chosen: int, pieces: Sequence[_Piece], budgets: Sequence[float]) -> SetFigures:
    """The mean over pieces."""
    reasons = {fpr: next(filter(None, (_why_not(fpr, piece) for piece in pieces)), None) for fpr in budgets}
    measurable = [fpr for fpr in budgets if reasons[fpr] is None]
    parts = _mean_parts(pieces, measurable)
    first, n_records = pieces[0].scores, len(pieces[0].scores.fold)

    def figure(at: int, no_leakage: NoLeakage, *, is_rate: bool = True) -> Figure:
        value, variance = float(parts.value[at]), _variance(pieces, parts, at, no_leakage)
        if not is_rate:
            error = variance.standard_error(these_records=False)
            variance = variance.with_records_times(agreement_of_halves(value, error))
        if not first.is_fixed and first.several:
            variance = variance._replace(these_records=variance.like_these)
        return figure_with_intervals(
            value,
            None,
            variance,
            lambda rate, level: clopper_pearson(round(rate * n_records), n_records, level),
            several=first.several,
            is_rate=is_rate,
            n_independent=n_chosen,
        )

    auc, advantage = figure(0, NoLeakage(0.5)), figure(1, NoLeakage(0.0), is_rate=False)
    tprs = {fpr: figure(at, NoLeakage(fpr, fpr)) for at, fpr in enumerate(measurable, start=2)}
    rates = tuple(SetTpr(**vars(tprs.get(fpr, UNDEFINED)), fpr=fpr, reason=reasons[fpr]) for fpr in budgets)
    return SetFigures(attack, n_chosen, auc, advantage, rates, None)


def _variance(pieces: Sequence[_Piece], parts: _PieceParts, at: int, no_leakage: NoLeakage) -> Variance:
    """The variance of the figure at this place."""
    first = pieces[0].scores
    # One threshold serves all targets, so that every rate depends on other models.
    uses_models = at > 0 or any(piece.scores.uses_references for piece in pieces)
    variance = two_way_variance(
        parts.whole[at],
        parts.without[:, at] if first.without else None,
        first.n_in_left_out,
        len(first.fold),
        first.n_models,
        uses_models,
        no_leakage,
    )
    return _of_few_records(variance, parts.whole.shape[1])


def _why_not(fpr: float, piece: _Piece) -> str | None:
    pairs = piece.some(piece.scores.pairs)
    n_members = int(pairs.is_member.sum())
    n_nonmembers = len(pairs.is_member) - n_members
    reason = why_unresolvable(fpr, n_members, n_nonmembers)
    pooled = ", over all targets" if piece.scores.several else ""
    return f"{reason} (those of the set{pooled})" if reason else None


class _PieceParts(NamedTuple):
    """Figures (figures,) of a piece, and parts (figures, sampled records), also without groups of models."""

    value: FloatArray
    whole: FloatArray
    without: FloatArray


def _mean_parts(pieces: Sequence[_Piece], fprs: Sequence[float]) -> _PieceParts:
    parts = [_parts_of_piece(piece, fprs) for piece in pieces]
    return _PieceParts(*(_mean_of_pieces(pieces, arrays) for arrays in zip(*parts, strict=True)))


def _parts_of_piece(piece: _Piece, fprs: Sequence[float]) -> _PieceParts:
    scores = piece.scores
    n_records = len(scores.fold)
    counts = np.ones(n_records, dtype=np.bool_) if piece.half is None else scores.fold == piece.half
    pairs = piece.some(scores.pairs)
    thresholds = _best_thresholds(pairs, n_records)
    of_all = _parts(pairs, thresholds, counts, fprs)
    of_sample = np.zeros(n_records, dtype=np.bool_)
    of_sample[scores.sampled] = True

    def sampled(pairs: Pairs) -> FloatArray:
        return _parts(piece.some(pairs), thresholds, counts & of_sample, fprs)[:, scores.sampled]

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
