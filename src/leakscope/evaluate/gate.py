"""The gate: limits on leakage that a release must stay within.

A gate passes, fails or is inconclusive. A rate passes when the *upper end* of its 99% interval is within the
limit, and fails when the *lower end* of its 95% interval is above it. Passing asks for more, because
intervals for records like these are approximate (docs/coverage.md). A limit between the two
decides nothing, and neither does a figure that cannot be measured. Epsilon is only known from below, so its
limit can fail but never pass. The limit on exposed records fails by those that are detected, and passes by an
upper bound on those that there may be (`exposed_share`). Where a check of the audit failed, nothing is
concluded. Every attack counts. Attacks are stronger with more reference models, so a given model with fewer
than `FEWEST_REFERENCES` of them can fail a gate and cannot pass one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from leakscope.errors import InputError, did_you_mean
from leakscope.report.phrases import counted
from leakscope.types import Prose

GateOutcome = Literal["passed", "failed", "inconclusive"]
Preset = Literal["release", "research", "internal"]

DEFAULT_DELTA, DEFAULT_CONFIDENCE = 1e-5, 0.95
FEWEST_REFERENCES = 8
"""With fewer reference models, a given model cannot pass a gate."""
MORE_ARE_STRONGER = "attacks are stronger with more reference models"
"""Why."""


@dataclass(frozen=True)
class TprLimit:
    """The largest true positive rate allowed within a false positive rate.

    Attributes:
        fpr: the false positive rate.
        tpr: the limit on the TPR.
    """

    fpr: float
    tpr: float


@dataclass(frozen=True)
class Gate:
    """Limits on leakage; None: no limit.

    Attributes:
        max_auc: limit on the AUC.
        max_advantage: limit on the advantage.
        max_tpr: limits on the TPR, at chosen false positive rates.
        max_epsilon: limit on epsilon; as epsilon is only bounded from below, it can fail but never pass.
        max_exposed_share: limit on the share of individually exposed records. It fails when more are
            detected. It passes when, with 99% confidence, there are no more records about which the attack is
            right for at least four of five models; that takes many models (`leakscope plan` says how many).
        delta: delta of the bound that `max_epsilon` limits.
        confidence: confidence of that bound.
        preset: for whom the model is meant: "release" (everyone), "research" (others, under an agreement) or
            "internal". It sets limits on the AUC, the advantage and the TPR at 1% FPR; limits given here take
            precedence.
        records: which intervals count: those for records "like these" (another sample of records, and models
            trained on it), or the narrower ones for "these" (other models trained on halves of them).
    """

    max_auc: float | None = None
    max_advantage: float | None = None
    max_tpr: tuple[TprLimit, ...] = ()
    max_epsilon: float | None = None
    max_exposed_share: float | None = None
    delta: float = DEFAULT_DELTA
    confidence: float = DEFAULT_CONFIDENCE
    preset: Preset | None = None
    records: Literal["like these", "these"] = "like these"

    def __post_init__(self) -> None:
        problems = _gate_problems(self)
        if problems:
            raise InputError("gate: " + "; ".join(problems))


@dataclass(frozen=True)
class LimitOutcome:
    """One limit and its outcome.

    Attributes:
        limit_on: name of the setting.
        fpr: the false positive rate of a limit on the TPR; None for other limits.
        limit: what is allowed.
        bound: the end of the interval that decides: the lower end where the limit failed or the figure has no
            other, else the upper end of the 99% interval; None where it cannot be measured.
        attack: the attack with this bound; None for a figure that belongs to no single attack.
        outcome: whether the limit holds.
        sentence: the outcome as a sentence.
    """

    limit_on: str
    fpr: float | None
    limit: float
    bound: float | None
    attack: str | None
    outcome: GateOutcome
    sentence: Prose


@dataclass(frozen=True)
class GateResult:
    """The outcome of a gate.

    Attributes:
        outcome: "failed" when a limit is broken, else "inconclusive" when one could not be decided.
        limits: the outcome of each limit.
    """

    outcome: GateOutcome
    limits: tuple[LimitOutcome, ...]


def why_too_few(n_references: int) -> str | None:
    """Why so few reference models cannot show that a given model is within a limit; None where they can."""
    if n_references >= FEWEST_REFERENCES:
        return None
    is_or_are = "is" if n_references == 1 else "are"
    few = f"{counted(n_references, 'reference model')} {is_or_are} too few"
    if not n_references:
        few = "an audit without reference models is too weak"
    return (
        f"{few} to show that a model is within a limit, because {MORE_ARE_STRONGER}; use at least "
        f"{FEWEST_REFERENCES}"
    )


def _gate_problems(gate: Gate) -> list[str]:
    """Everything wrong with a gate, one phrase per problem."""
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
    problems += [*_choice_problems(gate), *_epsilon_problems(gate)]
    given = (*rates.values(), gate.max_epsilon, gate.preset)
    if all(value is None for value in given):
        problems.append(
            "no limit is set; give a preset, max_auc, max_advantage, max_tpr, max_epsilon or "
            "max_exposed_share"
        )
    return problems


def _choice_problems(gate: Gate) -> Iterator[str]:
    if gate.preset not in (None, *get_args(Preset)):
        hint = did_you_mean(str(gate.preset), get_args(Preset), after=" ")
        yield f"preset={gate.preset!r}: {hint}choose one of {', '.join(get_args(Preset))}"
    if gate.records not in ("like these", "these"):
        yield f'records={gate.records!r}: choose "like these" or "these"'


def _epsilon_problems(gate: Gate) -> Iterator[str]:
    if gate.max_epsilon is not None and not gate.max_epsilon >= 0:
        yield f"max_epsilon={gate.max_epsilon}: must be 0 or more"
    if not 0 <= gate.delta < 1:
        yield f"delta={gate.delta}: must be at least 0 and below 1"
    if not 0 < gate.confidence < 1:
        yield f"confidence={gate.confidence}: must be between 0 and 1, like 0.95"
    if gate.max_epsilon is None and (gate.delta, gate.confidence) != (DEFAULT_DELTA, DEFAULT_CONFIDENCE):
        yield "delta, confidence would do nothing: they belong to `max_epsilon`"
