"""A verdict on a claim in plain sentences. None of them calls a claim proven or a training safe."""

from __future__ import annotations

from dataclasses import replace

from leakscope.dp.power import FACTOR, WANTED_POWER, models_needed, records_needed
from leakscope.dp.verdict import ClaimFigures, ClaimVerdict, Evidence
from leakscope.privacy.claim import Claim
from leakscope.report.phrases import counted

_WANTED = (
    f"To refute the claim with a probability of {WANTED_POWER:.0%} where epsilon is {FACTOR:g} times as high"
)


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
            f"{best.epsilon:.3g}. A lower bound can refute a claim, but cannot confirm one."
        )
    if verdict.status == "unsupported":
        return (
            f"The claim of {claimed} is unsupported: it was accounted for records that are drawn "
            "independently in each update, and this training draws them in another way. The highest lower "
            f"bound on epsilon is {best.epsilon:.3g}."
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
        sentences.append(power_sentence(figures.verdict.epsilon, figures.power))
    is_weak = figures.power < WANTED_POWER
    if figures.verdict.status == "not testable" or (figures.verdict.status == "consistent" and is_weak):
        sentences.append(figures.needed)
    return sentences


def power_sentence(claimed: float, power: float) -> str:
    """What the tests of a claim can refute."""
    return (
        f"If epsilon is {FACTOR * claimed:.3g}, {FACTOR:g} times the claim, the best attack refutes it "
        f"with a probability of {_percent(power)}."
    )


def models_sentence(n_records: int, claim: Claim) -> str:
    """How many models refute a claim that is off by a factor of two."""
    needed = models_needed(n_records, claim)
    sentence = f"{_WANTED}, it takes more than a million models"
    if needed is not None:
        sentence = f"{_WANTED}, it takes at least {_rounded(needed)} models"
    gaussian = None
    if not claim.is_gaussian and claim.delta > 0:
        gaussian = models_needed(n_records, replace(claim, tradeoff="gaussian"))
    if gaussian is None:
        return f"{sentence}."
    of_gaussian = 'where the claim is of a Gaussian mechanism (tradeoff = "gaussian")'
    return f"{sentence}; {_rounded(gaussian)} {of_gaussian}."


def records_sentence(claim: Claim) -> str:
    """How many records of one given model refute a claim that is off by a factor of two."""
    needed = records_needed(claim)
    if needed is None:
        return f"{_WANTED}, no number of records of one model is enough: train a population."
    return f"{_WANTED}, it takes at least {_rounded(needed)} records, half of them members."


def budget_text(evidence: Evidence) -> str:
    """How many records and models a test rests on."""
    return f"{counted(evidence.canaries, 'record')}, {counted(evidence.runs, 'model')}"


def _percent(share: float) -> str:
    if share < 0.01:
        return "less than 1%"
    return "more than 99%" if share > 0.99 else f"{share:.0%}"


def _rounded(number: int) -> str:
    """Two digits: the number is an estimate."""
    digits = 10 ** max(0, len(str(number)) - 2)
    return f"{-(-number // digits) * digits:,}"
