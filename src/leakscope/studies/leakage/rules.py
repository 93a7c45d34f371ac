"""Rules that settle the claims of the publication, each a function of one run's results.

A rule returns None where the run does not have what it needs. Rules for trends: a trend is reproduced if the
rank correlation reaches the limit in `FIGURES` and the intervals at both ends of the figure do not overlap;
it has the same direction if the correlation has the published sign; it is refuted if it reaches the limit
with the other sign. A claim that an inequality holds is refuted by one violation beyond the errors. A claim
about an average is reproduced if its 95% interval is on the published side of 0, and not reproduced if it
contains 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy

from leakscope.data.adult import COLUMNS
from leakscope.stats.correlation import spearman
from leakscope.studies.claims import Outcome
from leakscope.studies.leakage.config import FIGURES, NETWORK
from leakscope.studies.leakage.page_charts import number
from leakscope.studies.leakage.page_tables import with_interval
from leakscope.studies.leakage.results import LeakageResults, OverRecords, Point

_RECORDS, _ATTRIBUTES = 48_842, 14


class Finding(NamedTuple):
    """What a rule concludes.

    Attributes:
        outcome: the verdict.
        ours: our value with its interval.
        protocol: how it was measured.
        why: the reason, where the values alone do not show it.
    """

    outcome: Outcome
    ours: str
    protocol: str = ""
    why: str = ""


Rule = Callable[[LeakageResults], Finding | None]


def protocol(results: LeakageResults, figure: int = 1) -> str:
    """What was trained, in a few words."""
    config = results.config
    kind = "network's output" if figure == NETWORK else "regressions"
    return f"{config.dataset}, {kind}, {config.records_of(figure)} records, K = {config.trials_of(figure):,}"


def points_of(results: LeakageResults) -> list[Point]:
    """The points of all figures."""
    return [point for figure in results.figures.values() for point in figure.points]


def trend(figure: int, of_advantage: bool) -> Rule:
    """Whether a figure has the published trend."""

    def rule(results: LeakageResults) -> Finding | None:
        if figure not in results.figures:
            return None
        points, expected = results.figures[figure].points, FIGURES[figure].expected
        drawn = [_drawn(point, figure, of_advantage) for point in points]
        values = [one.median if of_advantage else one.mean for one in drawn]
        ends = [_ends(one, of_advantage) for one in (drawn[0], drawn[-1])]
        outcome, r = _trend_outcome([point.value for point in points], values, expected, ends)
        ours = f"rank correlation {r}; {_ends_words(points, drawn, of_advantage)}"
        return Finding(outcome, ours, protocol(results, figure), _trend_note(figure, of_advantage))

    return rule


def _drawn(point: Point, figure: int, of_advantage: bool) -> OverRecords:
    """The curve that decides: nearest neighbors for the network, rounded parameters for the ridge weight."""
    if of_advantage:
        return point.advantage
    if figure == NETWORK:
        return point.output.neighbours or point.rho_kl
    return point.rho_kl_finite_precision or point.rho_kl


def _trend_note(figure: int, of_advantage: bool) -> str:
    if figure == NETWORK and not of_advantage:
        return "by nearest neighbors; the Gaussian fit is far off at small n"
    return "of rounded parameters; exact ones level off above 0" if figure == 3 and not of_advantage else ""


def _ends(quantity: OverRecords, median: bool) -> tuple[float | None, float | None]:
    return (quantity.median_low, quantity.median_high) if median else (quantity.mean_low, quantity.mean_high)


def _trend_outcome(
    x: Sequence[float],
    y: Sequence[float | None],
    expected: float,
    ends: Sequence[tuple[float | None, float | None]],
) -> tuple[Outcome, str]:
    """The verdict on a trend, and its rank correlation in words."""
    defined = [value for value in y if value is not None]
    correlation = spearman(list(x), defined) if len(defined) == len(y) else None
    if correlation is None or correlation.reason:
        return Outcome.NOT_TESTABLE, "undefined"
    sign, r = np.sign(expected), correlation.r
    (low, high), (last_low, last_high) = ends
    apart = None not in (low, high, last_low, last_high) and bool(
        (last_low or 0) > (high or 0) if sign > 0 else (last_high or 0) < (low or 0)
    )
    if sign * r >= abs(expected) and apart:
        return Outcome.REPRODUCED, f"{r:+.2f}"
    if sign * r <= -abs(expected):
        return Outcome.REFUTED, f"{r:+.2f}"
    return (Outcome.SAME_DIRECTION if sign * r > 0 else Outcome.NOT_REPRODUCED), f"{r:+.2f}"


def _ends_words(points: Sequence[Point], drawn: Sequence[OverRecords], median: bool) -> str:
    words = []
    for point, one in ((points[0], drawn[0]), (points[-1], drawn[-1])):
        low, high = _ends(one, median)
        value = one.median if median else one.mean
        words.append(f"{number(value)} ({number(low)} to {number(high)}) at {number(point.value)}")
    return f"{'median' if median else 'mean'} {words[0]}, {words[1]}"


def no_violation(count: Callable[[Point], int], what: str) -> Rule:
    """Whether an inequality between fitted quantities holds for every record at every point."""

    def rule(results: LeakageResults) -> Finding | None:
        violations = [count(point) for point in points_of(results)]
        if not violations:
            return None
        outcome = Outcome.REFUTED if sum(violations) else Outcome.REPRODUCED
        ours = f"{sum(violations)} records beyond it, at {len(violations)} points"
        return Finding(outcome, ours, f"{protocol(results)}; {what}")

    return rule


def theorem_1(results: LeakageResults) -> Finding:
    """As printed it fails where nothing leaks; as a limit on the advantage it is checked against the fits."""
    theory = results.theory
    fails = theory.guess_correct > theory.printed_success_limit
    measured = [point.inequalities for point in points_of(results)]
    beyond = sum(one.likelihood_ratio_beyond_farokhi_kaafar for one in measured)
    return Finding(
        Outcome.REFUTED if fails else Outcome.REPRODUCED,
        f"P(correct) {theory.guess_correct:g} where sqrt(rho_KL) / 2 = {theory.printed_success_limit:g}",
        "a coin, where the release reveals nothing",
        "at equal priors the theorem holds for the advantage 2 P(correct) - 1. With rho_KL of the "
        f"Gaussian fits in it, the likelihood-ratio adversary exceeds it for {beyond} records",
    )


def fitted_variation(results: LeakageResults) -> Finding | None:
    """The likelihood-ratio adversary against the total variation of the Gaussian fits."""
    points = points_of(results)
    if not points:
        return None
    counts = [point.inequalities.likelihood_ratio_beyond for point in points]
    n_points = sum(count > 0 for count in counts)
    where = "; ".join(
        f"figure {figure} at {', '.join(number(point.value) for point in beyond)}"
        for figure, of_figure in results.figures.items()
        if (beyond := [p for p in of_figure.points if p.inequalities.likelihood_ratio_beyond])
    )
    ours = f"{sum(counts)} records beyond it, at {n_points} of {len(points)} points"
    return Finding(
        Outcome.REFUTED if n_points else Outcome.REPRODUCED,
        f"{ours} ({where})" if where else ours,
        f"{protocol(results)}; likelihood-ratio adversary, 95% for all records of a point at once",
        "the parameters are not Gaussian there: the total variation of a fit limits no adversary"
        if n_points
        else "no adversary that was run exceeds it; the total variation of a fit still limits none",
    )


def size_trend(results: LeakageResults) -> Finding | None:
    """Figure 1's leakage."""
    return trend(1, of_advantage=False)(results)


def regularization(results: LeakageResults) -> Finding | None:
    """Figure 3's leakage, rounded and exact."""
    found = trend(3, of_advantage=False)(results)
    if found is None:
        return None
    last = results.figures[3].points[-1].rho_kl
    levels = f"exact parameters level off at {number(last.mean)} ({number(last.mean_low)} to "
    return found._replace(why=f"of rounded parameters; {levels}{number(last.mean_high)}) nats")


def complex_models(results: LeakageResults) -> Finding | None:
    """The network beside the regression, at all sizes that both have; one pair of models confirms no rule."""
    compared = results.network
    if not compared:
        return None
    ours = "; ".join(f"n = {c.n:g}: {c.advantage:+.3f} ± {c.advantage_half_width or 0:.3f}" for c in compared)
    above = [c.advantage_half_width is not None and c.advantage > c.advantage_half_width for c in compared]
    below = [c.advantage_half_width is not None and -c.advantage > c.advantage_half_width for c in compared]
    if any(below):
        outcome = Outcome.REFUTED
    else:
        outcome = Outcome.SAME_DIRECTION if any(above) else Outcome.NOT_REPRODUCED
    return Finding(
        outcome,
        f"advantage, network minus regression: {ours}",
        f"{protocol(results, NETWORK)}, same records",
        "one pair of models cannot settle a claim about all" if outcome is Outcome.SAME_DIRECTION else "",
    )


def deep_networks(results: LeakageResults) -> Finding | None:
    """Rank correlation of the network's leakage with the threshold adversary's advantage, over its sizes."""
    if NETWORK not in results.figures:
        return None
    points = results.figures[NETWORK].points
    pairs = [
        (p.output.neighbours.mean, p.advantage.mean)
        for p in points
        if p.output.neighbours is not None and p.output.neighbours.mean is not None
    ]
    if len(pairs) < 3:
        return None
    r = spearman([leakage for leakage, _ in pairs], [advantage or 0.0 for _, advantage in pairs]).r
    outcome = Outcome.SAME_DIRECTION if r > 0 else Outcome.NOT_REPRODUCED
    return Finding(
        outcome,
        f"rank correlation of leakage with the threshold adversary's advantage {r:+.2f}",
        f"{protocol(results, NETWORK)}, {len(pairs)} training-set sizes; nearest neighbors",
        "one kind of network cannot settle a claim about general models",
    )


def any_model(results: LeakageResults) -> Finding | None:
    """Both figures of training-set size."""
    found = [trend(figure, of_advantage=False)(results) for figure in (1, NETWORK)]
    if None in found:
        return None
    both = [one for one in found if one is not None]
    falls = all(one.outcome in (Outcome.REPRODUCED, Outcome.SAME_DIRECTION) for one in both)
    rises = any(one.outcome is Outcome.REFUTED for one in both)
    return Finding(
        Outcome.REFUTED if rises else Outcome.SAME_DIRECTION if falls else Outcome.NOT_REPRODUCED,
        f"regression: {both[0].ours.split(';')[0]}; network: {both[1].ours.split(';')[0]}",
        "figures 1 and 2",
        "two kinds of models cannot settle a claim about any model; both agree with it"
        if falls
        else "one kind of model that disagrees settles a claim about any model",
    )


def overfit(figure: int) -> Rule:
    """Whether the gap between error on all records and on training records falls along a figure."""

    def rule(results: LeakageResults) -> Finding | None:
        if figure not in results.figures:
            return None
        points = results.figures[figure].points
        gaps = [p.squared_error - p.training_error for p in points if p.squared_error is not None]
        r = spearman([p.value for p in points], gaps).r
        outcome = (
            Outcome.REPRODUCED if r <= -0.9 else Outcome.SAME_DIRECTION if r < 0 else Outcome.NOT_REPRODUCED
        )
        ours = f"gap {gaps[0]:.3f} at {number(points[0].value)}, {gaps[-1]:.3f} at {number(points[-1].value)}"
        return Finding(outcome, f"{ours}; rank correlation {r:+.2f}", f"{protocol(results)}; squared errors")

    return rule


def precision(results: LeakageResults) -> Finding | None:
    """Rounded against exact at every point of figure 3; intervals decide."""
    if 3 not in results.figures:
        return None
    pairs = [(p.rho_kl_finite_precision, p.rho_kl) for p in results.figures[3].points]
    beyond = [
        rounded.mean_low > exact.mean_high
        for rounded, exact in pairs
        if rounded is not None and rounded.mean_low is not None and exact.mean_high is not None
    ]
    rounded, exact = pairs[-2]
    at = number(results.figures[3].points[-2].value)
    ours = f"at {at}: {with_interval(rounded)} rounded, {with_interval(exact)} exact"
    return Finding(
        Outcome.REFUTED if any(beyond) else Outcome.REPRODUCED,
        f"{sum(beyond)} of {len(beyond)} points beyond it; {ours}",
        f"{protocol(results, 3)}; rho_KL, rounded to {results.config.precision:g}",
    )


def not_gaussian(results: LeakageResults) -> Finding | None:
    """Where nearest neighbors or an adversary contradict the fit."""
    points = points_of(results)
    if not points:
        return None
    poor = [p for p in points if p.output.is_poor or p.inequalities.likelihood_ratio_beyond]
    outcome = Outcome.NOT_REPRODUCED
    if poor:
        outcome = Outcome.REPRODUCED if len(poor) > len(points) / 2 else Outcome.SAME_DIRECTION
    ours = f"contradicted at {len(poor)} of {len(points)} points, by nearest neighbors or by an adversary"
    rule = "often is at more than half of the points; a fit that nothing contradicts may still be wrong"
    return Finding(outcome, ours, protocol(results), rule)


def kl_for_mi(results: LeakageResults) -> Finding | None:
    """rho_KL / 4 beside rho_MI of the same fits, at every point."""
    points = [p for p in points_of(results) if p.rho_kl.mean and p.rho_kl.mean > 0]
    if len(points) < 3:
        return None
    nats = [p.rho_mi_bits.mean * np.log(2) for p in points]
    quarters = [(p.rho_kl.mean or 0) / 4 for p in points]
    ratios = [quarter / mi for quarter, mi in zip(quarters, nats, strict=True) if mi > 0]
    ranked = spearman(quarters, nats).r
    if max(ratios) <= 2 and min(ratios) >= 0.5:
        outcome = Outcome.REPRODUCED
    else:
        outcome = Outcome.SAME_DIRECTION if ranked >= 0.9 else Outcome.NOT_REPRODUCED
    ours = (
        f"rho_KL / 4 is {min(ratios):.2g} to {max(ratios):.2g} times rho_MI; rank correlation {ranked:+.2f}"
    )
    rule = "the rule asks for a factor of at most 2; for small leakage it is 2"
    return Finding(outcome, ours, protocol(results), rule)


def inverse_size(results: LeakageResults) -> Finding | None:
    """Slope of log advantage against log n: -1 if inversely proportional.

    Its error is that of the line, and that of the means over records.
    """
    if 1 not in results.figures:
        return None
    points = results.figures[1].points
    x = np.log([p.value for p in points])
    y = np.log([p.advantage.mean or np.nan for p in points])
    slope, intercept = np.polyfit(x, y, 1)
    residual = y - (slope * x + intercept)
    error = np.sqrt((residual**2).sum() / (len(x) - 2) / ((x - x.mean()) ** 2).sum())
    of_means = [((p.advantage.mean_high or 0) - (p.advantage.mean_low or 0)) / 2 for p in points]
    weights = (x - x.mean()) / ((x - x.mean()) ** 2).sum()
    of_records = np.linalg.norm(weights * np.array(of_means) / np.exp(y))
    half = float(np.hypot(scipy.special.stdtrit(len(x) - 2, 0.975) * error, of_records))
    if abs(slope + 1) <= half:
        outcome = Outcome.REPRODUCED
    else:
        outcome = Outcome.SAME_DIRECTION if slope + half < 0 else Outcome.NOT_REPRODUCED
    ours = f"mean advantage ~ n^({slope:.2f} ± {half:.2f})"
    return Finding(outcome, ours, f"{protocol(results)}, n = 10 to {points[-1].value:g}")


def theorem_2(results: LeakageResults) -> Finding | None:
    """A limit cannot be reached; leakage must fall at every step, to below a twentieth."""
    if 1 not in results.figures:
        return None
    means = [p.rho_kl.mean for p in results.figures[1].points]
    defined = [mean for mean in means if mean is not None]
    falls = len(defined) == len(means) and all(b < a for a, b in pairwise(defined))
    share = defined[-1] / defined[0]
    outcome = (
        Outcome.REPRODUCED
        if falls and share < 0.05
        else Outcome.SAME_DIRECTION
        if falls
        else Outcome.NOT_REPRODUCED
    )
    n_first, n_last = (results.figures[1].points[i].value for i in (0, -1))
    steps = "falling at every step" if falls else "not falling at every step"
    ours = f"{number(defined[-1])} nats at n = {n_last:g}, {share:.1%} of that at n = {n_first:g}, {steps}"
    return Finding(outcome, ours, protocol(results), "of exact parameters, which reveal at least as much")


def records(results: LeakageResults) -> Finding | None:
    """What the loader reads from the published files."""
    if results.config.dataset != "adult":
        return None
    n_attributes = len(COLUMNS) - 1  # the last column is the income
    same = results.n_records == _RECORDS and n_attributes == _ATTRIBUTES
    outcome = Outcome.REPRODUCED if same else Outcome.REFUTED
    return Finding(
        outcome, f"{results.n_records:,} records, {n_attributes} attributes", "the published files"
    )
