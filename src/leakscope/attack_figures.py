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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from leakscope.gate import DEFAULT_CONFIDENCE, DEFAULT_DELTA
from leakscope.stats.epsilon import Bonferroni, EpsilonBound, epsilon_lower_bound
from leakscope.stats.gdp import gaussian_tradeoff_epsilon
from leakscope.stats.groups import GroupMetrics, GroupSpread, Measured, group_metrics, group_spread
from leakscope.stats.headline import Headline, headline_of_sides
from leakscope.stats.intervals import (
    Interval,
    Spread,
    advantage_interval,
    clopper_pearson,
    delong_of_sides,
    spread_over_targets,
)
from leakscope.stats.roc import (
    Sides,
    false_positives_allowed,
    precision_at_prior,
    split_sides,
    why_unresolvable,
)
from leakscope.types import BoolArray, FloatArray

PRIORS = (0.01, 0.1, 0.5)
Groups = Mapping[str, npt.NDArray[np.str_]]
Figure = dict[str, Any]
"""value, low, high, sd (None for one target)."""


@dataclass(frozen=True)
class Questions:
    """What is asked of every attack."""

    fpr_budgets: tuple[float, ...]
    delta: float = DEFAULT_DELTA
    confidence: float = DEFAULT_CONFIDENCE


def attack_figures(scores: FloatArray, in_mask: BoolArray, questions: Questions, groups: Groups) -> Figure:
    """Every figure of one attack.

    Args:
        scores: float64 (targets, records), higher means member.
        in_mask: bool (targets, records).
        questions: FPR budgets, and delta and confidence of epsilon.
        groups: column name -> label of each record.
    """
    sides = [split_sides(row, members) for row, members in zip(scores, in_mask, strict=True)]
    rows = [headline_of_sides(side, questions.fpr_budgets) for side in sides]
    advantage = _advantage(rows)
    return {
        "auc": _auc(rows, sides),
        "advantage": advantage,
        "balanced_accuracy": {k: _balanced(k, v) for k, v in advantage.items()},
        "tpr_at_fpr": [_at_budget(b, i, rows) for i, b in enumerate(questions.fpr_budgets)],
        "calibrated": [_calibrated(b, sides) for b in questions.fpr_budgets] if len(sides) > 1 else [],
        "epsilon": _epsilon(scores, in_mask, questions),
        "groups": {k: _by_group(scores, in_mask, v, questions.fpr_budgets) for k, v in groups.items()},
        "targets": len(rows),
    }


def spread_figure(values: FloatArray) -> Figure:
    """A figure over targets."""
    return _of_spread(spread_over_targets(values))


def _of_spread(found: Spread) -> Figure:
    return {"value": found.mean, "low": found.interval.low, "high": found.interval.high, "sd": found.sd}


def _of_one(value: float, interval: Interval) -> Figure:
    return {"value": value, "low": interval.low, "high": interval.high, "sd": None}


def _auc(rows: Sequence[Headline], sides: Sequence[Sides]) -> Figure:
    if len(rows) > 1:
        return spread_figure(np.array([row.auc for row in rows]))
    return _of_one(rows[0].auc, delong_of_sides(sides[0]).interval)


def _advantage(rows: Sequence[Headline]) -> Figure:
    if len(rows) > 1:
        return spread_figure(np.array([row.advantage for row in rows]))
    (row,) = rows
    return _of_one(row.advantage, advantage_interval(row.advantage, row.n_members, row.n_nonmembers))


def _balanced(key: str, value: float | None) -> float | None:
    """(1 + advantage) / 2, and half of the advantage's standard deviation."""
    if value is None:
        return None
    return value / 2 if key == "sd" else (1 + value) / 2


def _at_budget(budget: float, at: int, rows: Sequence[Headline]) -> Figure:
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


def _calibrated(budget: float, sides: Sequence[Sides]) -> Figure:
    """TPR and FPR that each target's threshold reaches when it comes from the other models."""
    pooled = np.sort(np.concatenate([side.nonmembers for side in sides]))
    n_fewest = len(pooled) - max(len(side.nonmembers) for side in sides)
    reason = why_unresolvable(budget, 1, n_fewest)
    if reason:
        nothing = spread_figure(np.full(len(sides), np.nan))
        return {"fpr_budget": budget, "tpr": nothing, "fpr": nothing, "reason": reason}
    thresholds = [threshold_of_others(pooled, side.nonmembers, budget) for side in sides]
    tpr = [_share_reaching(s.members, t) for s, t in zip(sides, thresholds, strict=True)]
    fpr = [_share_reaching(s.nonmembers, t) for s, t in zip(sides, thresholds, strict=True)]
    reached = {"tpr": spread_figure(np.array(tpr)), "fpr": spread_figure(np.array(fpr))}
    return {"fpr_budget": budget, **reached, "reason": None}


def threshold_of_others(pooled: FloatArray, own: FloatArray, fpr_budget: float) -> float:
    """Lowest threshold at which the pooled scores without a target's own keep the budget.

    Args:
        pooled: float64 ascending, all targets' non-member scores.
        own: float64 ascending, the target's; all of them are in `pooled`.
        fpr_budget: share of the others that may reach the threshold.
    """
    n_out = false_positives_allowed(fpr_budget, len(pooled) - len(own)) + 1  # the first that may not reach it
    if n_out > len(pooled) - len(own):
        return -np.inf
    low, high = 0, len(pooled) - 1
    while low < high:  # the largest place with at least `n_out` of the others at or above it
        middle = (low + high + 1) // 2
        n_reaching = _n_reaching(pooled, pooled[middle]) - _n_reaching(own, pooled[middle])
        low, high = (middle, high) if n_reaching >= n_out else (low, middle - 1)
    return float(np.nextafter(pooled[low], np.inf))


def _n_reaching(ascending: FloatArray, threshold: float) -> int:
    return len(ascending) - int(np.searchsorted(ascending, threshold, side="left"))


def _share_reaching(ascending: FloatArray, threshold: float) -> float:
    return _n_reaching(ascending, threshold) / len(ascending) if len(ascending) else float("nan")


def _epsilon(scores: FloatArray, in_mask: BoolArray, questions: Questions) -> Figure:
    n_targets, delta, asked = len(scores), questions.delta, questions.confidence
    confidence = asked if n_targets == 1 else 1 - (1 - asked) / 2
    pairs = list(zip(scores, in_mask, strict=True))
    exact = [epsilon_lower_bound(s, m, Bonferroni(), delta=delta, confidence=confidence) for s, m in pairs]
    gaussian = [gaussian_tradeoff_epsilon(s, m, delta=delta, confidence=confidence) for s, m in pairs]
    return {"general": _median_bound(exact, asked), "gaussian": _median_bound(gaussian, asked)}


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
    scores: FloatArray, in_mask: BoolArray, labels: npt.NDArray[np.str_], budgets: Sequence[float]
) -> list[Figure]:
    if len(scores) > 1:
        return [_over_targets(found, budgets) for found in group_spread(scores, in_mask, labels, budgets)]
    return [_on_one(found, budgets) for found in group_metrics(scores[0], in_mask[0], labels, budgets)]


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
