"""Limits to begin with: the levels of the rating as a `[gate]` table, with their reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leakscope.disk.toml_text import toml_table
from leakscope.evaluate.gate import Gate, GateOutcome, TprLimit
from leakscope.evaluate.levels import LEVELS, advantage_of, as_limit, auc_of, tpr_of
from leakscope.evaluate.limits import judge_gate, why_approximate
from leakscope.evaluate.rating import counts
from leakscope.evaluate.rating_results import Level
from leakscope.evaluate.results import AuditResults

_HELD: tuple[Level, ...] = ("moderate", "high", "severe")
"""Levels that a gate can keep a model below; "low" begins where anything is detectable at all."""
_SHARES = (0.0, 0.001, 0.01, 0.05, 0.1)
_FIRST_SHARE = 0.01


@dataclass(frozen=True)
class SuggestedGate:
    """Limits and why they are these.

    Attributes:
        gate: the limits.
        below: a model that passes is rated below this level.
        outcome: the outcome of these limits for the audited model; None where nothing was audited yet.
        reasons: one sentence each.
    """

    gate: Gate
    below: Level
    outcome: GateOutcome | None
    reasons: tuple[str, ...]

    @property
    def toml(self) -> str:
        """The `[gate]` table."""
        gate = self.gate
        tprs = [{"fpr": limit.fpr, "tpr": limit.tpr} for limit in gate.max_tpr]
        values = {
            "max_auc": gate.max_auc,
            "max_advantage": gate.max_advantage,
            "max_tpr": tprs or None,
            "max_exposed_share": gate.max_exposed_share,
        }
        return toml_table("gate", values)


def suggested_gate(results: AuditResults) -> SuggestedGate:
    """The tightest limits of the rating that the audited model passes; those of "high" where there is none.

    A model that already leaks more should not set the standard, so no gate allows "high" and more.
    """
    fprs = sorted(
        {
            point.fpr
            for figures in results.attacks.values()
            for point in figures.tpr_at_fpr
            if point.reason is None and counts(point.fpr, results.population)
        }
    )
    share = _exposed_limit(results)
    n_references = results.config.n_references(results.population.models)
    for level in _HELD[:2]:
        gate = gate_below(level, fprs[:1], share)
        outcome = judge_gate(
            gate, results.attacks, results.exposed, results.hygiene, n_references=n_references
        ).outcome
        if outcome == "passed":
            break
    audited = {
        "passed": "The audited model passes these limits.",
        "failed": "The audited model fails these limits.",
        "inconclusive": "This audit cannot decide whether the model is within these limits.",
    }[outcome]
    reasons = (*gate_reasons(gate, level), *_not_limited(results, level))
    return SuggestedGate(gate, level, outcome, (*map(results.config.noun.say, reasons), audited))


def gate_to_begin_with(
    fprs: Sequence[float], n_nonmembers: int, auc_half_width: float, decides_share: bool
) -> SuggestedGate:
    """Limits for an audit that has not been run: the tightest that models without leakage would pass.

    Args:
        fprs: the FPR budgets.
        n_nonmembers: non-members per target.
        auc_half_width: of the interval that the AUC will have.
        decides_share: whether models that reveal nothing pass a limit of 1% on the share of exposed records.
    """
    resolved = sorted(fpr for fpr in fprs if why_approximate(fpr, n_nonmembers) is None)
    level = next((one for one in _HELD if 0.5 + auc_half_width <= auc_of(one)), _HELD[-1])
    gate = gate_below(level, resolved[:1], _FIRST_SHARE if decides_share else None)
    return SuggestedGate(gate, level, None, gate_reasons(gate, level))


def gate_below(level: Level, fprs: Sequence[float], exposed_share: float | None) -> Gate:
    """Limits that only models rated below `level` pass."""
    tprs = tuple(TprLimit(fpr, as_limit(tpr_of(level, fpr))) for fpr in fprs)
    return Gate(
        max_auc=as_limit(auc_of(level)),
        max_advantage=as_limit(advantage_of(level)),
        max_tpr=tprs,
        max_exposed_share=exposed_share,
    )


def gate_reasons(gate: Gate, level: Level) -> tuple[str, ...]:
    """Why each limit is what it is."""
    reasons = [
        f"max_auc, max_advantage and max_tpr are where the rating {level!r} begins (docs/rating.md). A model "
        "passes if the upper ends of its intervals stay below them, so by these figures it is rated at most "
        f"{LEVELS[LEVELS.index(level) - 1]!r}."
    ]
    if gate.max_tpr:
        reasons.append(
            f"{100 * gate.max_tpr[0].fpr:g}% is the lowest false positive rate that this many records "
            "resolve well."
        )
    if gate.max_exposed_share is not None:
        reasons.append(
            "max_exposed_share = 0.01: no more than the most exposed 1% of records may be exposed."
            if gate.max_exposed_share == _FIRST_SHARE
            else "max_exposed_share is the next round number above the share that may be exposed now."
            if gate.max_exposed_share
            else "max_exposed_share = 0: no record is exposed now, and none should be."
        )
    return tuple(reasons)


def _not_limited(results: AuditResults, below: Level) -> list[str]:
    """A figure with no limit of its own that is rated as the gate keeps all others from being rated."""
    return [
        f"No limit covers the {part.what}, rated {part.level!r} here; a model can pass and still be rated so."
        for part in results.rating.parts
        if part.about in ("worst", "canaries") and LEVELS.index(part.level) >= LEVELS.index(below)
    ]


def _exposed_limit(results: AuditResults) -> float | None:
    """The next round share above the largest that may be exposed now; None where that is too large."""
    exposed = results.exposed
    if exposed is None or exposed.share is None:
        return None
    share = max(exposed.share, exposed.at_most)
    return next((limit for limit in _SHARES if share <= limit), None)
