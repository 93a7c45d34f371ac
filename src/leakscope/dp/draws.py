"""Whether batches are drawn as the accountant of DP-SGD supposes, and a bound where they are not.

Poisson sampling draws each record independently in each update. Batches that are dealt out from an order of
the records draw nobody a second time before everybody was drawn once. Given how many canaries each update
draws, independent draws choose them anew each time, so how often two updates share a canary has a known mean
and variance. That is tested on the batches themselves, which noise does not hide.

Where a few patterns of updates cover most canaries, the pattern of a record is hardly a secret. An attacker
who looks for the signal along each of the J patterns errs J times as often as along one, at most.
"""

from __future__ import annotations

from collections import Counter
from math import log, sqrt

import numpy as np
from scipy import special, stats

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.dp.gaussian_sum import LARGEST
from leakscope.dp.seen_settings import LEAST_OF_EACH, METHOD, Values, why_noise_is_not_gaussian
from leakscope.dp.verdict import Evidence
from leakscope.privacy.claim import Claim
from leakscope.stats.intervals import clopper_pearson

REJECT_BELOW = 0.001
"""Less than for other assumptions: a rejection here changes the verdict, and dealt batches are far beyond."""
ASSUMED = (
    "Noise is independent and Gaussian (not rejected at 1%), and a canary that is drawn adds the same signal "
    "each time."
)
_N_THRESHOLDS = 400


class SeenDraws:
    """Which canaries the batches of each update had, as the model saw them."""

    def __init__(self, n_canaries: int) -> None:
        self._n_canaries = n_canaries
        self._canaries: dict[int, list[IntArray]] = {}

    def notice(self, update: int, canaries: IntArray) -> None:
        """Adds the canaries of one forward pass; an update may have several."""
        if len(canaries):
            self._canaries.setdefault(update, []).append(canaries)

    def of_updates(self, n_updates: int) -> BoolArray:
        """Who was drawn, bool (updates, canaries)."""
        drawn = np.zeros((n_updates, self._n_canaries), dtype=np.bool_)
        for update, canaries in self._canaries.items():
            if update < n_updates:
                drawn[update, np.concatenate(canaries)] = True
        return drawn


def why_draws_depend(drawn: BoolArray) -> str:
    """Why draws are not taken as independent from update to update; empty if they are.

    Args:
        drawn: bool (updates, canaries), of the canaries that are in.
    """
    p_even, p_uneven = _p_of_repeats(drawn)
    p = 2 * min(p_even, p_uneven)
    if p >= REJECT_BELOW:
        return ""
    how = "more evenly" if p_even < p_uneven else "less evenly"
    return f"canaries are drawn {how} than by independent draws in each update (p = {p:.2g})"


def _p_of_repeats(drawn: BoolArray) -> tuple[float, float]:
    """How likely independent draws share no more canaries between updates, and no fewer.

    Overlaps of updates are hypergeometric and uncorrelated. Counts per canary then scatter as a chi-squared
    variable, nearly; rare overlaps are Poisson distributed. The less significant of the two counts.
    """
    n, counts = drawn.shape[1], drawn.sum(axis=0).astype(np.float64)
    sizes = drawn.sum(axis=1).astype(np.float64)
    scatter = float((sizes * (n - sizes)).sum()) / n
    if scatter == 0 or n < 2:
        return 1.0, 1.0
    square = (n - 1) * float(((counts - counts.mean()) ** 2).sum()) / scatter
    overlap = float((counts * (counts - 1)).sum()) / 2
    expected = float(sizes.sum() ** 2 - (sizes**2).sum()) / (2 * n)
    p_even = max(stats.chi2.cdf(square, n - 1), stats.poisson.cdf(overlap, expected))
    p_uneven = max(stats.chi2.sf(square, n - 1), stats.poisson.sf(overlap - 1, expected))
    return float(p_even), float(p_uneven)


def pattern_evidence(
    values: Values, drawn: BoolArray, claim: Claim, confidence: float, name: str, why_dependent: str
) -> Evidence:
    """The bound from patterns of updates; 0 with the reason where no pattern is common.

    Args:
        values: what the updates show.
        drawn: bool (updates, canaries), who was drawn.
        claim: what is claimed.
        confidence: of the bound.
        name: of the test.
        why_dependent: why draws are not those of Poisson sampling.
    """
    number = len(values.is_in)
    unused = Evidence(name, 0.0, confidence, 0.0, f"{METHOD}; not used: {why_dependent}", number, 1)
    is_small = min(values.is_in.sum(), (~values.is_in).sum()) < LEAST_OF_EACH
    if is_small or claim.delta == 0 or why_noise_is_not_gaussian(values):
        return unused
    own = drawn[:, values.is_in]
    error = (1 - confidence) / 2  # the other half stays as a margin, as the noise was tested first
    signal = _lowest_signal(values, own, error / 2)
    epsilon, n_patterns = _epsilon_of_patterns(own, signal, claim.delta, error / 2)
    if epsilon == 0:
        return unused
    method = (
        f"records drawn in one of {n_patterns:,} patterns of updates, each a Gaussian mechanism "
        f"(noise multiplier {1 / signal:.2g})"
    )
    return Evidence(name, min(epsilon, LARGEST), confidence, LARGEST, method, number, 1, (ASSUMED,))


def _lowest_signal(values: Values, drawn: BoolArray, error: float) -> float:
    """Lower bound on what a draw adds, in units of the noise."""
    inside, outside = values.in_units_of_noise()
    if not drawn.any():
        return 0.0
    z = float(stats.norm.isf(error / 2))
    mean = float(inside[drawn].mean()) - z / sqrt(drawn.sum())
    return max(mean / (1 + z / sqrt(2 * outside.size)), 0.0)


def _epsilon_of_patterns(drawn: BoolArray, signal: float, delta: float, error: float) -> tuple[float, int]:
    """The bound, and how many patterns it rests on.

    Every second canary shows which patterns there are; the others show how likely a record has one of them.
    """
    patterns = Counter(map(bytes, drawn.T[::2].astype(np.uint8)))
    n_draws = {pattern: sum(pattern) for pattern in patterns}
    of_others = [bytes(pattern) for pattern in drawn.T[1::2].astype(np.uint8)]
    best = 0.0, 0
    least_numbers = sorted({number for number in n_draws.values() if number})
    for least in least_numbers:
        known = {pattern for pattern, number in n_draws.items() if number >= least}
        n_known = sum(pattern in known for pattern in of_others)
        share = clopper_pearson(n_known, len(of_others), 1 - 2 * error / len(least_numbers)).low
        epsilon = _epsilon_of_union(signal * sqrt(least), share, len(known), delta)
        best = max(best, (epsilon, len(known)))
    return best


def _epsilon_of_union(mu: float, share: float, n_patterns: int, delta: float) -> float:
    """Of an attacker who says "in" if the sum along any of the patterns is above a threshold."""
    threshold = np.linspace(0.0, mu + 8.0, _N_THRESHOLDS)
    right: FloatArray = share * special.ndtr(mu - threshold) - delta
    found = right > 0
    if not found.any():
        return 0.0
    wrong = special.log_ndtr(-threshold[found]) + log(n_patterns)
    return max(float((np.log(right[found]) - wrong).max()), 0.0)
