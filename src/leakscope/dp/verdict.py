"""What a test of a claim says: consistent, refuted, unsupported, or not testable with this budget.

Nothing here calls a claim proven. A lower bound on epsilon below the claim says that this test, with these
canaries and models, found no contradiction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from leakscope.errors import InputError
from leakscope.privacy.claim import Claim
from leakscope.types import Prose

Status = Literal["consistent", "refuted", "unsupported", "not testable"]


@dataclass(frozen=True)
class Growth:
    """A test on a part of the canaries or models: what it would have said with a smaller budget.

    Attributes:
        canaries: number of canaries (or of records) that were guessed about.
        runs: number of trained models.
        epsilon: the lower bound.
        ceiling: the bound had every guess been right.
    """

    canaries: int
    runs: int
    epsilon: float
    ceiling: float


@dataclass(frozen=True)
class Evidence:
    """One lower bound on epsilon, and what it rests on.

    Attributes:
        name: which test, in words, such as "gradient canaries, one run".
        epsilon: the lower bound, at the delta of the claim.
        confidence: of this bound; several bounds share the error of a claim.
        ceiling: the bound that this test would have reached had every guess been right.
        method: how the bound was computed.
        canaries: number of canaries (or of records) that were guessed about.
        runs: number of trained models.
        assumed: what has to be true for the bound to hold, in sentences.
        growth: the same test on parts of the canaries or models, the smallest first, and on all. Only the
            whole test counts.
    """

    name: Prose
    epsilon: float
    confidence: float
    ceiling: float
    method: Prose
    canaries: int
    runs: int
    assumed: tuple[Prose, ...] = ()
    growth: tuple[Growth, ...] = ()


@dataclass(frozen=True)
class ClaimVerdict:
    """The outcome.

    Attributes:
        status: "refuted": a bound is above the claim. "unsupported": no bound is, but the training was seen
            not to draw records as the accounting of the claim supposes. "not testable": no test could have
            refuted the claim, even had every guess been right. "consistent": a test could have, and did not.
        epsilon: the claimed epsilon.
        delta: the claimed delta.
        confidence: of a refutation.
        evidence: the tests, the highest bound first.
        needed: what would make a claim testable, or support it, in a sentence; empty where nothing is
            lacking.
    """

    status: Status
    epsilon: float
    delta: float
    confidence: float
    evidence: tuple[Evidence, ...]
    needed: Prose = ""

    def write_report(self, folder: Path | str) -> None:
        """Writes a page about the claim: report.html, report.md and figures/."""
        from leakscope.dp.page import claim_page

        claim_page(self, folder)

    def __str__(self) -> str:
        from leakscope.dp.sentences import verdict_sentence
        from leakscope.report.phrases import counted

        outcome = [verdict_sentence(self), *([self.needed] if self.needed else [])]
        bounds = [
            f"  at least {e.epsilon:.2f}  {e.method} ({e.canaries:,} canaries, {counted(e.runs, 'run')})"
            for e in self.evidence
        ]
        assumed = dict.fromkeys(sentence for e in self.evidence for sentence in e.assumed)
        return "\n".join([*outcome, *bounds, "Assumed:", *(f"  {sentence}" for sentence in assumed)])


@dataclass(frozen=True)
class ClaimFigures:
    """A claim tested on the models of an audit.

    Attributes:
        verdict: the outcome, with the tests that decide it.
        supposing_gaussian: the same tests, where the trade-off of the training is supposed to be Gaussian.
            They decide nothing; empty where the claim says so itself.
        power: the probability that these tests refute the claim where epsilon is twice the claimed one, and
            the attack is the best possible.
        needed: the budget for a power of 80%, in a sentence.
    """

    verdict: ClaimVerdict
    supposing_gaussian: tuple[Evidence, ...]
    power: float
    needed: Prose


def judge_claim(
    claim: Claim, evidence: Sequence[Evidence], needed: str = "", is_supported: bool = True
) -> ClaimVerdict:
    """The verdict on a claim.

    Args:
        claim: what was claimed.
        evidence: the tests; the errors of their bounds may not exceed the claim's together.
        needed: what would make the claim testable, or support it; used where it is not.
        is_supported: false where the training does not do what the accounting of the claim supposes.

    Raises:
        InputError: no evidence, or bounds whose errors exceed the claim's together.
    """
    error = sum(1 - bound.confidence for bound in evidence)
    if not evidence or error > 1 - claim.confidence + 1e-12:
        raise InputError(
            f"{len(evidence)} bounds with a total error of {error:.3g}: a claim at {claim.confidence:.0%} "
            f"confidence needs at least one bound and allows {1 - claim.confidence:.3g}"
        )
    claimed = claim.claimed_epsilon()
    status: Status = "consistent"
    if any(bound.epsilon > claimed for bound in evidence):
        status = "refuted"
    elif not is_supported:
        status = "unsupported"
    elif all(bound.ceiling <= claimed for bound in evidence):
        status = "not testable"
    ranked = tuple(sorted(evidence, key=lambda bound: -bound.epsilon))
    needed = needed if status in ("not testable", "unsupported") else ""
    return ClaimVerdict(status, claimed, claim.delta, claim.confidence, ranked, needed)
