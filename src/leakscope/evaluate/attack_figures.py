"""What one attack achieves, in figures with intervals, over one target or many.

Many targets: means with t intervals over the targets. One target: DeLong for the AUC, Dvoretzky-Kiefer-
Wolfowitz for the advantage, Clopper-Pearson for a TPR (its threshold is chosen on the same scores).

Conventions, written down because tools differ in them:

- TPR at an FPR: the best threshold within the budget, chosen on the target itself. `calibrated` instead
  takes the threshold from the *other* models' non-members, as an attacker must, and reports the FPR reached.
- Precision at a prior: from the mean TPR, the whole FPR budget counted as used, so it errs to the low side.
- Epsilon: each target alone gives a lower bound of confidence `1 - (1 - c) / 2`; the (lower) median over
  targets is reported. It exceeds the truth only if half of the bounds do, which by Markov's inequality has
  probability at most `1 - c`, however the targets depend on each other. One target: its bound at `c`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from leakscope.array_types import BoolArray, FloatArray
from leakscope.disk.scratch import IN_MEMORY, Scratch, evict_pages
from leakscope.evaluate.gate import DEFAULT_CONFIDENCE, DEFAULT_DELTA
from leakscope.stats.epsilon import Bonferroni, EpsilonBound, epsilon_of_split
from leakscope.stats.gdp import gaussian_tradeoff_of_split
from leakscope.stats.groups import (
    Grouping,
    GroupMetrics,
    GroupSpread,
    Measured,
    group_metrics,
    group_spread,
)
from leakscope.stats.intervals import (
    Interval,
    Spread,
    advantage_interval,
    clopper_pearson,
    delong_of_split,
    spread_over_targets,
)
from leakscope.stats.roc import (
    SplitScores,
    precision_at_prior,
    split_scores,
    why_unresolvable,
)
from leakscope.stats.roc_summary import RocSummary, roc_summary_of_split
from leakscope.stats.thresholds import share_reaching, thresholds_of_others

PRIORS = (0.01, 0.1, 0.5)
Groups = Mapping[str, Grouping]
Figure = dict[str, Any]
"""value, low, high, sd (None for one target)."""


@dataclass(frozen=True)
class Questions:
    """What is asked of every attack."""

    fpr_budgets: tuple[float, ...]
    delta: float = DEFAULT_DELTA
    confidence: float = DEFAULT_CONFIDENCE


def attack_figures(
    scores: FloatArray,
    in_mask: BoolArray,
    questions: Questions,
    groups: Groups,
    scratch: Scratch = IN_MEMORY,
) -> Figure:
    """Every figure of one attack; one target's scores are in memory at a time.

    Args:
        scores: float64 (targets, records), higher means member.
        in_mask: bool (targets, records).
        questions: FPR budgets, and delta and confidence of epsilon.
        groups: column name -> each record's group.
        scratch: where all targets' scores in order lie when they are many.
    """
    sides, rows, bounds = [], [], []
    for side in sorted_split_scores(scores, in_mask, scratch):
        sides.append(side)
        rows.append(roc_summary_of_split(side, questions.fpr_budgets))
        bounds.append(_bounds(side, questions, len(scores)))
        evict_pages(*side)
    advantage = _advantage(rows)
    figures = {
        "auc": _auc(rows, sides),
        "advantage": advantage,
        "balanced_accuracy": {k: _balanced(k, v) for k, v in advantage.items()},
        "tpr_at_fpr": [_at_budget(b, i, rows) for i, b in enumerate(questions.fpr_budgets)],
        "calibrated": _calibrated(questions.fpr_budgets, sides) if len(sides) > 1 else [],
        "epsilon": _epsilon(bounds, questions.confidence),
        "groups": {k: _by_group(scores, in_mask, v, questions.fpr_budgets) for k, v in groups.items()},
        "targets": len(rows),
    }
    evict_pages(scores, in_mask)
    return figures


def sorted_split_scores(
    scores: FloatArray, in_mask: BoolArray, scratch: Scratch = IN_MEMORY
) -> Iterator[SplitScores]:
    """Each target's scores in order, members and non-members; arrays on `scratch` when they are many."""
    ordered = scratch.empty(scores.shape)
    for row, values, members in zip(ordered, scores, in_mask, strict=True):
        side = split_scores(values, members)
        n_members = len(side.members)
        row[:n_members], row[n_members:] = side
        evict_pages(scores, in_mask)
        yield SplitScores(row[:n_members], row[n_members:])


def spread_figure(values: FloatArray) -> Figure:
    """A figure over targets."""
    return _of_spread(spread_over_targets(values))


def _of_spread(found: Spread) -> Figure:
    return {"value": found.mean, "low": found.interval.low, "high": found.interval.high, "sd": found.sd}


def _of_one(value: float, interval: Interval) -> Figure:
    return {"value": value, "low": interval.low, "high": interval.high, "sd": None}


def _auc(rows: Sequence[RocSummary], sides: Sequence[SplitScores]) -> Figure:
    if len(rows) > 1:
        return spread_figure(np.array([row.auc for row in rows]))
    return _of_one(rows[0].auc, delong_of_split(sides[0]).interval)


def _advantage(rows: Sequence[RocSummary]) -> Figure:
    if len(rows) > 1:
        return spread_figure(np.array([row.advantage for row in rows]))
    (row,) = rows
    return _of_one(row.advantage, advantage_interval(row.advantage, row.n_members, row.n_nonmembers))


def _balanced(key: str, value: float | None) -> float | None:
    """(1 + advantage) / 2, and half of the advantage's standard deviation."""
    if value is None:
        return None
    return value / 2 if key == "sd" else (1 + value) / 2


def _at_budget(budget: float, at: int, rows: Sequence[RocSummary]) -> Figure:
    found = _tpr(np.array([row.points[at].tpr for row in rows]), rows[0].n_members)
    reason = why_unresolvable(budget, rows[0].n_members, rows[0].n_nonmembers)
    precision = [{"prior": prior, **_precision(found, budget, prior)} for prior in PRIORS]
    return {"fpr": budget, **found, "reason": reason or None, "precision": precision}


def _tpr(tpr: FloatArray, n_members: int) -> Figure:
    if len(tpr) > 1 or np.isnan(tpr[0]):
        return spread_figure(tpr)
    return _of_one(float(tpr[0]), clopper_pearson(round(float(tpr[0]) * n_members), n_members))


def _precision(tpr: Figure, budget: float, prior: float) -> Figure:
    """Precision rises with the TPR, so the interval's ends map to ends."""
    rates = np.clip([tpr[end] for end in ("value", "low", "high")], 0, 1)
    value, low, high = precision_at_prior(rates, budget, prior).tolist()
    return {"value": value, "low": low, "high": high}


def _calibrated(budgets: Sequence[float], sides: Sequence[SplitScores]) -> list[Figure]:
    """TPR and FPR that each target's threshold reaches when it comes from the other models."""
    thresholds = thresholds_of_others([side.nonmembers for side in sides], budgets)
    n_nonmembers = [len(side.nonmembers) for side in sides]
    n_fewest = sum(n_nonmembers) - max(n_nonmembers)
    return [
        _reached(budget, thresholds[:, at], sides, why_unresolvable(budget, 1, n_fewest))
        for at, budget in enumerate(budgets)
    ]


def _reached(budget: float, thresholds: FloatArray, sides: Sequence[SplitScores], reason: str) -> Figure:
    if reason:
        nothing = spread_figure(np.full(len(sides), np.nan))
        return {"fpr_budget": budget, "tpr": nothing, "fpr": nothing, "reason": reason}
    tpr = [share_reaching(s.members, t) for s, t in zip(sides, thresholds, strict=True)]
    fpr = [share_reaching(s.nonmembers, t) for s, t in zip(sides, thresholds, strict=True)]
    reached = {"tpr": spread_figure(np.array(tpr)), "fpr": spread_figure(np.array(fpr))}
    return {"fpr_budget": budget, **reached, "reason": None}


def _bounds(side: SplitScores, questions: Questions, n_targets: int) -> tuple[EpsilonBound, EpsilonBound]:
    """Of one target: free of assumptions, and where the trade-off is Gaussian."""
    asked = questions.confidence
    confidence = asked if n_targets == 1 else 1 - (1 - asked) / 2
    general = epsilon_of_split(side, Bonferroni(), delta=questions.delta, confidence=confidence)
    return general, gaussian_tradeoff_of_split(side, delta=questions.delta, confidence=confidence)


def _epsilon(bounds: Sequence[tuple[EpsilonBound, EpsilonBound]], confidence: float) -> Figure:
    general, gaussian = zip(*bounds, strict=True)
    return {"general": _median_bound(general, confidence), "gaussian": _median_bound(gaussian, confidence)}


def _median_bound(bounds: Sequence[EpsilonBound], confidence: float) -> Figure:
    """Lower median over targets; a target without a bound counts as 0, which always holds."""
    values = np.array([bound.epsilon for bound in bounds])
    refused = np.isnan(values)
    reasons = Counter(bound.reason for bound in bounds if bound.reason)
    if 2 * int(refused.sum()) >= len(values):
        value, reason = float("nan"), reasons.most_common(1)[0][0]
    else:
        value, reason = float(np.quantile(np.where(refused, 0.0, values), 0.5, method="lower")), None
    method = bounds[0].method if len(bounds) == 1 else f"median over targets of: {bounds[0].method}"
    about = {"delta": bounds[0].delta, "confidence": confidence, "method": method.split("; ")[0]}
    return {"value": value, "reason": reason, **about}


def _by_group(
    scores: FloatArray, in_mask: BoolArray, groups: Grouping, budgets: Sequence[float]
) -> list[Figure]:
    if len(scores) > 1:
        return [_over_targets(found, budgets) for found in group_spread(scores, in_mask, groups, budgets)]
    return [_on_one(found, budgets) for found in group_metrics(scores[0], in_mask[0], groups, budgets)]


def _over_targets(found: GroupSpread, budgets: Sequence[float]) -> Figure:
    points = zip(budgets, found.tpr_at_fpr, strict=True)
    return {
        "group": found.group,
        "records": found.n_records,
        "auc": _of_spread(found.auc),
        "advantage": _of_spread(found.advantage),
        "tpr_at_fpr": [{"fpr": budget, **_of_spread(tpr)} for budget, tpr in points],
    }


def _on_one(found: GroupMetrics, budgets: Sequence[float]) -> Figure:
    def figure(measured: Measured) -> Figure:
        return _of_one(measured.value, measured.interval)

    points = zip(budgets, found.tpr_at_fpr, strict=True)
    return {
        "group": found.group,
        "records": found.n_members + found.n_nonmembers,
        "auc": figure(found.auc),
        "advantage": figure(found.advantage),
        "tpr_at_fpr": [{"fpr": budget, **figure(tpr)} for budget, tpr in points],
    }
