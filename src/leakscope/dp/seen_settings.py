"""The sharpest bound for white-box values: estimate the settings of DP-SGD, and let the accountant speak.

In each update of DP-SGD with Poisson sampling, the coordinate of a canary that is in holds noise, and with
probability q (the sampling rate) a signal s (the clipping norm in units of the noise) on top. All canaries
and updates together determine q and s. The accountant turns the lowest values in their confidence region into
epsilon.
"""

from __future__ import annotations

from math import exp, sqrt
from typing import NamedTuple

import numpy as np
from scipy import stats

from leakscope.array_types import BoolArray, FloatArray
from leakscope.dp.gaussian_sum import LARGEST, NO_DELTA
from leakscope.dp.verdict import Evidence
from leakscope.privacy.accounting import epsilon_of_steps
from leakscope.privacy.claim import Claim
from leakscope.stats.gdp import gdp_epsilon

METHOD = "settings of DP-SGD seen in the updates, accounted"
ASSUMED = (
    "Updates are those of DP-SGD: independent Gaussian noise, and records drawn independently in each update "
    "at one rate (not rejected at 1%)."
)
REJECT_BELOW = 0.01
LEAST_OF_EACH = 30
_LARGEST_SIGNAL, _LARGEST_MU = 4.0, 8.0  # accounting for more takes long, and refutes no further claim
_BIN = 0.05
_LARGEST_VALUE = 60.0
_N_SIGNALS, _N_RATES, _N_SPREADS = 40, 100, 9
_N_ACCOUNTED = 9  # signals across the confidence region; epsilon is flat around its minimum


class Seen(NamedTuple):
    """Settings of DP-SGD, as low as what was seen allows.

    Attributes:
        rate: sampling rate.
        signal: clipping norm in units of the noise: one over the noise multiplier.
        epsilon: of these settings.
    """

    rate: float
    signal: float
    epsilon: float


class Values(NamedTuple):
    """What the updates show of the canaries: float64 (updates, canaries) and the coins, bool (canaries,)."""

    values: FloatArray
    is_in: BoolArray

    def in_units_of_noise(self) -> tuple[FloatArray, FloatArray]:
        """Values of canaries that are in, and out, over the root mean square of those that are out."""
        spread = np.sqrt((self.values[:, ~self.is_in] ** 2).mean())
        return self.values[:, self.is_in] / spread, self.values[:, ~self.is_in] / spread


def settings_evidence(values: Values, claim: Claim, confidence: float, name: str) -> Evidence:
    """The bound; 0 with the reason where the updates are not those of DP-SGD with Poisson sampling."""
    seen, number = lowest_settings(values, claim.delta, confidence), len(values.is_in)
    if isinstance(seen, str):
        return Evidence(name, 0.0, confidence, 0.0, f"{METHOD}; not used: {seen}", number, 1)
    noise = 1 / seen.signal
    method = f"{METHOD} (sampling rate {seen.rate:.2g}, noise multiplier {noise:.2g})"
    return Evidence(name, seen.epsilon, confidence, LARGEST, method, number, 1, (ASSUMED,))


def why_noise_is_not_gaussian(values: Values) -> str:
    """Why the noise of single updates is not taken as Gaussian; empty if it is.

    Sums over many updates look Gaussian whatever the noise is, so scores cannot show it.
    """
    outside = values.values[:, ~values.is_in]
    if outside.size == 0 or (outside.std(axis=1) == 0).any():
        return "an update has no noise"
    p_noise = _p_of_noise(values.in_units_of_noise()[1])
    if p_noise >= REJECT_BELOW:
        return ""
    return f"the noise is not independent and Gaussian of one spread (p = {p_noise:.2g})"


def lowest_settings(values: Values, delta: float, confidence: float) -> Seen | str:
    """The settings with the lowest epsilon in the confidence region; why there are none, in words."""
    if min(values.is_in.sum(), (~values.is_in).sum()) < LEAST_OF_EACH:
        return f"fewer than {LEAST_OF_EACH} canaries are in, or out"
    reason = (NO_DELTA if delta == 0 else "") or why_noise_is_not_gaussian(values)
    if reason:
        return reason
    inside, outside = values.in_units_of_noise()
    confidence = (1 + confidence) / 2  # half of the error stays as a margin, as the shape was tested first
    fit = _fit(inside, outside.size, confidence)
    p_draws = _p_of_draws(inside, fit)
    if p_draws < REJECT_BELOW:
        return f"draws are not independent, at one rate and with one signal (p = {p_draws:.2g})"
    accounted = (
        _accounted(rate, signal, len(inside), delta) for rate, signal in fit.lowest_rates(confidence)
    )
    return min(accounted, key=lambda seen: seen.epsilon)


class _Bins(NamedTuple):
    """Values of canaries that are in, counted in bins, and how many values of the others gave the noise."""

    centers: FloatArray
    counts: FloatArray
    n_outside: int


class _Fit:
    """Likelihood of (rate, signal) on a grid, at the likeliest spread of the noise for each."""

    def __init__(self, bins: _Bins, rates: FloatArray, signals: FloatArray) -> None:
        error = 1 / sqrt(2 * bins.n_outside)  # of the spread, relative
        spreads = 1 + error * np.linspace(-4, 4, _N_SPREADS)
        likelihood = np.max([_likelihood(bins, rates, signals, spread) for spread in spreads], axis=0)
        self.rates, self.signals, self.likelihood = rates, signals, likelihood
        at_signal, at_rate = np.unravel_index(int(likelihood.argmax()), likelihood.shape)
        self.rate, self.signal = float(rates[at_rate]), float(signals[at_signal])

    def region(self, confidence: float) -> BoolArray:
        """Where on the grid the likelihood ratio does not reject; bool (signals, rates)."""
        return np.asarray(self.likelihood >= self.likelihood.max() - stats.chi2.ppf(confidence, 2) / 2)

    def lowest_rates(self, confidence: float) -> list[tuple[float, float]]:
        """(rate, signal) pairs: for some signals across the region, their lowest rates."""
        region = self.region(confidence)
        signals = np.flatnonzero(region.any(axis=1))
        some = signals[np.linspace(0, len(signals) - 1, min(_N_ACCOUNTED, len(signals))).astype(np.int64)]
        return [(float(self.rates[region[at].argmax()]), float(self.signals[at])) for at in some]


def _likelihood(bins: _Bins, rates: FloatArray, signals: FloatArray, spread: float) -> FloatArray:
    """Log-likelihood of all values, up to a constant; (signals, rates).

    Values were divided by the root mean square of the canaries that are out, so that theirs is 1.
    """
    z = bins.centers / spread
    # Densities with the signal over those of noise alone; (signals, bins).
    ratio = np.exp(np.clip(np.outer(signals, z) - signals[:, None] ** 2 / 2, -700, 700))
    drawn = [np.log(np.maximum(1 + np.outer(rates, r - 1), 1e-300)) @ bins.counts for r in ratio]
    n_values = bins.n_outside + bins.counts.sum()
    noise = n_values * np.log(spread) + (bins.counts @ z**2 + bins.n_outside / spread**2) / 2
    likelihood: FloatArray = np.array(drawn) - noise
    return likelihood


def _fit(inside: FloatArray, n_outside: int, confidence: float) -> _Fit:
    """The fit on a grid that covers the confidence region: a coarse one first, then a fine one around it."""
    edges = np.arange(-_LARGEST_VALUE, _LARGEST_VALUE + _BIN, _BIN)
    counts, _ = np.histogram(inside.clip(-_LARGEST_VALUE + 1, _LARGEST_VALUE - 1), edges)
    used = counts > 0
    bins = _Bins(((edges[1:] + edges[:-1]) / 2)[used], counts[used].astype(np.float64), n_outside)
    rates, signals = np.append(0.0, np.geomspace(1e-4, 1.0, _N_RATES)), np.geomspace(0.02, 40.0, _N_SIGNALS)
    for _ in range(2):
        region = _Fit(bins, rates, signals).region(confidence)
        rates = _around(rates, np.asarray(region.any(axis=0)))
        signals = _around(signals, np.asarray(region.any(axis=1)))
    return _Fit(bins, rates, signals)


def _around(grid: FloatArray, is_inside: BoolArray) -> FloatArray:
    """As many values, from the last one below those inside to the first one above them."""
    inside = np.flatnonzero(is_inside)
    low, high = grid[max(inside[0] - 1, 0)], grid[min(inside[-1] + 1, len(grid) - 1)]
    return np.linspace(low, high, len(grid))


def _p_of_noise(outside: FloatArray) -> float:
    """Small where canaries that are out do not show independent Gaussian noise of mean zero and one spread.

    Mean, skewness and fourth moment, by Hermite polynomials: spreads that differ between updates or canaries
    raise the fourth moment. Then products of successive updates and the spread of sums over updates:
    mechanisms with correlated noise are private in another way, and are not accounted for like this.
    """
    n_steps, n = outside.shape
    z = outside.ravel()
    normal = [z.mean() * sqrt(len(z)), (z**3 - 3 * z).mean() * sqrt(len(z) / 6)]
    normal.append(((z**4).mean() - 3) * sqrt(len(z) / 24))
    if n_steps > 1:
        products = outside[1:] * outside[:-1]
        sums = outside.sum(axis=0) / sqrt(n_steps)
        normal += [products.mean() * sqrt(products.size), ((sums**2).mean() - 1) * sqrt(n / 2)]
    return float(stats.chi2.sf(sum(value**2 for value in normal), len(normal)))


def _p_of_draws(inside: FloatArray, fit: _Fit) -> float:
    """Small where canaries differ, or draws of one depend on each other, more or less than chance allows.

    Values above half of the signal are counted for each canary. At one rate, counts are binomial.
    """
    n_steps, n = inside.shape
    counts = (inside > fit.signal / 2).sum(axis=0)
    share = float(counts.mean()) / n_steps
    if share in (0.0, 1.0):
        return 1.0
    square = float(((counts - counts.mean()) ** 2).sum()) / (n_steps * share * (1 - share))
    return 2 * float(min(stats.chi2.cdf(square, n - 1), stats.chi2.sf(square, n - 1)))


def _accounted(rate: float, signal: float, steps: int, delta: float) -> Seen:
    """Epsilon of the settings; of fewer steps or more noise where it is far beyond any claim."""
    signal = min(signal, _LARGEST_SIGNAL)
    if rate == 0:
        return Seen(rate, signal, 0.0)
    per_step = min(rate * sqrt(exp(signal**2) - 1), signal)  # sampling never reveals more
    steps = max(1, min(steps, int((_LARGEST_MU / per_step) ** 2)))
    if rate == 1:
        return Seen(rate, signal, gdp_epsilon(signal * sqrt(steps), delta))
    return Seen(rate, signal, epsilon_of_steps(1 / signal, delta, rate, steps))
