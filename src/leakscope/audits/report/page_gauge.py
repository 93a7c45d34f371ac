"""Which figure an audit's gauge shows: the limit that is closest to, or furthest over, what it allows."""

from __future__ import annotations

from typing import Any

from leakscope.report.gauge import Gauge

Results = dict[str, Any]
_AUC = "Chance to rank a member above a non-member (AUC)"


def audit_gauge(results: Results, strongest: str) -> Gauge:
    """The gate's tightest limit or, without a gate, the strongest attack's AUC between guessing and 1."""
    limits = results.get("gate", {"limits": []})["limits"]
    if not limits:
        auc = results["attacks"][strongest]["auc"]
        return Gauge(_AUC, auc["value"], auc["low"], auc["high"], 0.5, 1.0, reference=0.5, percent=True)
    tightest = min(limits, key=lambda limit: (limit["passed"], _room(limit)))
    return _of_limit(tightest, results)


def _room(limit: Results) -> float:
    """How far the bound is below the limit, as a share of it; an unresolvable bound has none."""
    if limit["bound"] is None:
        return float("-inf")
    return float((limit["limit"] - limit["bound"]) / max(limit["limit"], 1e-12))


def _of_limit(outcome: Results, results: Results) -> Gauge:
    name, limit, passed = outcome["limit_on"], outcome["limit"], outcome["passed"]
    found, label = _figure_of(outcome, results)
    value, low, high = (found.get(end) for end in ("value", "low", "high"))
    if name == "max_auc":
        return Gauge(label, value, low, high, 0.5, 1.0, limit, passed, 0.5, percent=True)
    highest = max(x for x in (limit, value, high) if x is not None)
    end = _round_up(1.25 * highest)
    if name != "max_epsilon":
        end = min(end, 1.0)
    return Gauge(label, value, low, high, 0.0, end, limit, passed, percent=name != "max_epsilon")


def _figure_of(outcome: Results, results: Results) -> tuple[Results, str]:
    """The figure a limit is about, with its interval, and what it is called."""
    name = outcome["limit_on"]
    if name == "max_exposed_share":
        return {"value": outcome["bound"]}, "Share of records exposed one by one"
    if name == "max_epsilon":
        return {"value": outcome["bound"]}, f"Epsilon, from below ({outcome['attack']})"
    figures = results["attacks"][outcome["attack"]]
    if name == "max_tpr":
        points = [
            point
            for limit, point in _tpr_limits(results, figures)
            if limit["tpr"] == outcome["limit"] and point["high"] == outcome["bound"]
        ]
        return points[0], f"TPR at {100 * points[0]['fpr']:g}% FPR ({outcome['attack']})"
    labels = {"max_auc": _AUC, "max_advantage": f"Advantage ({outcome['attack']})"}
    return figures[name.removeprefix("max_")], labels[name]


def _tpr_limits(results: Results, figures: Results) -> list[tuple[Results, Results]]:
    """The gate's limits on a TPR, each with the attack's figure at that FPR."""
    points = {point["fpr"]: point for point in figures["tpr_at_fpr"]}
    return [(limit, points[limit["fpr"]]) for limit in results["config"]["gate"]["max_tpr"]]


def _round_up(value: float) -> float:
    """The next of 1, 2, 5 times a power of ten."""
    power = 1e-6
    while True:
        for factor in (1, 2, 5):
            if factor * power >= value:
                return factor * power
        power *= 10
