"""What one attack achieves, in figures with intervals, over one target or many.

Many targets: means with t intervals over the targets. One target: DeLong for the AUC, Dvoretzky-Kiefer-
Wolfowitz for the advantage, Clopper-Pearson for a TPR (its threshold is chosen on the same scores).

Conventions, because tools differ in them:

- TPR at an FPR: the best threshold within the budget, chosen on the target itself. `calibrated` instead
  takes the threshold from the *other* models' non-members, as an attacker must, and reports the FPR reached.
- Precision at a prior: from the mean TPR and the whole FPR budget, so it is an underestimate if anything.
- Epsilon: each target alone gives a lower bound of confidence `1 - (1 - c) / 2`; we report the (lower) median
  over targets. It exceeds the truth only if half of the bounds do, which by Markov's inequality has
  probability at most `1 - c`, however the targets depend on each other. One target: its bound at `c`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from leakscope.array_types import BoolArray, FloatArray
from leakscope.disk.scratch import IN_MEMORY, Scratch, evict_pages
from leakscope.errors import InputError
from leakscope.evaluate.results import (
    AttackFigures,
    CalibratedRate,
    EpsilonFigure,
    EpsilonFigures,
    EvaluationConfig,
    Figure,
    GroupFigures,
    Precision,
    TprAtFpr,
    TprFigure,
)
from leakscope.stats.epsilon import EpsilonBound, epsilon_of_split
from leakscope.stats.gdp import gaussian_tradeoff_of_split
from leakscope.stats.groups import Grouping
from leakscope.stats.intervals import (
    Interval,
    advantage_interval,
    clopper_pearson,
    delong_of_split,
    spread_over_targets,
)
from leakscope.stats.roc import SplitScores, precision_at_prior, split_scores, why_unresolvable
from leakscope.stats.roc_summary import RocSummary, roc_summary_of_split
from leakscope.stats.thresholds import share_reaching, thresholds_of_others

PRIORS = (0.01, 0.1, 0.5)
_LEAST_OF_GROUP = 10  # members, and non-members, for a target to count
Groups = Mapping[str, Grouping]


def attack_figures(
    scores: FloatArray,
    in_mask: BoolArray,
    config: EvaluationConfig,
    groups: Groups,
    scratch: Scratch = IN_MEMORY,
) -> AttackFigures:
    """Every figure of one attack; one target's scores are in memory at a time.

    Args:
        scores: float64 (targets, records), higher means member.
        in_mask: bool (targets, records).
        config: FPR budgets, and delta and confidence of epsilon.
        groups: column name -> each record's group.
        scratch: where the sorted scores of all targets are stored when they are many.
    """
    sides, summaries, bounds = [], [], []
    for side in sorted_split_scores(scores, in_mask, scratch):
        sides.append(side)
        summaries.append(roc_summary_of_split(side, config.fpr_budgets))
        bounds.append(_bounds(side, config, len(scores)))
        evict_pages(*side)
    auc, advantage, tprs = _curve_figures(summaries, sides[0])
    budgets = config.fpr_budgets
    figures = AttackFigures(
        auc=auc,
        advantage=advantage,
        balanced_accuracy=_balanced_accuracy(advantage),
        tpr_at_fpr=tuple(_tpr_at_fpr(*one, summaries[0]) for one in zip(tprs, budgets, strict=True)),
        calibrated=_calibrated(budgets, sides) if len(sides) > 1 else (),
        epsilon=_epsilon(bounds, config.confidence),
        groups={column: _by_group(scores, in_mask, grouping, budgets) for column, grouping in groups.items()},
        targets=len(summaries),
    )
    evict_pages(scores, in_mask)
    return figures


def sorted_split_scores(
    scores: FloatArray, in_mask: BoolArray, scratch: Scratch = IN_MEMORY
) -> Iterator[SplitScores]:
    """Each target's sorted scores, members and non-members; arrays on `scratch` when they are many."""
    ordered = scratch.empty(scores.shape)
    for row, values, members in zip(ordered, scores, in_mask, strict=True):
        side = split_scores(values, members)
        n_members = len(side.members)
        row[:n_members], row[n_members:] = side
        evict_pages(scores, in_mask)
        yield SplitScores(row[:n_members], row[n_members:])


def figure_over_targets(values: FloatArray) -> Figure:
    """Mean, t interval and standard deviation of a rate over targets; no rate is below 0 or above 1."""
    spread = spread_over_targets(values)
    low, high = np.clip((spread.interval.low, spread.interval.high), 0, 1).tolist()
    return Figure(spread.mean, low, high, spread.sd)


def figure_of_targets(values: FloatArray, interval_of_one: Callable[[float], Interval]) -> Figure:
    """The figure over targets; where there is one, its value with an interval over its records."""
    if len(values) > 1 or np.isnan(values[0]):
        return figure_over_targets(values)
    value = float(values[0])
    interval = interval_of_one(value)
    return Figure(value, interval.low, interval.high, sd=None)


def _curve_figures(
    summaries: Sequence[RocSummary], first_side: SplitScores, n_least: int = 0
) -> tuple[Figure, Figure, list[Figure]]:
    """AUC, advantage, and TPR at each budget.

    Args:
        summaries: one per target.
        first_side: scores of the first target.
        n_least: targets with fewer members or fewer non-members do not count.
    """
    first = summaries[0]
    counts = np.array([min(row.n_members, row.n_nonmembers) >= n_least for row in summaries])

    def figure(values: list[float], interval_of_one: Callable[[float], Interval]) -> Figure:
        return figure_of_targets(np.where(counts, np.array(values), np.nan), interval_of_one)

    def rate_interval(rate: float) -> Interval:
        return clopper_pearson(round(rate * first.n_members), first.n_members)

    return (
        figure([row.auc for row in summaries], lambda _: delong_of_split(first_side).interval),
        figure(
            [row.advantage for row in summaries],
            lambda value: advantage_interval(value, first.n_members, first.n_nonmembers),
        ),
        [figure([row.points[at].tpr for row in summaries], rate_interval) for at in range(len(first.points))],
    )


def _balanced_accuracy(advantage: Figure) -> Figure:
    value, low, high = (
        None if end is None else (1 + end) / 2 for end in (advantage.value, advantage.low, advantage.high)
    )
    return Figure(value, low, high, None if advantage.sd is None else advantage.sd / 2)


def _tpr_at_fpr(tpr: Figure, budget: float, first: RocSummary) -> TprAtFpr:
    reason = why_unresolvable(budget, first.n_members, first.n_nonmembers)
    precision = tuple(_precision(tpr, budget, prior) for prior in PRIORS)
    return TprAtFpr(
        tpr.value, tpr.low, tpr.high, tpr.sd, fpr=budget, reason=reason or None, precision=precision
    )


def _precision(tpr: Figure, budget: float, prior: float) -> Precision:
    """Precision rises with the TPR, so the interval's ends map to ends."""
    rates = np.clip(np.array([tpr.value, tpr.low, tpr.high], dtype=np.float64), 0, 1)
    value, low, high = precision_at_prior(rates, budget, prior).tolist()
    return Precision(value, low, high, prior=prior)


def _calibrated(budgets: Sequence[float], sides: Sequence[SplitScores]) -> tuple[CalibratedRate, ...]:
    """TPR and FPR that each target's threshold reaches when it comes from the other models."""
    thresholds = thresholds_of_others([side.nonmembers for side in sides], budgets)
    n_nonmembers = [len(side.nonmembers) for side in sides]
    n_fewest = sum(n_nonmembers) - max(n_nonmembers)
    return tuple(
        _reached(budget, thresholds[:, at], sides, why_unresolvable(budget, 1, n_fewest))
        for at, budget in enumerate(budgets)
    )


def _reached(
    budget: float, thresholds: FloatArray, sides: Sequence[SplitScores], reason: str
) -> CalibratedRate:
    if reason:
        undefined = figure_over_targets(np.full(len(sides), np.nan))
        return CalibratedRate(budget, undefined, undefined, reason)
    tpr = [share_reaching(side.members, at) for side, at in zip(sides, thresholds, strict=True)]
    fpr = [share_reaching(side.nonmembers, at) for side, at in zip(sides, thresholds, strict=True)]
    return CalibratedRate(
        budget, figure_over_targets(np.array(tpr)), figure_over_targets(np.array(fpr)), None
    )


def _bounds(side: SplitScores, config: EvaluationConfig, n_targets: int) -> tuple[EpsilonBound, EpsilonBound]:
    """Bounds from one target: for any trade-off curve, and where it is Gaussian."""
    confidence = config.confidence if n_targets == 1 else 1 - (1 - config.confidence) / 2
    general = epsilon_of_split(side, delta=config.delta, confidence=confidence)
    return general, gaussian_tradeoff_of_split(side, delta=config.delta, confidence=confidence)


def _epsilon(bounds: Sequence[tuple[EpsilonBound, EpsilonBound]], confidence: float) -> EpsilonFigures:
    general, gaussian = zip(*bounds, strict=True)
    return EpsilonFigures(_median_bound(general, confidence), _median_bound(gaussian, confidence))


def _median_bound(bounds: Sequence[EpsilonBound], confidence: float) -> EpsilonFigure:
    """Lower median over targets; a target without a bound counts as 0, which always holds."""
    values = np.array([bound.epsilon for bound in bounds])
    undefined = np.isnan(values)
    value, reason = float("nan"), None
    if 2 * int(undefined.sum()) >= len(values):
        ((reason, _),) = Counter(bound.reason for bound in bounds if bound.reason).most_common(1)
    else:
        value = float(np.quantile(np.where(undefined, 0.0, values), 0.5, method="lower"))
    method = bounds[0].method if len(bounds) == 1 else f"median over targets of: {bounds[0].method}"
    return EpsilonFigure(value, reason, bounds[0].delta, confidence, method.split("; ")[0])


def _by_group(
    scores: FloatArray, in_mask: BoolArray, grouping: Grouping, budgets: Sequence[float]
) -> tuple[GroupFigures, ...]:
    if grouping.codes.shape != scores.shape[1:]:
        raise InputError(
            f"groups need one label per record: {grouping.codes.shape}, records {scores.shape[1:]}"
        )
    first: dict[str, SplitScores] = {}
    summaries: dict[str, list[RocSummary]] = {name: [] for name in grouping.names}
    for values, members in zip(scores, in_mask, strict=True):  # one target's scores in memory at a time
        row, mask = np.array(values), np.array(members)
        for name, at in grouping.items():
            side = split_scores(row[at], mask[at])
            first.setdefault(name, side)
            summaries[name].append(roc_summary_of_split(side, budgets))
        evict_pages(scores, in_mask)
    return tuple(_group_figures(name, rows, first[name], budgets) for name, rows in summaries.items())


def _group_figures(
    group: str, summaries: Sequence[RocSummary], first_side: SplitScores, budgets: Sequence[float]
) -> GroupFigures:
    auc, advantage, tprs = _curve_figures(summaries, first_side, _LEAST_OF_GROUP)
    rates = tuple(
        TprFigure(tpr.value, tpr.low, tpr.high, tpr.sd, fpr=budget)
        for tpr, budget in zip(tprs, budgets, strict=True)
    )
    n_records = len(first_side.members) + len(first_side.nonmembers)
    return GroupFigures(group, n_records, auc, advantage, rates)
