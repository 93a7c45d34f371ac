"""A claim of differential privacy, tested on the outputs of an audit's models.

The models are split. One half chooses the records and learns how outputs look with and without them; the
other half is tested. So neither the choice nor the scores know a coin that is guessed. A score is LiRA's log
likelihood ratio with one variance per record, whose references are the models of the first half. Where one
given model is tested, its references are the first half.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.attacks.label_fit import CLASSIFIER, REGRESSION
from leakscope.attacks.registry import PER_RECORD
from leakscope.bank.bank import Bank
from leakscope.disk.scratch import RECORDS_AT_ONCE, blocks
from leakscope.dp.bounds import COINS, MOST_COINS, evidence_of_guesses, evidence_of_rates, records_to_guess
from leakscope.dp.coins import balanced_records
from leakscope.dp.power import power_of_one_model, power_of_population
from leakscope.dp.sentences import models_sentence, records_sentence
from leakscope.dp.verdict import ClaimFigures, Evidence, judge_claim
from leakscope.evaluate.hygiene.models import LEAST_MODELS
from leakscope.privacy.claim import Claim

_PRIOR_MODELS = 8
"""A record's own variance counts as much as that of all records with this many models."""
_SMALLEST_VARIANCE, _LARGEST_OUTPUT = 1e-12, 1e6
RANDOM_MEMBERS = "Which records are members was drawn at random: every choice of as many was equally likely."
INDEPENDENT_REFERENCES = "The reference models were trained without regard to who the target's members are."


class Halves(NamedTuple):
    """Who is tested, and who chooses.

    Attributes:
        tested: int64, models whose coins are guessed.
        references: int64, models that the choice and the scores come from.
        candidates: int64, records to choose from.
        is_one_model: one given model is tested, whose members somebody else drew.
    """

    tested: IntArray
    references: IntArray
    candidates: IntArray
    is_one_model: bool


class _Learned(NamedTuple):
    """What the references say about the candidates; float64 (candidates,) each."""

    weight: FloatArray  # of the output in the log ratio
    middle: FloatArray  # the output that speaks neither for IN nor for OUT
    separation: FloatArray  # between IN and OUT, in standard errors


def figures_of_claim(
    bank: Bank, claim: Claim, targets: tuple[int, ...] | None, canaries: IntArray
) -> ClaimFigures:
    """The verdict on a claim.

    Args:
        bank: a complete bank; what its design must be, `leakscope.dp.coins` checks before.
        claim: what is claimed about the training.
        targets: the given model; None: the models are a population.
        canaries: int64, the records to choose from; empty: all records.
    """
    halves = halves_of(bank, targets, canaries)
    n_models, n_records = len(halves.tested) + len(halves.references), len(halves.candidates)
    if halves.is_one_model:
        power, needed = power_of_one_model(n_records, claim), records_sentence(claim)
    else:
        power = power_of_population(n_models, n_records, claim) if n_models >= LEAST_MODELS else 0.0
        needed = models_sentence(n_records, claim)
    verdict = judge_claim(claim, _evidence(bank, halves, claim), needed)
    supposed: tuple[Evidence, ...] = ()
    if not claim.is_gaussian and claim.delta > 0:
        supposed = _evidence(bank, halves, replace(claim, tradeoff="gaussian"))
    return ClaimFigures(verdict, supposed, power, needed)


def halves_of(bank: Bank, targets: tuple[int, ...] | None, canaries: IntArray) -> Halves:
    """Who is tested, and who chooses; models that diverged choose nothing, and are tested all the same."""
    design, everyone = bank.design(), np.arange(bank.design().n_models)
    tested = everyone[1::2] if targets is None else np.array(targets, np.int64)
    references = np.setdiff1d(np.setdiff1d(everyone, tested), list(bank.diverged)).astype(np.int64)
    if targets is not None:
        return Halves(tested, references, balanced_records(design.in_mask[tested[0]]), is_one_model=True)
    candidates = canaries if len(canaries) else np.arange(design.n_records)
    return Halves(tested, references, candidates, is_one_model=False)


def _evidence(bank: Bank, halves: Halves, claim: Claim) -> tuple[Evidence, ...]:
    """The tests, which share the error of the claim."""
    if halves.is_one_model:
        return (_guesses(bank, halves, claim, claim.confidence),)
    confidence = 1 - (1 - claim.confidence) / 2
    if len(halves.tested) + len(halves.references) < LEAST_MODELS:
        few = f"needs at least {LEAST_MODELS} models"
        return (Evidence("one record, many models", 0.0, confidence, 0.0, few, 1, len(halves.tested)),)
    worst = halves.candidates[np.argmax(_learned(bank, halves).separation)]
    scores, is_in = _scores(bank, halves, np.array([worst]))
    by_rates = evidence_of_rates(scores[:, 0], is_in[:, 0], claim, confidence)
    return by_rates, _guesses(bank, halves, claim, confidence)


def _guesses(bank: Bank, halves: Halves, claim: Claim, confidence: float) -> Evidence:
    """Guesses about the records that are most exposed in the references; without references, about any."""
    halves = halves._replace(tested=halves.tested[:MOST_COINS])
    n_guessed = records_to_guess(
        len(halves.tested), len(halves.candidates), claim, 1 - confidence, halves.is_one_model
    )
    separation = _learned(bank, halves).separation
    order = np.lexsort((np.random.default_rng(0).random(len(separation)), -separation))
    scores, is_in = _scores(bank, halves, np.sort(halves.candidates[order[:n_guessed]]))
    evidence = evidence_of_guesses(scores, is_in, claim, confidence, of_given_size=halves.is_one_model)
    if not halves.is_one_model:
        return evidence
    independent = (INDEPENDENT_REFERENCES,) if len(halves.references) else ()
    others = tuple(sentence for sentence in evidence.assumed if sentence != COINS)
    return replace(evidence, assumed=(*others, RANDOM_MEMBERS, *independent))


def _scores(bank: Bank, halves: Halves, records: IntArray) -> tuple[FloatArray, BoolArray]:
    """Scores of the tested models and their coins; (tested, records) each.

    A model that diverged has the score 0 on every record, which says nothing.
    """
    outputs = _outputs(bank, halves.tested, records)
    is_in = bank.design().in_mask[np.ix_(halves.tested, records)]
    if len(halves.references):
        learned = _learned(bank, halves._replace(candidates=records))
        outputs = learned.weight * (outputs - learned.middle)
    outputs[np.isin(halves.tested, list(bank.diverged))] = 0.0
    return outputs, is_in


def _learned(bank: Bank, halves: Halves) -> _Learned:
    """Means and variances over the references; nothing is known of a record that all or none of them have."""
    n_records, in_mask = len(halves.candidates), bank.design().in_mask
    means, scatter, n_in = np.zeros((2, n_records)), np.zeros(n_records), np.zeros(n_records)
    for some in blocks(n_records, RECORDS_AT_ONCE):
        records = halves.candidates[some]
        outputs = _outputs(bank, halves.references, records)
        mask = in_mask[np.ix_(halves.references, records)]
        n_in[some] = mask.sum(axis=0)
        for side, is_side in enumerate((mask, ~mask)):
            total = np.where(is_side, outputs, 0.0).sum(axis=0)
            means[side, some] = total / np.maximum(is_side.sum(axis=0), 1)
            scatter[some] += (np.where(is_side, outputs - means[side, some], 0.0) ** 2).sum(axis=0)
    n_models = len(halves.references)
    is_known = (n_in > 0) & (n_in < n_models)
    usual = scatter.sum() / max(1, n_records * (n_models - 2))
    variance = np.maximum(
        (scatter + _PRIOR_MODELS * usual) / (max(n_models - 2, 0) + _PRIOR_MODELS), _SMALLEST_VARIANCE
    )
    gap = np.where(is_known, means[0] - means[1], 0.0)
    error = np.sqrt(variance * (1 / np.maximum(n_in, 1) + 1 / np.maximum(n_models - n_in, 1)))
    return _Learned(gap / variance, means.mean(axis=0), np.abs(gap) / error)


def _outputs(bank: Bank, models: IntArray, records: IntArray) -> FloatArray:
    """How well outputs fit the labels, at the last checkpoint; float64 (models, records), finite."""
    signals = bank.signals()
    name = PER_RECORD.reads_from(signals)[0]
    outputs = np.asarray(signals.last(name)[np.ix_(models, records)], np.float64)
    if name == REGRESSION:
        outputs = -np.abs(outputs)
    assert name in (CLASSIFIER, REGRESSION), "the signals of single records"
    return np.clip(np.nan_to_num(outputs), -_LARGEST_OUTPUT, _LARGEST_OUTPUT)
