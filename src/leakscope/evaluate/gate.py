"""The gate: limits a model must keep, judged on what the figures allow, not on what they happen to be.

A rate passes when the *upper end* of its interval is within the limit, so too few records or models
fail rather than pass. Epsilon is known from below only: it fails when its lower bound, which holds with
the stated confidence, is above the limit. What cannot be resolved fails, with the reason. Of several
attacks the strongest counts.
"""

from __future__ import annotations

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


@dataclass(frozen=True)
class GateResult:
    """How a gate ended.

    Attributes:
        passed: true when every limit held.
        limits: the outcome of each limit.
    """

    passed: bool
    limits: tuple[LimitOutcome, ...]


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
