"""The gate: limits a model must keep, judged on what the figures allow, not on what they happen to be.

A rate passes when the *upper end* of its interval is within the limit, so too few records or models
fail rather than pass. Epsilon is known from below only: it fails when its lower bound, which holds with
the stated confidence, is above the limit. What cannot be resolved fails, with the reason. Of several
attacks the strongest counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from leakscope.errors import InputError

DEFAULT_DELTA, DEFAULT_CONFIDENCE = 1e-5, 0.95


@dataclass(frozen=True)
class TprLimit:
    """The true positive rate that may be reached within a false positive rate."""

    fpr: float
    tpr: float


@dataclass(frozen=True)
class Gate:
    """Limits; None: not asked.

    Attributes:
        max_auc: of the upper end of the AUC's interval.
        max_advantage: of the upper end of the advantage's interval.
        max_tpr: of the upper end of the TPR's interval, at some FPRs.
        max_epsilon: of the lower bound of epsilon at `delta`, which holds with `confidence`.
        max_exposed_share: of the share of records that are exposed one by one.
        delta: of `max_epsilon`.
        confidence: of `max_epsilon`.
    """

    max_auc: float | None = None
    max_advantage: float | None = None
    max_tpr: tuple[TprLimit, ...] = ()
    max_epsilon: float | None = None
    max_exposed_share: float | None = None
    delta: float = DEFAULT_DELTA
    confidence: float = DEFAULT_CONFIDENCE

    def __post_init__(self) -> None:
        problems = _gate_problems(self)
        if problems:
            raise InputError("gate: " + "; ".join(problems))

    def as_dict(self) -> dict[str, Any]:
        """Plain data for results.json."""
        return {**asdict(self), "max_tpr": [asdict(limit) for limit in self.max_tpr]}

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> Gate:
        """The gate `as_dict` described."""
        return cls(**{**stored, "max_tpr": tuple(TprLimit(**limit) for limit in stored["max_tpr"])})


@dataclass(frozen=True)
class LimitOutcome:
    """One limit and how it went.

    Attributes:
        limit_on: name of the setting.
        limit: what is allowed.
        bound: what the figures allow; None where that is not resolvable.
        attack: the attack with the highest bound; None for a figure that is not one attack's.
        passed: true when the bound is within the limit.
        sentence: all of it in words.
    """

    limit_on: str
    limit: float
    bound: float | None
    attack: str | None
    passed: bool
    sentence: str


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


def _gate_problems(gate: Gate) -> list[str]:
    """Everything wrong with a gate, in words."""
    rates: dict[str, float | None] = {
        "max_auc": gate.max_auc,
        "max_advantage": gate.max_advantage,
        "max_exposed_share": gate.max_exposed_share,
        **{f"max_tpr at fpr={limit.fpr:g}": limit.tpr for limit in gate.max_tpr},
    }
    problems = [
        f"{k}={v}: must be from 0 to 1" for k, v in rates.items() if v is not None and not 0 <= v <= 1
    ]
    problems += [
        f"max_tpr fpr={t.fpr}: must be above 0 and at most 1" for t in gate.max_tpr if not 0 < t.fpr <= 1
    ]
    if gate.max_epsilon is not None and not gate.max_epsilon >= 0:
        problems.append(f"max_epsilon={gate.max_epsilon}: must be 0 or more")
    if not 0 <= gate.delta < 1:
        problems.append(f"delta={gate.delta}: must be at least 0 and below 1")
    if not 0 < gate.confidence < 1:
        problems.append(f"confidence={gate.confidence}: must be between 0 and 1, like 0.95")
    if not (any(value is not None for value in rates.values()) or gate.max_epsilon is not None):
        problems.append(
            "no limit is set; give max_auc, max_advantage, max_tpr, max_epsilon or max_exposed_share"
        )
    return problems
