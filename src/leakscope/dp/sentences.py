"""A verdict on a claim in plain sentences. None of them calls a claim proven or a training safe."""

from __future__ import annotations

from leakscope.dp.power import FACTOR, WANTED_POWER
from leakscope.dp.verdict import ClaimFigures, ClaimVerdict, Evidence


def claimed_text(verdict: ClaimVerdict) -> str:
    """What was claimed."""
    return f"epsilon = {verdict.epsilon:.3g} at delta = {verdict.delta:g}"


def verdict_sentence(verdict: ClaimVerdict) -> str:
    """The outcome, with the confidence of a refutation."""
    claimed, best = claimed_text(verdict), verdict.evidence[0]
    if verdict.status == "refuted":
        return (
            f"The claim of {claimed} is refuted with {verdict.confidence:.0%} confidence: epsilon is at "
            f"least {best.epsilon:.3g} ({best.name})."
        )
    if verdict.status == "consistent":
        return (
            f"The tests are consistent with the claim of {claimed}: the highest lower bound on epsilon is "
            f"{best.epsilon:.3g}. A lower bound can refute a claim, and cannot confirm one."
        )
    ceiling = max(evidence.ceiling for evidence in verdict.evidence)
    return (
        f"The claim of {claimed} is not testable with this budget: even if every guess had been right, the "
        f"lower bound on epsilon would have been {ceiling:.3g}."
    )


def figures_sentences(figures: ClaimFigures) -> list[str]:
    """The outcome, what the tests could have refuted, and what a sharper test takes."""
    sentences = [verdict_sentence(figures.verdict)]
    if figures.verdict.status == "consistent":
        sentences.append(power_sentence(figures))
    is_weak = figures.power < WANTED_POWER
    if figures.verdict.status == "not testable" or (figures.verdict.status == "consistent" and is_weak):
        sentences.append(figures.needed)
    return sentences


def power_sentence(figures: ClaimFigures) -> str:
    """What the tests could have refuted."""
    twice = f"{FACTOR * figures.verdict.epsilon:.3g}"
    return (
        f"Had epsilon been {twice}, {FACTOR:g} times the claim, the best possible attack would have refuted "
        f"the claim with a probability of {_percent(figures.power)}."
    )


def budget_text(evidence: Evidence) -> str:
    """How many records and models a test rests on."""
    records = "1 record" if evidence.canaries == 1 else f"{evidence.canaries:,} records"
    models = "1 model" if evidence.runs == 1 else f"{evidence.runs:,} models"
    return f"{records}, {models}"


def _percent(share: float) -> str:
    if share < 0.01:
        return "less than 1%"
    return "more than 99%" if share > 0.99 else f"{share:.0%}"
