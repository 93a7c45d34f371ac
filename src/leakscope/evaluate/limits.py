"""Applies a gate to the figures of an audit: each limit with its outcome and a sentence."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from leakscope.evaluate.gate import Gate, GateResult, LimitOutcome
from leakscope.evaluate.results import AttackFigures, EpsilonFigure, ExposedRecords, Figure, TprAtFpr


def judge_gate(
    gate: Gate, attacks: Mapping[str, AttackFigures], exposed: ExposedRecords | None
) -> GateResult:
    """The outcome of every limit.

    Args:
        gate: the limits.
        attacks: label -> figures of each attack.
        exposed: records that are individually exposed; None where single records were not evaluated.
    """
    outcomes = tuple(_outcomes(gate, attacks, exposed))
    return GateResult(all(outcome.passed for outcome in outcomes), outcomes)


def _outcomes(
    gate: Gate, attacks: Mapping[str, AttackFigures], exposed: ExposedRecords | None
) -> Iterator[LimitOutcome]:
    def highest(bound_of: Callable[[AttackFigures], _Bound]) -> tuple[str, _Bound]:
        """The attack with the highest bound; one without a bound comes first, as it may be any."""
        bounds = {label: bound_of(figures) for label, figures in attacks.items()}
        return max(bounds.items(), key=lambda item: math.inf if item[1].value is None else item[1].value)

    if gate.max_auc is not None:
        auc = highest(lambda figures: _upper_end(figures.auc))
        yield _outcome(_Limit("max_auc", "the AUC", gate.max_auc), *auc, _as_number)
    if gate.max_advantage is not None:
        advantage = highest(lambda figures: _upper_end(figures.advantage))
        yield _outcome(_Limit("max_advantage", "the advantage", gate.max_advantage), *advantage, _as_percent)
    for allowed in gate.max_tpr:
        tpr = highest(partial(_tpr_upper_end, fpr=allowed.fpr))
        what = f"the TPR at {100 * allowed.fpr:g}% FPR"
        yield _outcome(_Limit("max_tpr", what, allowed.tpr), *tpr, _as_percent)
    if gate.max_epsilon is not None:
        epsilon = highest(lambda figures: _lower_bound(figures.epsilon.general))
        what = f"epsilon (delta {gate.delta:g}, {gate.confidence:.0%} confidence)"
        yield _outcome(_Limit("max_epsilon", what, gate.max_epsilon, "at least "), *epsilon, _as_number)
    if gate.max_exposed_share is not None:
        share = _Bound(exposed.share) if exposed else _Bound(None, "no population of models was attacked")
        limit = _Limit("max_exposed_share", "the share of exposed records", gate.max_exposed_share, "")
        yield _outcome(limit, None, share, _as_percent)


@dataclass(frozen=True)
class _Bound:
    """The bound of a figure, or why there is none."""

    value: float | None
    reason: str = ""

    @classmethod
    def of(cls, value: float | None, reason: str | None) -> _Bound:
        """NaN counts as no bound."""
        return cls(None if value is None or math.isnan(value) else value, reason or "it has no interval")


@dataclass(frozen=True)
class _Limit:
    """One limit: its setting, what it limits, its value, and the side on which the bound lies."""

    name: str
    what: str
    value: float
    side: str = "up to "


def _upper_end(figure: Figure) -> _Bound:
    return _Bound.of(figure.high, figure.reason if isinstance(figure, TprAtFpr) else None)


def _lower_bound(epsilon: EpsilonFigure) -> _Bound:
    return _Bound.of(epsilon.value, epsilon.reason)


def _tpr_upper_end(figures: AttackFigures, fpr: float) -> _Bound:
    (point,) = (point for point in figures.tpr_at_fpr if point.fpr == fpr)
    return _upper_end(point)


def _outcome(
    limit: _Limit, attack: str | None, bound: _Bound, show: Callable[[float], tuple[str, str]]
) -> LimitOutcome:
    allowed = show(limit.value)[0]
    if bound.value is None:
        sentence = f"Gate failed: {limit.what} cannot be measured ({bound.reason}); the limit is {allowed}."
        return LimitOutcome(limit.name, limit.value, None, attack, False, sentence)
    passed = bound.value <= limit.value
    of_attack = f" ({attack})" if attack else ""
    excess = "" if passed else f", exceeded by {show(bound.value - limit.value)[1]}"
    sentence = (
        f"Gate {'passed' if passed else 'failed'}: {limit.what} is {limit.side}{show(bound.value)[0]}"
        f"{of_attack}; the limit is {allowed}{excess}."
    )
    return LimitOutcome(limit.name, limit.value, bound.value, attack, passed, sentence)


def _as_percent(rate: float) -> tuple[str, str]:
    """A rate in percent, and a difference of rates in percentage points; small ones get more digits."""
    digits = 1 if abs(rate) >= 0.001 or rate == 0 else 3
    percent = f"{100 * rate:.{digits}f}"
    return f"{percent.removesuffix('.0')}%", f"{percent} percentage points"


def _as_number(value: float) -> tuple[str, str]:
    return f"{value:.3g}", f"{value:.2g}"
