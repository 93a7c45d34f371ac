"""What an audit will be able to say about a claim of differential privacy, and what it takes to say more."""

from __future__ import annotations

from dataclasses import dataclass

from leakscope.audits.planning.trial import Seconds
from leakscope.audits.source import PreparedAudit
from leakscope.dp.bounds import (
    MOST_COINS,
    ceiling_of_given_size,
    ceiling_of_guesses,
    ceiling_of_rates,
    records_to_guess,
)
from leakscope.dp.power import models_needed, power_of_one_model, power_of_population, records_needed
from leakscope.dp.sentences import models_sentence, power_sentence, records_sentence
from leakscope.evaluate.hygiene.models import LEAST_MODELS
from leakscope.privacy.claim import Claim


@dataclass(frozen=True)
class PlannedClaim:
    """What an audit can say about a claim.

    Attributes:
        epsilon: the claimed epsilon.
        ceiling: the lower bound on epsilon if every guess is right; the claim is testable if it is higher.
        power: the probability of a refutation where epsilon is twice the claimed one, by the best attack.
        models_needed: models for a power of 80%; None: more than a million, or one given model is audited.
        records_needed: records of one given model for a power of 80%; None: no number is enough, or a
            population is audited.
        seconds: training time of as many models; None where they are not trained here.
        sentences: the same in words.
    """

    epsilon: float
    ceiling: float
    power: float
    models_needed: int | None
    records_needed: int | None
    seconds: float | None
    sentences: tuple[str, ...]


def plan_claim(prepared: PreparedAudit, training: Seconds | None) -> PlannedClaim | None:
    """What the audit can say about its claim; None where nothing is claimed."""
    claim = prepared.config.claim
    if claim is None:
        return None
    n_records = prepared.sizes.records
    if prepared.config.targets is not None:
        n_each = min(prepared.sizes.members, prepared.sizes.nonmembers)
        return _of_one_model(claim, 2 * n_each)
    if prepared.request is not None and prepared.request.records.is_canary is not None:
        n_records = int(prepared.request.records.is_canary.sum())
    return _of_population(claim, prepared.n_models, n_records, training)


def _of_population(claim: Claim, n_models: int, n_records: int, training: Seconds | None) -> PlannedClaim:
    epsilon, needed = claim.claimed_epsilon(), models_needed(n_records, claim)
    n_tested, error = n_models - n_models // 2, (1 - claim.confidence) / 2
    n_guessed = min(n_tested, MOST_COINS)
    n_coins = n_guessed * records_to_guess(n_guessed, n_records, claim, error)
    by_rates = ceiling_of_rates(n_tested // 2, n_tested - n_tested // 2, claim, 1 - error)
    ceiling = max(by_rates, ceiling_of_guesses(n_coins, claim, error)) if n_models >= LEAST_MODELS else 0.0
    power = power_of_population(n_models, n_records, claim) if n_models >= LEAST_MODELS else 0.0
    seconds = None if training is None or needed is None else training.expected * needed / n_models
    sentences = (*_ceiling_sentences(claim, ceiling, power), models_sentence(n_records, claim))
    return PlannedClaim(epsilon, ceiling, power, needed, None, seconds, sentences)


def _of_one_model(claim: Claim, n_records: int) -> PlannedClaim:
    epsilon, error = claim.claimed_epsilon(), 1 - claim.confidence
    ceiling = ceiling_of_given_size(n_records, claim, error)
    power, needed = power_of_one_model(n_records, claim), records_needed(claim)
    sentences = (*_ceiling_sentences(claim, ceiling, power), records_sentence(claim))
    return PlannedClaim(epsilon, ceiling, power, None, needed, None, sentences)


def _ceiling_sentences(claim: Claim, ceiling: float, power: float) -> tuple[str, ...]:
    claimed = f"epsilon = {claim.claimed_epsilon():.3g} at delta = {claim.delta:g}"
    reach = f"if every guess is right, the lower bound on epsilon will be {ceiling:.3g}"
    if ceiling <= claim.claimed_epsilon():
        return (f"The claim of {claimed} is not testable with this budget: {reach}.",)
    return f"The claim of {claimed} is testable: {reach}.", power_sentence(claim.claimed_epsilon(), power)
