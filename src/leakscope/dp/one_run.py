"""From the scores and coins of one training to a verdict on a claim."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.dp.draws import pattern_evidence, why_draws_depend
from leakscope.dp.gaussian_sum import NO_DELTA, gaussian_sum_evidence, why_not_gaussian_noise
from leakscope.dp.missing_noise import bare_evidence, bare_updates
from leakscope.dp.seen_settings import Values, settings_evidence, why_noise_is_not_gaussian
from leakscope.dp.verdict import ClaimVerdict, Evidence, judge_claim
from leakscope.errors import InputError
from leakscope.privacy.claim import Claim
from leakscope.stats.epsilon import EpsilonBound
from leakscope.stats.one_run import (
    GUESSED_SHARES,
    Guesses,
    epsilon_of_guesses,
    gaussian_epsilon_of_guesses,
    strongest_bound,
)

COINS = "Each canary was in by its own fair coin, and the training knew no coin."
GAUSSIAN = (
    "The trade-off curve of the training is Gaussian, or above a Gaussian one of the claimed epsilon and "
    "delta, as that of DP-SGD."
)
BoundOf = Callable[..., EpsilonBound]
_MOST_CANARIES = 100_000
_NEEDED_DRAWS = (
    "Draw each record independently in each update, or account for the batches as they are drawn and claim "
    "that epsilon."
)


class Placed(NamedTuple):
    """Where canaries were in the training, as far as that is known.

    Attributes:
        drawn: bool (updates, canaries), who was in the batches of each update.
        layers: int64 (canaries,), the parameter tensor of each; one for all by default.
    """

    drawn: BoolArray | None = None
    layers: IntArray | None = None


NOWHERE = Placed()
"""Where nothing is known."""


def audit_scores(
    scores: FloatArray,
    is_in: BoolArray,
    claim: Claim,
    *,
    name: str = "one run",
    white_box: bool = False,
    updates: FloatArray | None = None,
    placed: Placed = NOWHERE,
    assumed: Sequence[str] = (),
) -> ClaimVerdict:
    """The verdict of one training on a claim.

    Args:
        scores: float64 (canaries,), higher means in; any function of what the training releases.
        is_in: bool (canaries,), the coins.
        claim: what is claimed.
        name: of the test, such as "gradient canaries, one run".
        white_box: whether scores are sums of noisy gradients, so that they may be Gaussian.
        updates: float64 (updates, canaries), the noisy gradients themselves, with nothing but noise for
            canaries that are not drawn.
        placed: where canaries were in the training.
        assumed: what else has to be true, in sentences.

    Raises:
        InputError: scores and coins that do not fit, or that cannot be those of such a test.
    """
    scores, is_in, drawn = np.asarray(scores, dtype=np.float64), np.asarray(is_in), placed.drawn
    _check(scores, is_in)
    ways = _ways_to_bound(claim, white_box)
    each = 1 - (1 - claim.confidence) / (len(ways) + white_box + (updates is not None))
    evidence = [_guessing(scores, is_in, way, claim.delta, each, name) for way in ways]
    why_not = _why_not_gaussian(scores, is_in, claim, updates) if white_box else ""
    if why_not:
        evidence[-1] = _unused(evidence[-1], why_not)
    if white_box:
        of_sums = gaussian_sum_evidence(scores, is_in, claim, each, name)
        evidence.append(_unused(of_sums, why_not) if why_not and of_sums.ceiling else of_sums)
    used = [way for way, bound in zip(ways, evidence, strict=False) if bound.ceiling]
    if updates is not None:
        evidence.append(_of_updates(Values(updates, is_in), placed, claim, each, name))
    doubt = "" if drawn is None else _doubt(drawn[:, is_in])
    assumed = [*assumed, doubt] if doubt else assumed
    evidence = [replace(e, assumed=(COINS, *assumed, *e.assumed)) for e in evidence]
    if doubt and claim.supposes_sampling:
        return judge_claim(claim, evidence, _NEEDED_DRAWS, is_supported=False)
    is_testable = any(bound.ceiling > claim.claimed_epsilon() for bound in evidence)
    return judge_claim(claim, evidence, "" if is_testable else needed(claim, used, each))


def _doubt(drawn: BoolArray) -> str:
    """What is wrong with counting on random sampling, in a sentence; empty where nothing is."""
    reason = why_draws_depend(drawn)
    if not reason:
        return ""
    return (
        f"Batches are not Poisson samples: {reason}. An epsilon that was accounted for Poisson sampling says "
        "nothing about this training."
    )


def _of_updates(
    values: Values,
    placed: Placed,
    claim: Claim,
    confidence: float,
    name: str,
) -> Evidence:
    """The higher of two bounds from single updates; each pays with half of the error, and spares the rest."""
    of_settings = _of_sampling(values, placed.drawn, claim, confidence, name)
    layers = np.zeros(len(values.is_in), dtype=np.int64) if placed.layers is None else placed.layers
    bare = bare_updates(values.values, values.is_in, layers)
    if bare is None:
        return of_settings
    of_bare = replace(bare_evidence(bare, claim, (1 + confidence) / 2, name), confidence=confidence)
    return max(of_bare, of_settings, key=lambda evidence: evidence.epsilon)


def _of_sampling(
    values: Values, drawn: BoolArray | None, claim: Claim, confidence: float, name: str
) -> Evidence:
    """The bound from settings; where batches are seen to be no Poisson samples, from their patterns."""
    why_dependent = "" if drawn is None else why_draws_depend(drawn[:, values.is_in])
    if drawn is None or not why_dependent:
        return settings_evidence(values, claim, confidence, name)
    return pattern_evidence(values, drawn, claim, confidence, name, why_dependent)


def _ways_to_bound(claim: Claim, white_box: bool) -> list[BoundOf]:
    """Bounds from guesses; that of a Gaussian trade-off needs Gaussian noise, claimed or seen."""
    if claim.is_gaussian or white_box:
        return [epsilon_of_guesses, gaussian_epsilon_of_guesses]
    return [epsilon_of_guesses]


def _why_not_gaussian(scores: FloatArray, is_in: BoolArray, claim: Claim, updates: FloatArray | None) -> str:
    """Why no bound may suppose a Gaussian trade-off; empty if it may.

    A training that is private by other noise has another trade-off, and would be refuted wrongly. Where
    Gaussian noise is not claimed, single updates have to show it: their sums look Gaussian in any case.
    """
    if claim.delta == 0:
        return NO_DELTA
    if claim.is_gaussian:
        return ""
    if updates is not None:
        return why_noise_is_not_gaussian(Values(updates, is_in))
    return why_not_gaussian_noise(scores[~is_in])


def _unused(evidence: Evidence, reason: str) -> Evidence:
    """A bound that is switched off."""
    return replace(evidence, epsilon=0.0, ceiling=0.0, method=f"{evidence.method}; not used: {reason}")


def _check(scores: FloatArray, is_in: BoolArray) -> None:
    if scores.ndim != 1 or scores.shape != is_in.shape or is_in.dtype != np.bool_ or len(scores) < 2:
        raise InputError("give at least two scores in one dimension, and a coin (a boolean) for each")
    if not np.isfinite(scores).all():
        raise InputError(f"{int((~np.isfinite(scores)).sum())} scores are not finite")


def _guessing(
    scores: FloatArray, is_in: BoolArray, bound_of: BoundOf, delta: float, confidence: float, name: str
) -> Evidence:
    bound = strongest_bound(scores, is_in, bound_of, delta=delta, confidence=confidence)
    ceiling = all_right(len(scores), bound_of, delta, confidence)
    assumed = (GAUSSIAN,) if bound_of is gaussian_epsilon_of_guesses else ()
    return Evidence(name, bound.epsilon, confidence, ceiling, bound.method, len(scores), 1, assumed)


@cache
def all_right(n_canaries: int, bound_of: BoundOf, delta: float, confidence: float) -> float:
    """The bound of this many canaries where every guess is right."""
    numbers = {max(1, round(share * n_canaries)) for share in GUESSED_SHARES}
    each = 1 - (1 - confidence) / len(numbers)
    return max(
        bound_of(Guesses(n_canaries, n, n), delta=delta, confidence=each).epsilon for n in sorted(numbers)
    )


def needed(claim: Claim, ways: Sequence[BoundOf], confidence: float) -> str:
    """How many canaries could refute a claim, in a sentence."""
    claimed, n_canaries = claim.claimed_epsilon(), 100
    while n_canaries <= _MOST_CANARIES:
        for bound_of in ways:
            if all_right(n_canaries, bound_of, claim.delta, confidence) > claimed:
                return (
                    f"With {n_canaries:,} canaries, one run could refute epsilon = {claimed:.3g} if every "
                    "guess was right."
                )
        n_canaries *= 2
    return (
        f"Guesses about {_MOST_CANARIES:,} canaries in one run cannot refute epsilon = {claimed:.3g} at "
        f"delta = {claim.delta:g}; train several times."
    )
