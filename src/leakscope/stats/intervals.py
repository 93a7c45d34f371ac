"""Confidence intervals: of a rate, of an AUC, over targets, of a correlation.

Which interval means what:

- `clopper_pearson`: a rate at a predefined threshold; covers at least as often as stated.
- `delong`: an AUC on one target, records drawn independently; asymptotic.
- `mean_over_targets`: how much a figure varies between trained models.
- `advantage_interval`: the largest TPR - FPR, although its threshold was chosen on the same scores.
- `highest_advantage`: an upper end for the same, much closer to it.
- `fisher_interval`: a Pearson or Spearman correlation; asymptotic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from leakscope.array_types import FloatArray
from leakscope.errors import InputError
from leakscope.stats.roc import SplitScores, auc_of_split, split_scores

_MOST_THRESHOLDS = 512  # next to the best of more, TPR - FPR is lower by much less than its error


@dataclass(frozen=True)
class Interval:
    """A two-sided confidence interval.

    Attributes:
        low: lower end; NaN when undefined.
        high: upper end; NaN when undefined.
        level: confidence, in (0, 1).
        method: how it was computed, or why it is undefined; printed in reports.
    """

    low: float
    high: float
    level: float
    method: str

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


class Bounds(NamedTuple):
    """Ends of many intervals, float64 of the same shape."""

    low: FloatArray
    high: FloatArray


class AucEstimate(NamedTuple):
    """An AUC, its standard error (DeLong) and its interval."""

    auc: float
    standard_error: float
    interval: Interval


class MeanOverTargets(NamedTuple):
    """The mean of a quantity over targets, and its t interval."""

    mean: float
    interval: Interval


def check_level(level: float) -> None:
    """Raises InputError for a confidence level outside (0, 1)."""
    if not 0 < level < 1:
        raise InputError(f"level must be in (0, 1), such as 0.95; got {level}")


def clopper_pearson(successes: int, trials: int, level: float = 0.95) -> Interval:
    """Exact interval of one rate (Clopper and Pearson 1934); [0, 1] without trials."""
    low, high = clopper_pearson_bounds(successes, trials, level)
    return Interval(float(low), float(high), level, "Clopper-Pearson")


def clopper_pearson_bounds(successes: npt.ArrayLike, trials: npt.ArrayLike, level: float = 0.95) -> Bounds:
    """Exact intervals of many rates.

    Args:
        successes: int, any shape that broadcasts with `trials`.
        trials: int.
        level: two-sided confidence; each end alone has confidence `(1 + level) / 2`.
    """
    check_level(level)
    k, n = _counts(successes, trials)
    high = scipy.special.betaincinv(k + 1, np.maximum(n - k, 1), 1 - (1 - level) / 2)
    return Bounds(clopper_pearson_lows(k, n, level), np.where(k < n, high, 1.0))


def clopper_pearson_lows(successes: npt.ArrayLike, trials: npt.ArrayLike, level: float) -> FloatArray:
    """The lower ends alone; arguments as in `clopper_pearson_bounds`."""
    check_level(level)
    k, n = _counts(successes, trials)
    low = scipy.special.betaincinv(np.maximum(k, 1), n - k + 1, (1 - level) / 2)
    return np.where(k > 0, low, 0.0)


def _counts(successes: npt.ArrayLike, trials: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    k, n = np.broadcast_arrays(np.asarray(successes, np.float64), np.asarray(trials, np.float64))
    if not ((k >= 0) & (k <= n)).all():
        raise InputError("successes must be between 0 and trials")
    return k, n


def wilson(
    rate: float,
    standard_error: float,
    quantile: float,
    n_independent: int = 0,
    n_most: float = np.inf,
) -> tuple[float, float]:
    """Interval of a rate whose variance is proportional to p (1 - p) (Wilson 1927); stays in [0, 1].

    Where a small rate is smaller still by chance, so is its standard error; this interval does not trust it.
    A rate below its standard error, as of a fraction of one record, counts as one of that size: less than one
    record says no less about the others.

    Args:
        rate: above 0 and below 1.
        standard_error: of the rate.
        quantile: half width in standard errors.
        n_independent: over how many independent records the rate is a mean; its variance is at most
            p (1 - p) over this number, whatever the standard error says.
        n_most: records of which it cannot know more than p (1 - p) over this number.
    """
    product = max(rate * (1 - rate), min(standard_error, 0.5) * (1 - min(standard_error, 0.5)))
    size = min(max(product / standard_error**2, n_independent), n_most)  # effective
    n = size / quantile**2
    middle = (rate + 0.5 / n) / (1 + 1 / n)
    half_width = np.sqrt(rate * (1 - rate) / n + 0.25 / n**2) / (1 + 1 / n)
    return float(max(middle - half_width, 0.0)), float(min(middle + half_width, 1.0))


def delong(scores: npt.ArrayLike, is_member: npt.ArrayLike, level: float = 0.95) -> AucEstimate:
    """AUC with DeLong's standard error (1988) and an interval on the logit scale, so it stays in [0, 1].

    O(n log n): a record's placement comes from a search in the sorted scores of the other side (Sun and
    Xu 2014). Where all pairs agree (AUC 0, 1/2 or 1, no variance), the interval is instead Clopper-Pearson
    over min(members, non-members) disjoint pairs, which is conservative. Where most records of a side have
    the same placement, those that have another may be missing by chance: the interval, but not the standard
    error, then counts one more record at either end.

    Args:
        scores: float (records,), higher means member.
        is_member: bool (records,).
        level: two-sided confidence.
    """
    return delong_of_split(split_scores(scores, is_member), level)


def delong_of_split(sides: SplitScores, level: float = 0.95) -> AucEstimate:
    """`delong` of sorted scores."""
    check_level(level)
    auc = auc_of_split(sides)
    n_least = min(len(sides.members), len(sides.nonmembers))
    if n_least < 2:
        return AucEstimate(
            auc, float("nan"), Interval(0.0, 1.0, level, "none: fewer than 2 records on a side")
        )
    placements = [_placements(*pair) for pair in (sides, sides[::-1])]
    standard_error = float(np.sqrt(sum(own.var(ddof=1) / len(own) for own in placements)))
    if standard_error == 0:
        return AucEstimate(auc, 0.0, _all_pairs_agree(auc, n_least, level))
    low, high = _on_logit_scale(auc, standard_error, level)
    if any(map(is_mostly_one_value, placements)):
        cautious = _with_one_more_at_either_end(placements, level)
        # Near 0 and 1 the logit scale exaggerates; comparing each record only once would do better there.
        least, most = (
            clopper_pearson(int(wins), n_least, level) for wins in (auc * n_least, np.ceil(auc * n_least))
        )
        low, high = min(low, max(cautious[0], least.low)), max(high, min(cautious[1], most.high))
    return AucEstimate(auc, standard_error, Interval(low, high, level, "DeLong, logit"))


def _on_logit_scale(auc: float, standard_error: float, level: float) -> tuple[float, float]:
    half_width = -scipy.special.ndtri((1 - level) / 2) * standard_error / (auc * (1 - auc))
    low, high = scipy.special.expit(scipy.special.logit(auc) + np.array([-half_width, half_width])).tolist()
    return low, high


def is_mostly_one_value(values: FloatArray) -> bool:
    """Whether values that differ from most others may be missing by chance.

    Of 25 records of which one in 20 differs, none does in 28% of all samples. A variance of 0 is then chance.
    """
    return bool(2 * np.unique(values, return_counts=True)[1].max() > len(values))


def _with_one_more_at_either_end(placements: Sequence[FloatArray], level: float) -> tuple[float, float]:
    """The interval if each side had one more record below all others, and one above."""
    of_members, of_nonmembers = (np.append(own, [0.0, 1.0]) for own in placements)
    center = float(of_members.mean() + 1 - of_nonmembers.mean()) / 2
    variance = sum(own.var(ddof=1) / (len(own) - 2) for own in (of_members, of_nonmembers))
    return _on_logit_scale(center, float(np.sqrt(variance)), level)


def _placements(side: FloatArray, other: FloatArray) -> FloatArray:
    """The share of the other side below each record; ties count half."""
    n_below = np.searchsorted(other, side, side="left") + np.searchsorted(other, side, side="right")
    return np.asarray(n_below / (2 * len(other)))


def _all_pairs_agree(auc: float, n_pairs: int, level: float) -> Interval:
    """If n independent pairs all agree, at least a share `least` of all pairs does, for any distribution."""
    least = clopper_pearson(n_pairs, n_pairs, level).low
    low, high = auc * least, 1 - (1 - auc) * least
    return Interval(low, high, level, "Clopper-Pearson over disjoint pairs (all pairs agree)")


def advantage_interval(advantage: float, n_members: int, n_nonmembers: int, level: float = 0.95) -> Interval:
    """Interval of the largest TPR - FPR, valid although its threshold is chosen on the same scores; wide.

    Both empirical distributions are within their Dvoretzky-Kiefer-Wolfowitz bands (Massart 1990) at once.
    """
    check_level(level)
    band = sum(np.sqrt(np.log(4 / (1 - level)) / (2 * n)) for n in (n_members, n_nonmembers))
    low, high = max(advantage - band, 0.0), min(advantage + band, 1.0)
    return Interval(float(low), float(high), level, "Dvoretzky-Kiefer-Wolfowitz")


def highest_advantage(sides: SplitScores, level: float = 0.95) -> float:
    """Upper end of an interval for the largest TPR - FPR at any threshold.

    It is the largest upper end of a difference of rates (Newcombe 1998) at any threshold. At the threshold
    that is best for all records there are, that end is too low less often than stated. The threshold that is
    best on these records may be another, with a smaller error: where scores have few values, its end alone
    would be too low for up to a third of all samples.

    Args:
        sides: sorted scores of one target.
        level: of the two-sided interval.
    """
    check_level(level)
    members, nonmembers = sides
    n_members, n_nonmembers = len(members), len(nonmembers)
    if not n_members or not n_nonmembers:
        return float("nan")
    ranks = np.linspace(0, n_members - 1, min(n_members, _MOST_THRESHOLDS)).round().astype(np.int64)
    thresholds = np.append(np.unique(members[ranks]), np.inf)  # at the last one, nobody is called
    n_true = n_members - np.searchsorted(members, thresholds, side="left")
    n_false = n_nonmembers - np.searchsorted(nonmembers, thresholds, side="left")
    tpr, fpr = n_true / n_members, n_false / n_nonmembers
    most = clopper_pearson_bounds(n_true, n_members, level).high
    least = clopper_pearson_bounds(n_false, n_nonmembers, level).low
    return float(min((tpr - fpr + np.hypot(most - tpr, fpr - least)).max(), 1.0))


def mean_over_targets(values: npt.ArrayLike) -> MeanOverTargets:
    """Mean over targets with its 95% t interval; NaN entries are left out.

    Targets of one population share records and references, so the interval describes the models of this
    population; it does not account for another sample of records.

    Args:
        values: float (targets,), one figure per target.
    """
    given = np.asarray(values, dtype=np.float64).reshape(-1)
    defined = given[~np.isnan(given)]
    if np.isinf(defined).any():
        raise InputError(
            f"{int(np.isinf(defined).sum())} of {len(given)} values are infinite; report their median"
        )
    level, n = 0.95, len(defined)
    mean = float(defined.mean()) if n else float("nan")
    if n < 2:
        undefined = Interval(float("nan"), float("nan"), level, f"undefined: {n} of {len(given)} targets")
        return MeanOverTargets(mean, undefined)
    sd = float(defined.std(ddof=1))
    half_width = float(scipy.special.stdtrit(n - 1, (1 + level) / 2)) * sd / np.sqrt(n)
    return MeanOverTargets(mean, Interval(mean - half_width, mean + half_width, level, f"t over {n} targets"))


def fisher_interval(
    r: float, n: int, level: float = 0.95, *, rank: bool = False, n_given: int = 0
) -> Interval:
    """Interval of a correlation by Fisher's z.

    Args:
        r: the correlation, in [-1, 1], or NaN.
        n: number of points.
        level: two-sided confidence.
        rank: true for Spearman, whose standard error is larger (Bonett and Wright 2000).
        n_given: number of variables held fixed, for a partial correlation.
    """
    check_level(level)
    method = "Fisher z, rank" if rank else "Fisher z"
    if np.isnan(r):
        return Interval(float("nan"), float("nan"), level, "undefined: the correlation is")
    if n - n_given < 4:
        return Interval(-1.0, 1.0, level, "none: fewer than 4 points more than variables held fixed")
    if abs(r) >= 1:
        return Interval(float(r), float(r), level, f"{method} (degenerate: all points on one line)")
    standard_error = np.sqrt((1 + r * r / 2 if rank else 1.0) / (n - n_given - 3))
    half_width = -scipy.special.ndtri((1 - level) / 2) * standard_error
    low, high = np.tanh(np.arctanh(r) + np.array([-half_width, half_width]))
    return Interval(float(low), float(high), level, method)
