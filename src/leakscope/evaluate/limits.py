"""A gate applied to figures: each limit with its outcome and a sentence.

The bound that counts is the end of the interval nearer the limit: a figure passes only when its upper end is
within the limit. What cannot be resolved fails, with the reason. Of several attacks the strongest counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from leakscope.evaluate.gate import Gate, LimitOutcome


def judge_gate(gate: Gate, results: dict[str, Any]) -> dict[str, Any]:
    """Outcome of every limit, for results.json."""
    outcomes = list(_outcomes(gate, results))
    return {"passed": all(o.passed for o in outcomes), "limits": [asdict(o) for o in outcomes]}


def _outcomes(gate: Gate, results: dict[str, Any]) -> Iterator[LimitOutcome]:
    attacks = results["attacks"]
    if gate.max_auc is not None:
        found = {name: _upper_end(figures["auc"]) for name, figures in attacks.items()}
        yield _judged("max_auc", "AUC", gate.max_auc, _highest(found), _plain_number)
    if gate.max_advantage is not None:
        found = {name: _upper_end(figures["advantage"]) for name, figures in attacks.items()}
        yield _judged("max_advantage", "the advantage", gate.max_advantage, _highest(found), _points)
    for limit in gate.max_tpr:
        found = {name: _tpr_upper_end(figures, limit.fpr) for name, figures in attacks.items()}
        yield _judged("max_tpr", f"TPR at {100 * limit.fpr:g}% FPR", limit.tpr, _highest(found), _points)
    if gate.max_epsilon is not None:
        found = {name: _epsilon_bound(figures) for name, figures in attacks.items()}
        what = f"epsilon (delta {gate.delta:g}, {gate.confidence:.0%} confidence)"
        yield _judged("max_epsilon", what, gate.max_epsilon, _highest(found), _plain_number, "at least")
    if gate.max_exposed_share is not None:
        exposed = results.get("exposed")
        reason = "no attack that judges single records was run over several models"
        bound = _Bound(exposed["share"]) if exposed else _Bound(None, reason)
        what = "the share of exposed records"
        yield _judged("max_exposed_share", what, gate.max_exposed_share, (None, bound), _points, "")


@dataclass(frozen=True)
class _Bound:
    """A figure's bound, or why there is none."""

    value: float | None
    reason: str = ""

    @classmethod
    def of(cls, value: float | None, reason: str | None) -> _Bound:
        """A value that is not a number is none."""
        return cls(None if value is None or math.isnan(value) else value, reason or "it has no interval")


def _upper_end(figure: dict[str, Any]) -> _Bound:
    return _Bound.of(figure["high"], figure.get("reason"))


def _epsilon_bound(figures: dict[str, Any]) -> _Bound:
    general = figures["epsilon"]["general"]
    return _Bound.of(general["value"], general["reason"])


def _tpr_upper_end(figures: dict[str, Any], fpr: float) -> _Bound:
    (point,) = (point for point in figures["tpr_at_fpr"] if point["fpr"] == fpr)
    return _upper_end(point)


def _highest(found: dict[str, _Bound]) -> tuple[str, _Bound]:
    """The attack with the highest bound; one without a bound comes first, as nothing vouches for it."""
    return max(found.items(), key=lambda item: float("inf") if item[1].value is None else item[1].value)


def _judged(
    limit_on: str,
    what: str,
    limit: float,
    found: tuple[str | None, _Bound],
    show: Callable[[float], tuple[str, str]],
    direction: str = "up to",
) -> LimitOutcome:
    attack, bound = found
    if bound.value is None:
        sentence = f"Gate failed: {what} is not resolvable: {bound.reason}; the limit is {show(limit)[0]}."
        return LimitOutcome(limit_on, limit, None, attack, False, sentence)
    passed = bound.value <= limit
    measured = f"{what} is {direction + ' ' if direction else ''}{show(bound.value)[0]}"
    of_attack = f" ({attack})" if attack else ""
    beyond = "" if passed else f": {show(bound.value - limit)[1]} over"
    verb = "passed" if passed else "failed"
    sentence = f"Gate {verb}: {measured}{of_attack}, the limit is {show(limit)[0]}{beyond}."
    return LimitOutcome(limit_on, limit, bound.value, attack, passed, sentence)


def _points(rate: float) -> tuple[str, str]:
    """A rate as a percentage, and a difference of rates in points; enough digits to see it."""
    digits = 1 if abs(rate) >= 0.001 or rate == 0 else 3
    percent = f"{100 * rate:.{digits}f}"
    return f"{percent.removesuffix('.0')}%", f"{percent} points"


def _plain_number(value: float) -> tuple[str, str]:
    return f"{value:.3g}", f"{value:.2g}"
