"""The gauge of an audit's page: the limit that is closest to being exceeded, or exceeded by most."""

from __future__ import annotations

from leakscope.evaluate.gate import Gate, LimitOutcome
from leakscope.evaluate.results import AuditResults, TprAtFpr
from leakscope.report.gauge import Gauge
from leakscope.stats.estimate import Estimate

_AUC = "Chance to rank a member above a non-member (AUC)"


def audit_gauge(results: AuditResults) -> Gauge:
    """The gate's tightest limit or, without a gate, the AUC of the strongest attack."""
    if results.gate is None or results.config.gate is None:
        auc = results.attacks[results.strongest_attack].auc
        return Gauge(_AUC, auc.value, auc.low, auc.high, 0.5, 1.0, reference=0.5, percent=True)
    tightest = min(results.gate.limits, key=lambda limit: (limit.passed, _margin(limit)))
    return _of_limit(tightest, results, results.config.gate)


def _margin(outcome: LimitOutcome) -> float:
    """How far the bound is below the limit, as a share of it; a figure without a bound has no margin."""
    if outcome.bound is None:
        return float("-inf")
    return (outcome.limit - outcome.bound) / max(outcome.limit, 1e-12)


def _of_limit(outcome: LimitOutcome, results: AuditResults, gate: Gate) -> Gauge:
    limit, passed, is_epsilon = outcome.limit, outcome.passed, outcome.limit_on == "max_epsilon"
    estimate, label = _figure_of(outcome, results, gate)
    value, low, high = estimate.value, estimate.low, estimate.high
    if outcome.limit_on == "max_auc":
        return Gauge(label, value, low, high, 0.5, 1.0, limit, passed, 0.5, percent=True)
    end = _round_up(1.25 * max(x for x in (limit, value, high) if x is not None))
    end = end if is_epsilon else min(end, 1.0)
    return Gauge(label, value, low, high, 0.0, end, limit, passed, percent=not is_epsilon)


def _figure_of(outcome: LimitOutcome, results: AuditResults, gate: Gate) -> tuple[Estimate, str]:
    """The figure a limit applies to, and its name."""
    bound = Estimate(outcome.bound, None, None)
    if outcome.attack is None:
        return bound, "Share of individually exposed records"
    figures = results.attacks[outcome.attack]
    if outcome.limit_on == "max_epsilon":
        return bound, f"Lower bound on epsilon ({outcome.attack})"
    if outcome.limit_on == "max_tpr":
        point = _limited_tpr(outcome, figures.tpr_at_fpr, gate)
        return point, f"TPR at {100 * point.fpr:g}% FPR ({outcome.attack})"
    if outcome.limit_on == "max_advantage":
        return figures.advantage, f"Advantage ({outcome.attack})"
    return figures.auc, _AUC


def _limited_tpr(outcome: LimitOutcome, points: tuple[TprAtFpr, ...], gate: Gate) -> TprAtFpr:
    """The TPR that a limit of the gate applies to, told from others by its limit and its bound."""
    limits = {limit.fpr for limit in gate.max_tpr if limit.tpr == outcome.limit}
    return next(point for point in points if point.fpr in limits and point.high == outcome.bound)


def _round_up(value: float) -> float:
    """The next of 1, 2, 5 times a power of ten."""
    power = 1e-6
    while True:
        for factor in (1, 2, 5):
            if factor * power >= value:
                return factor * power
        power *= 10
