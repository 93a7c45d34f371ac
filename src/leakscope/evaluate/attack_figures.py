"""What one attack achieves, in figures with intervals, over one target or many.

Every interval is a 95% interval for *records like these*: another sample of records, and models trained on
it. Over many targets there is a second, narrower one for *these records*: other models trained on random
halves of them. Both come from `leakscope.stats.two_way`. One target says nothing about other trainings: its
interval is over the records it is queried about (DeLong for the AUC).

Conventions, because tools differ in them:

- TPR at an FPR: at the threshold whose *expected* FPR is the given one (`leakscope.stats.parts`), chosen on
  the target itself. `calibrated` instead takes the threshold from the *other* models' non-members, as an
  attacker must, and reports the FPR reached.
- Advantage: TPR - FPR at a threshold chosen on the other half of the records.
- Precision at a prior: from the mean TPR and the whole FPR, so it is an underestimate if anything.
- Epsilon: the lower median over targets of each one's lower bound (`epsilon_figures.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.disk.scratch import IN_MEMORY, Scratch, blocks, evict_pages, gather_records, on_threads
from leakscope.errors import InputError
from leakscope.evaluate.config import EvaluationConfig
from leakscope.evaluate.curve_variances import CurveVariances, curve_variances, of_one_target
from leakscope.evaluate.epsilon_figures import epsilon_bounds, epsilon_figures
from leakscope.evaluate.figure import GATE_LEVEL, LEVEL, UNDEFINED, CurveFigures, figure_of_targets
from leakscope.evaluate.results import (
    AttackFigures,
    CalibratedRate,
    Figure,
    GroupFigures,
    Precision,
    SetFigures,
    TprAtFpr,
    TprFigure,
)
from leakscope.evaluate.uncertainty import FEWEST_PER_SIDE, Replicates
from leakscope.stats.groups import Grouping
from leakscope.stats.intervals import Interval, clopper_pearson, delong_of_split, highest_advantage
from leakscope.stats.parts import best_threshold, halves
from leakscope.stats.roc import (
    SplitScores,
    auc_of_split,
    precision_at_prior,
    split_scores,
    why_unresolvable,
)
from leakscope.stats.roc_summary import tpr_at_expected_fpr
from leakscope.stats.thresholds import barriers_of_others, share_called
from leakscope.stats.two_way import Variance

PRIORS = (0.01, 0.1, 0.5)
_TARGETS_TOGETHER = 1 << 16  # times records: of fewer, numpy's calls take longer than their work
Groups = Mapping[str, Grouping]
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Scored:
    """The scores of one attack, and what says how sure its figures are.

    Attributes:
        scores: float64 (targets, records), higher means member.
        in_mask: bool (targets, records).
        replicates: the scores of a sample of records, repeated without groups of models.
        sample: int64 (sampled records,), which records these are.
    """

    scores: FloatArray
    in_mask: BoolArray
    replicates: Replicates
    sample: IntArray


def attack_figures(
    scored: Scored,
    config: EvaluationConfig,
    groups: Groups,
    most_exposed: SetFigures,
    canaries: SetFigures | None = None,
    scratch: Scratch = IN_MEMORY,
) -> AttackFigures:
    """Every figure of one attack; as many targets' scores are in memory at a time as there are cores.

    Args:
        scored: the scores.
        config: FPRs, and delta and confidence of epsilon.
        groups: column name -> each record's group.
        most_exposed: figures of the most exposed records.
        canaries: figures of the canaries; None where there are none.
        scratch: where the sorted scores of all targets are stored when they are many.
    """
    scores, in_mask, budgets = scored.scores, scored.in_mask, config.fpr_budgets
    sides = list(sorted_split_scores(scores, in_mask, scratch))
    bounds = _of_each(lambda side: epsilon_bounds(side, config, len(scores)), sides)
    fewest = _fewest(sides)
    calibrated = [one for one in budgets if len(sides) > 1 and not _why_not_calibrated(one, sides)]
    variances = curve_variances(scored.replicates, scores.shape[1], _measurable(budgets, fewest), calibrated)
    advantages = _advantages(scored, np.arange(scores.shape[1]))
    auc, advantage, tprs = _curve_figures(sides, advantages, variances, budgets)
    figures = AttackFigures(
        auc=auc,
        advantage=advantage,
        balanced_accuracy=balanced_accuracy(advantage),
        tpr_at_fpr=tuple(_tpr_at_fpr(*one, fewest) for one in zip(tprs, budgets, strict=True)),
        calibrated=_calibrated(budgets, sides, variances) if len(sides) > 1 else (),
        epsilon=epsilon_figures(bounds, config.confidence),
        groups={column: _by_group(scored, grouping, budgets) for column, grouping in groups.items()},
        targets=len(sides),
        most_exposed=most_exposed,
        canaries=canaries,
    )
    evict_pages(scores, in_mask)
    return figures


def curve_figures(scored: Scored, budgets: Sequence[float], scratch: Scratch = IN_MEMORY) -> CurveFigures:
    """AUC, advantage, and TPR at each FPR, as `attack_figures` has them, and nothing else."""
    sides = list(sorted_split_scores(scored.scores, scored.in_mask, scratch))
    n_records = scored.scores.shape[1]
    variances = curve_variances(scored.replicates, n_records, _measurable(budgets, _fewest(sides)))
    figures = _curve_figures(sides, _advantages(scored, np.arange(n_records)), variances, budgets)
    evict_pages(scored.scores, scored.in_mask)
    return figures


def sorted_split_scores(scores: FloatArray, in_mask: BoolArray, scratch: Scratch) -> Iterator[SplitScores]:
    """Each target's sorted scores, members and non-members; arrays on `scratch` when they are many."""
    ordered = scratch.empty(scores.shape)

    def in_order(target: int) -> SplitScores:
        row, side = ordered[target], split_scores(scores[target], in_mask[target])
        n_members = len(side.members)
        row[:n_members], row[n_members:] = side
        evict_pages(scores, in_mask, ordered)
        return SplitScores(row[:n_members], row[n_members:])

    yield from on_threads(in_order, range(len(scores)), scores.shape[1])


def _of_each(figure: Callable[[SplitScores], Result], sides: Sequence[SplitScores]) -> list[Result]:
    """A figure of each target's sorted scores; several threads work at once."""

    def released(side: SplitScores) -> Result:
        result = figure(side)
        evict_pages(*side)
        return result

    return on_threads(released, sides, sum(map(len, sides[0])) if sides else 0)


def _curve_figures(
    sides: Sequence[SplitScores],
    advantages: FloatArray,
    variances: CurveVariances,
    budgets: Sequence[float],
    n_least: int = 0,
) -> CurveFigures:
    """AUC, advantage, and TPR at each FPR.

    Args:
        sides: sorted scores of each target.
        advantages: float64 (targets,).
        variances: of the figures.
        budgets: the FPRs.
        n_least: targets with fewer members or fewer non-members do not count.
    """
    counts = np.array([min(map(len, side)) >= max(n_least, 1) for side in sides])
    n_members = len(sides[0].members)

    def of_rate(rate: float, level: float) -> Interval:
        return clopper_pearson(round(rate * n_members), n_members, level)

    def figure(values: Sequence[float], variance: Variance, *, is_rate: bool = True) -> Figure:
        defined = np.where(counts, np.array(values), np.nan)
        if len(sides) > 1:
            return figure_of_targets(defined, variance, of_rate, is_rate=is_rate)
        own = of_one_target(variance, *map(len, sides[0]))
        return figure_of_targets(defined, own, of_rate, is_rate=is_rate, n_most=n_members)

    def tpr(budget: float) -> Figure:
        is_measured = budget in variances.tpr
        rates = [tpr_at_expected_fpr(side, budget) if is_measured else float("nan") for side in sides]
        return figure(rates, variances.tpr.get(budget, variances.auc))

    # As if each member were compared with one non-member.
    auc = figure(_of_each(auc_of_split, sides), variances.auc)
    advantage = figure(advantages.tolist(), variances.advantage, is_rate=False)
    if len(sides) == 1:
        auc = _by_delong(auc, sides[0]) if counts[0] else auc
        advantage = _of_any_threshold(advantage, sides[0])
    return CurveFigures(auc, advantage, [tpr(budget) for budget in budgets])


def _by_delong(auc: Figure, sides: SplitScores) -> Figure:
    """The AUC of one target with an interval on the logit scale, which holds for few records as well."""
    interval, wider = (delong_of_split(sides, level).interval for level in (LEVEL, GATE_LEVEL))
    return Figure(auc.value, interval.low, interval.high, None, high_99=wider.high)


def _of_any_threshold(advantage: Figure, sides: SplitScores) -> Figure:
    """The advantage of one target, with upper ends for its largest one.

    A threshold that comes from half of the records loses some of it, and with few records much: a model would
    pass a gate below its limit. Over several targets this hardly matters, as they share their threshold.
    """
    if advantage.high is None or advantage.high_99 is None or np.isnan(advantage.high):
        return advantage
    high, high_99 = (highest_advantage(sides, level) for level in (LEVEL, GATE_LEVEL))
    return replace(advantage, high=max(advantage.high, high), high_99=max(advantage.high_99, high_99))


def _fewest(sides: Sequence[SplitScores], n_least: int = 1) -> tuple[int, ...]:
    """The fewest members and non-members of a target that counts: a rate that only some measure is none."""
    sizes = np.array([[len(members), len(nonmembers)] for members, nonmembers in sides])
    counts = sizes.min(axis=1) >= n_least
    return tuple((sizes[counts] if counts.any() else sizes).min(axis=0).tolist())


def _measurable(budgets: Sequence[float], fewest: tuple[int, ...]) -> list[float]:
    return [budget for budget in budgets if not why_unresolvable(budget, *fewest)]


def _why_not_calibrated(budget: float, sides: Sequence[SplitScores]) -> str:
    """Why the other targets' non-members cannot set a threshold for this budget; empty when they can."""
    n_nonmembers = [len(side.nonmembers) for side in sides]
    return why_unresolvable(budget, 1, sum(n_nonmembers) - max(n_nonmembers))


def _advantages(scored: Scored, records: IntArray) -> FloatArray:
    """TPR - FPR of each target on each half of the records, at the other half's threshold; (targets,).

    Args:
        scored: the scores; those of the sampled records set the thresholds.
        records: int64, the records that count.
    """
    in_sample = np.isin(records, scored.sample, assume_unique=True)
    sampled = records[in_sample]
    if len(sampled) < 2:  # one half has no records to choose a threshold on
        return np.full(len(scored.scores), np.nan)
    own_half = halves(len(sampled))
    fold = np.empty(len(records), dtype=np.int64)
    fold[in_sample], fold[~in_sample] = own_half, halves(int((~in_sample).sum()))
    scores, members = (gather_records(array, sampled, 1) for array in (scored.scores, scored.in_mask))
    thresholds = np.array([
        best_threshold(scores[:, own_half != half], members[:, own_half != half]) for half in (0, 1)
    ])  # fmt: skip
    threshold, is_second, n_second = thresholds[fold], fold == 1, int(fold.sum())

    def advantages(rows: slice) -> FloatArray:
        own = scored.in_mask[rows][:, records]
        called = scored.scores[rows][:, records] >= threshold
        evict_pages(scored.scores, scored.in_mask)
        n_members, n_called, n_true = (
            _counts_in_halves(some, is_second) for some in (own, called, called & own)
        )
        n_nonmembers = np.array([[len(records) - n_second], [n_second]]) - n_members
        tpr, fpr = n_true / np.maximum(n_members, 1), (n_called - n_true) / np.maximum(n_nonmembers, 1)
        return np.asarray((tpr - fpr).mean(axis=0))

    size = max(1, _TARGETS_TOGETHER // len(records))
    return np.concatenate(on_threads(advantages, list(blocks(len(scored.scores), size)), size * len(records)))


def _counts_in_halves(of_records: BoolArray, is_second: BoolArray) -> IntArray:
    """How many of each target's records are in either half; int64 (2, targets), from (targets, records)."""
    n_second = (of_records & is_second).sum(axis=1)
    return np.stack([of_records.sum(axis=1) - n_second, n_second])


def balanced_accuracy(advantage: Figure) -> Figure:
    """(1 + advantage) / 2, with its intervals."""
    ends = (advantage.value, advantage.low, advantage.high, advantage.these_low, advantage.these_high)
    value, low, high, these_low, these_high = (None if end is None else (1 + end) / 2 for end in ends)
    sd = None if advantage.sd is None else advantage.sd / 2
    return Figure(value, low, high, sd, these_low, these_high)


def _tpr_at_fpr(tpr: Figure, fpr: float, fewest: tuple[int, ...]) -> TprAtFpr:
    reason = why_unresolvable(fpr, *fewest)
    precision = tuple(precision_of(tpr, fpr, prior) for prior in PRIORS)
    return TprAtFpr(**vars(tpr), fpr=fpr, reason=reason or None, precision=precision)


def precision_of(tpr: Figure, fpr: float, prior: float) -> Precision:
    """Precision rises with the TPR, so the interval's ends map to ends."""
    rates = np.array([tpr.value, tpr.low, tpr.high], dtype=np.float64)
    value, low, high = precision_at_prior(rates, fpr, prior).tolist()
    return Precision(value, low, high, prior=prior)


def _calibrated(
    budgets: Sequence[float], sides: Sequence[SplitScores], variances: CurveVariances
) -> tuple[CalibratedRate, ...]:
    """TPR and FPR that each target's threshold reaches when it comes from the other models."""
    highest, tied = barriers_of_others([side.nonmembers for side in sides], budgets)
    return tuple(
        _reached(budget, np.stack([highest[:, at], tied[:, at]], axis=1), sides, variances)
        for at, budget in enumerate(budgets)
    )


def _reached(
    budget: float, barriers: FloatArray, sides: Sequence[SplitScores], variances: CurveVariances
) -> CalibratedRate:
    """The rates at one budget; `barriers` are (targets, 2), see `leakscope.stats.thresholds.Barriers`."""
    reason = _why_not_calibrated(budget, sides)
    if reason:
        return CalibratedRate(budget, UNDEFINED, UNDEFINED, reason)

    def figure(rows: Sequence[FloatArray], variance: Variance) -> Figure:
        rates = np.array([share_called(row, *at) for row, at in zip(rows, barriers.tolist(), strict=True)])
        n = len(rows[0])
        return figure_of_targets(
            rates, variance, lambda rate, level: clopper_pearson(round(rate * n), n, level)
        )

    of_tpr, of_fpr = variances.calibrated[budget]
    tpr = figure([side.members for side in sides], of_tpr)
    fpr = figure([side.nonmembers for side in sides], of_fpr)
    return CalibratedRate(budget, tpr, fpr, None)


def _by_group(scored: Scored, grouping: Grouping, budgets: Sequence[float]) -> tuple[GroupFigures, ...]:
    scores, in_mask = scored.scores, scored.in_mask
    if grouping.codes.shape != scores.shape[1:]:
        sizes = f"{grouping.codes.shape}, records {scores.shape[1:]}"
        raise InputError(f"groups need one label per record: {sizes}")
    sides: dict[str, list[SplitScores]] = {name: [] for name in grouping.names}
    for values, members in zip(scores, in_mask, strict=True):  # one target's scores in memory at a time
        row, mask = np.array(values), np.array(members)
        for name, at in grouping.items():
            sides[name].append(split_scores(row[at], mask[at]))
        evict_pages(scores, in_mask)
    in_sample = Grouping(grouping.names, grouping.codes[scored.sample])
    groups = [
        _Group(name, sides[name], records, sampled)
        for (name, records), (_, sampled) in zip(grouping.items(), in_sample.items(), strict=True)
    ]
    n_scores = scored.replicates.whole.values.size * (1 + len(scored.replicates.without))
    of_group = partial(_group_figures, scored=scored, budgets=budgets)
    return tuple(on_threads(of_group, groups, n_scores // max(len(groups), 1)))


class _Group(NamedTuple):
    """A group of records: each target's sorted scores, its records among all, and among the sample."""

    name: str
    sides: Sequence[SplitScores]
    records: IntArray
    sampled: IntArray


def _group_figures(group: _Group, scored: Scored, budgets: Sequence[float]) -> GroupFigures:
    replicates = scored.replicates.of_records(group.sampled)
    measurable = _measurable(budgets, _fewest(group.sides, FEWEST_PER_SIDE))
    variances = curve_variances(replicates, len(group.records), measurable)
    advantages = _advantages(scored, group.records)
    auc, advantage, tprs = _curve_figures(group.sides, advantages, variances, budgets, FEWEST_PER_SIDE)
    rates = tuple(TprFigure(**vars(tpr), fpr=fpr) for tpr, fpr in zip(tprs, budgets, strict=True))
    return GroupFigures(group.name, len(group.records), auc, advantage, rates)
