"""The sharper bound for white-box scores: they are sums of noise, so their means are those of Gaussians.

DP-SGD adds Gaussian noise to every coordinate. The score of a canary with a coordinate of its own is then
Gaussian, with a mean that depends on its coin. If the scores of canaries that are out are N(0, 1) and those
of canaries that are in are N(mu, 1), the training is at best mu-GDP, and all canaries together estimate mu.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from leakscope.array_types import BoolArray, FloatArray
from leakscope.dp.verdict import Evidence
from leakscope.privacy.claim import Claim
from leakscope.stats.gdp import gdp_epsilon

METHOD = "Gaussian white-box scores, difference of their means"
LEAST_OF_EACH = 30
REJECT_BELOW = 0.01
LARGEST = 1e3
"""An epsilon that is as good as none."""
NO_DELTA = "Gaussian noise has no finite epsilon at delta = 0"


def gaussian_sum_evidence(
    scores: FloatArray, is_in: BoolArray, claim: Claim, confidence: float, name: str
) -> Evidence:
    """The bound; 0 with the reason where the scores are not Gaussian."""
    inside, outside = scores[is_in], scores[~is_in]
    reason = (NO_DELTA if claim.delta == 0 else "") or why_not_gaussian(inside, outside)
    if reason:
        return Evidence(name, 0.0, confidence, 0.0, f"{METHOD}; not used: {reason}", len(scores), 1)
    epsilon = min(gdp_epsilon(lower_mu(inside, outside, confidence), claim.delta), LARGEST)
    sentences = (
        "Scores are Gaussian with one spread, for canaries that are in and for canaries that are out "
        f"(not rejected at {REJECT_BELOW:.0%}), far into tails that no test can see.",
    )
    return Evidence(name, epsilon, confidence, LARGEST, METHOD, len(scores), 1, sentences)


def lower_mu(inside: FloatArray, outside: FloatArray, confidence: float) -> float:
    """Lower confidence bound on the difference of means, in units of the spread.

    It is the lower end of a two-sided interval: half of the error stays as a margin, because the scores were
    tested for their shape first. The difference over its standard error has a noncentral t distribution, here
    in its normal approximation.
    """
    n, k = len(inside), len(outside)
    pooled = np.sqrt(
        (((inside - inside.mean()) ** 2).sum() + ((outside - outside.mean()) ** 2).sum()) / (n + k - 2)
    )
    scale = np.sqrt(1 / n + 1 / k)
    t = float((inside.mean() - outside.mean()) / pooled / scale)
    z = float(stats.norm.ppf((1 + confidence) / 2))
    error = float(np.sqrt(1 + t**2 / (2 * (n + k - 2))))
    return max((t - z * error) * float(scale), 0.0)


def why_not_gaussian(inside: FloatArray, outside: FloatArray) -> str:
    """Why scores are not taken as Gaussian of one spread; empty if they are."""
    for side in (inside, outside):
        reason = why_not_gaussian_noise(side)
        if reason:
            return reason
    ratio = inside.var(ddof=1) / outside.var(ddof=1)
    freedom = len(inside) - 1, len(outside) - 1
    p_spread = 2 * min(stats.f.cdf(ratio, *freedom), stats.f.sf(ratio, *freedom))
    if p_spread < REJECT_BELOW:
        return f"canaries that are in and out have different spreads (p = {p_spread:.2g})"
    return ""


def why_not_gaussian_noise(scores: FloatArray) -> str:
    """Why the scores of canaries with one coin are not taken as Gaussian; empty if they are."""
    if len(scores) < LEAST_OF_EACH:
        return f"fewer than {LEAST_OF_EACH} canaries are in, or out"
    if scores.std() == 0:
        return "scores do not vary"
    p_normal = float(stats.normaltest(scores).pvalue)
    return f"scores are not Gaussian (p = {p_normal:.2g})" if p_normal < REJECT_BELOW else ""
