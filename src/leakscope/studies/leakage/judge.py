"""From the leakage study's experiments to its results: leakage, advantage, bounds and checks.

Records and draws are the same at every point of a figure, so a trend is more certain than two neighboring
intervals suggest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import special

from leakscope.array_types import FloatArray
from leakscope.leakage.bias import Crossed, analytic_bias, crossed
from leakscope.leakage.bounds import chain, mutual_information
from leakscope.leakage.experiment import Experiment, at_output, pooled
from leakscope.leakage.gaussian import Gaussian, symmetric_kl, with_precision
from leakscope.stats.correlation import spearman
from leakscope.studies.leakage.config import CONTROL, FIGURES, LeakageConfig, Setting, settings
from leakscope.studies.leakage.results import (
    Advantage,
    BoundChain,
    Box,
    Check,
    Control,
    FigureResults,
    Information,
    Leakage,
    LeakageResults,
    OutputLeakage,
    OverRecords,
    Point,
    Trend,
    Trends,
)

_N_DRAWS = 1000
_LEVEL = 0.95
# The Gaussian fit is poor where the nearest-neighbor estimate differs significantly, and by more than this
# share of the leakage. Below so many nats nearest neighbors are too noisy, and the share is of this number.
_POOR_SHARE, _LEAST_LEAKAGE = 0.25, 0.1
_BIAS_TOLERANCE = 0.15
_VERDICTS = {True: "holds", False: "fails", None: "undefined"}


Fits = tuple[Gaussian, Gaussian]
"""Gaussians of all trainings with and without each record, both halves together."""


def judged(config: LeakageConfig, experiments: dict[int, list[Experiment]]) -> LeakageResults:
    """The results, from figure -> the experiments of its points."""
    figures: dict[int, FigureResults] = {}
    shuffled: tuple[Control, ...] = ()
    for figure, of_figure in settings(config).items():
        pairs = list(zip(of_figure, experiments[figure], strict=True))
        if figure == CONTROL:
            shuffled = tuple(judge_control(config, setting, experiment) for setting, experiment in pairs)
        else:
            points = tuple(judge_point(config, figure, *pair) for pair in pairs)
            figures[figure] = FigureResults(points, trends(figure, points))
    return LeakageResults(config, figures, shuffled, checks(figures, shuffled))


def judge_point(config: LeakageConfig, figure: int, setting: Setting, experiment: Experiment) -> Point:
    """Every number of one point."""
    k, p = config.trials_of(figure), experiment.inside_mean.shape[-1]
    fits = _fits(experiment, k)
    rho = crossed(experiment.inside, experiment.outside).without_inverse_excess(p, k)
    # The law of the bias does not hold with added noise.
    analytic_floor = 2 * analytic_bias(p, k) if setting.noise_sd == 0 else None
    return Point(
        value=setting.value,
        parameters=p,
        trials=k,
        rho_kl=_leakage(rho, config.seed, analytic_floor),
        advantage=_advantage(experiment, config.seed),
        chain=_chain(experiment, fits),
        output=_output_leakage(experiment, k),
        rho_mi_bits=_information(fits),
        rho_kl_finite_precision=_at_finite_precision(config, experiment, k, p) if figure == 3 else None,
    )


def judge_control(config: LeakageConfig, setting: Setting, experiment: Experiment) -> Control:
    """With presence shuffled: the corrected leakage, and the uncorrected one against its law.

    The interval is Student's over records, at 99% for both sizes together: nothing leaks here, so a miss is a
    false alarm.
    """
    rho, n = crossed(experiment.inside, experiment.outside), len(experiment.advantage)
    is_defined = n > 1 and bool(np.isfinite(rho.corrected).all())
    mean, analytic = rho.corrected.mean(), 2 * analytic_bias(experiment.inside_mean.shape[-1], config.trials)
    spread = rho.corrected.std(ddof=1) / np.sqrt(n) if is_defined else np.nan
    half_width = special.stdtrit(n - 1, 1 - 0.01 / 4) * spread if is_defined else np.nan
    return Control(
        n=setting.value,
        corrected=_defined(mean),
        low=_defined(mean - half_width),
        high=_defined(mean + half_width),
        uncorrected=_defined(rho.plug_in.mean()),
        analytic=analytic,
        ratio=_defined(rho.plug_in.mean() / analytic),
        total_variation=chain(*_fits(experiment, config.trials)).total_variation.mean(),
        reason="" if is_defined else "undefined: one record, or some are perfectly separable",
    )


def over_records(values: FloatArray, seed: int) -> OverRecords:
    """Mean and median of (records,) with 95% intervals; infinite values are counted and excluded."""
    finite = values[np.isfinite(values)]
    n_infinite = len(values) - len(finite)
    reasons = (
        [f"{n_infinite} of {len(values)} records are perfectly separable and excluded"] if n_infinite else []
    )
    reasons += ["one record has no spread over records"] if len(finite) == 1 else []
    return OverRecords(
        n_infinite,
        "; ".join(reasons),
        *_with_interval(finite, np.mean, seed),
        *_with_interval(finite, np.median, seed),
    )


def box(values: FloatArray) -> Box:
    """The box plot of some values."""
    q1, median, q3 = np.quantile(values, [0.25, 0.5, 0.75])
    reach = 1.5 * (q3 - q1)
    within = values[(values >= q1 - reach) & (values <= q3 + reach)]
    outliers = np.sort(values[(values < within.min()) | (values > within.max())])
    return Box(q1, median, q3, within.min(), within.max(), tuple(outliers.tolist()))


def _with_interval(
    values: FloatArray, statistic: Callable[..., Any], seed: int
) -> tuple[float | None, float | None, float | None]:
    """A mean or median of (records,) with its 95% percentile bootstrap interval."""
    value = float(statistic(values)) if len(values) else None
    if len(values) < 2:
        return value, None, None
    rows = np.random.default_rng(seed).integers(len(values), size=(_N_DRAWS, len(values)))
    low, high = np.quantile(statistic(values[rows], axis=1), [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return value, float(low), float(high)


def _fits(experiment: Experiment, k: int) -> Fits:
    return pooled(experiment.inside, k), pooled(experiment.outside, k)


def _leakage(rho: Crossed, seed: int, analytic_floor: float | None = None) -> Leakage:
    plug_in, floor = (over_records(values, seed).mean for values in (rho.plug_in, rho.floor))
    return Leakage(**vars(over_records(rho.corrected, seed)), uncorrected=plug_in, floor=floor,
                   analytic_floor=analytic_floor)  # fmt: skip


def _at_finite_precision(config: LeakageConfig, experiment: Experiment, k: int, p: int) -> Leakage:
    inside, outside = (with_precision(g, config.precision) for g in (experiment.inside, experiment.outside))
    return _leakage(crossed(inside, outside).without_inverse_excess(p, k), config.seed)


def _advantage(experiment: Experiment, seed: int) -> Advantage:
    size = np.abs(experiment.advantage)
    return Advantage(**vars(over_records(size, seed)), box=box(size),
                     mean_sampling_error=experiment.advantage_error.mean())  # fmt: skip


def _information(fits: Fits) -> Information:
    """rho_MI in bits, and how often it exceeds a quarter of rho_KL of the very same Gaussians."""
    nats = mutual_information(*fits)
    quarter = symmetric_kl(*fits) / 4
    return Information(
        mean=nats.value.mean() / np.log(2),
        error=nats.error.mean() / np.log(2),
        beyond_quarter_rho_kl=int((nats.value - nats.error > quarter).sum()),
    )


def _chain(experiment: Experiment, fits: Fits) -> BoundChain:
    """Means over records of the chain of bounds, and how many records violate each inequality.

    A record violates the first when the adversary's advantage exceeds the total variation of the fitted
    Gaussians by more than the numerical error and the sampling error together, the latter at a level that
    holds for all records of the point at once. The others are between the same two Gaussians.
    """
    bounds = chain(*fits)
    z = float(special.ndtri(1 - (1 - _LEVEL) / len(experiment.advantage)))  # one-sided, Bonferroni
    limit = bounds.total_variation + bounds.total_variation_error
    tightest = np.minimum(bounds.pinsker, bounds.bretagnolle_huber)
    size, ratio = np.abs(experiment.advantage), np.abs(experiment.likelihood_ratio)
    certain = bounds.total_variation - bounds.total_variation_error
    return BoundChain(
        advantage=size.mean(),
        likelihood_ratio=experiment.likelihood_ratio.mean(),
        total_variation=bounds.total_variation.mean(),
        total_variation_error=bounds.total_variation_error.mean(),
        pinsker=np.minimum(bounds.pinsker, 1).mean(),
        bretagnolle_huber=bounds.bretagnolle_huber.mean(),
        farokhi_kaafar=np.minimum(bounds.farokhi_kaafar, 1).mean(),
        advantage_beyond=int((size - z * experiment.advantage_error > limit).sum()),
        likelihood_ratio_beyond=int((ratio - z * experiment.likelihood_ratio_error > limit).sum()),
        total_variation_beyond=int((certain > tightest).sum()),
        tightest_beyond_farokhi_kaafar=int((tightest > bounds.farokhi_kaafar * (1 + 1e-12)).sum()),
    )


def _output_leakage(experiment: Experiment, k: int) -> OutputLeakage:
    """Leakage of the output on the record: by Gaussians for all records, by nearest neighbors for some."""
    inputs = experiment.inputs[:, None]
    rho = crossed(at_output(experiment.inside, inputs), at_output(experiment.outside, inputs))
    gaussian = rho.without_inverse_excess(1, k).corrected
    mean, compared = (
        over_records(gaussian, 0).mean,
        np.isfinite(experiment.nearest_neighbour) & np.isfinite(gaussian),
    )
    n = int(compared.sum())
    if n < 3:
        reason = "too few trials or records for nearest neighbors"
        return OutputLeakage(mean, n, None, None, None, None, None, reason)
    by_gaussian, by_neighbours = gaussian[compared], experiment.nearest_neighbour[compared]
    difference = (by_neighbours - by_gaussian) / np.maximum(by_gaussian, _LEAST_LEAKAGE)
    half_width = special.stdtrit(n - 1, 0.975) * difference.std(ddof=1) / np.sqrt(n)
    return OutputLeakage(
        rho_kl=mean,
        records=n,
        gaussian=by_gaussian.mean(),
        nearest_neighbour=by_neighbours.mean(),
        relative_difference=difference.mean(),
        relative_difference_half_width=half_width,
        is_poor=bool(abs(difference.mean()) > max(_POOR_SHARE, half_width)),
        reason="",
    )


def _defined(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def verdict(check: Check) -> str:
    """The outcome of a check: "holds", "fails" or "undefined"."""
    return _VERDICTS[check.holds]


def trends(figure: int, points: Sequence[Point]) -> Trends:
    """Rank correlations of leakage and advantage with the varied quantity.

    In figure 3 the leakage is that at finite precision, as continuous leakage levels off.
    """
    leakage = [_trending(point) for point in points]
    values, expected = [point.value for point in points], FIGURES[figure].expected
    return Trends(
        leakage=_trend(values, [one.mean for one in leakage], expected),
        median_leakage=_trend(values, [one.median for one in leakage], expected),
        median_advantage=_trend(values, [point.advantage.median for point in points], expected),
    )


def checks(figures: Mapping[int, FigureResults], shuffled: Sequence[Control]) -> tuple[Check, ...]:
    """Every claim with its outcome and the numbers behind it."""
    points = [point for figure in figures.values() for point in figure.points]
    return (
        *(_trend_check(number, figure.trends) for number, figure in figures.items()),
        _count_check(
            "measured advantage <= total variation + its error, for every record",
            [point.chain.advantage_beyond for point in points],
        ),
        _count_check(
            "total variation <= min(Pinsker, Bretagnolle-Huber) <= sqrt(rho_KL) / 2, for every record",
            [p.chain.total_variation_beyond + p.chain.tightest_beyond_farokhi_kaafar for p in points],
        ),
        _count_check(
            "rho_MI <= rho_KL / 4, for every record",
            [point.rho_mi_bits.beyond_quarter_rho_kl for point in points],
        ),
        *([_levelling_check(*figures[3].points[-2:])] if 3 in figures else []),
        *map(_control_check, shuffled),
    )


def _trending(point: Point) -> Leakage:
    return point.rho_kl_finite_precision or point.rho_kl


def _trend(x: list[float], y: list[float | None], expected: float) -> Trend:
    defined = [value for value in y if value is not None]
    if len(defined) < len(y):
        return Trend(None, None, "undefined at some points")
    correlation = spearman(x, defined)
    if correlation.reason:
        return Trend(None, None, correlation.reason)
    holds = correlation.r >= expected if expected > 0 else correlation.r <= expected
    return Trend(correlation.r, bool(holds), "")


def _trend_check(number: int, of_figure: Trends) -> Check:
    parts, spec = (of_figure.leakage, of_figure.median_advantage), FIGURES[number]
    numbers = ["undefined" if part.spearman is None else f"{part.spearman:+.2f}" for part in parts]
    limit = f"{'at least' if spec.expected > 0 else 'at most'} {spec.expected:+.1f}"
    return Check(
        claim=f"figure {number}: rank correlation with {spec.short_axis} is {limit}",
        holds=None if any(part.holds is None for part in parts) else all(part.holds for part in parts),
        detail=f"leakage {numbers[0]}, median advantage {numbers[1]}",
    )


def _count_check(claim: str, violations: list[int]) -> Check:
    n_points = sum(count > 0 for count in violations)
    detail = f"violated by {sum(violations)} records, at {n_points} of {len(violations)} points"
    return Check(claim, sum(violations) == 0, detail)


def _levelling_check(before: Point, last: Point) -> Check:
    """At the largest weights, continuous leakage is flat and above 0; at finite precision it is gone."""
    claim = "figure 3: continuous leakage levels off, while leakage at finite precision goes to 0"
    fine = last.rho_kl_finite_precision
    if fine is None or fine.mean is None or last.rho_kl.mean is None or before.rho_kl.mean is None:
        return Check(claim, None, "undefined: every record is perfectly separable")
    is_flat = abs(last.rho_kl.mean - before.rho_kl.mean) < 0.1 * abs(before.rho_kl.mean)
    holds = is_flat and last.rho_kl.mean > 0 and abs(fine.mean) < 0.02 * last.rho_kl.mean
    detail = f"at the largest ridge weight, {last.rho_kl.mean:.3g} against {fine.mean:.2g} nats"
    return Check(claim, bool(holds), detail)


def _control_check(control: Control) -> Check:
    claim = f"presence shuffled, n = {control.n:g}: corrected leakage is 0, uncorrected leakage is p(p+3)/K"
    if control.low is None or control.high is None or control.ratio is None:
        return Check(claim, None, control.reason)
    detail = (
        f"{control.corrected:.1e} ({control.low:.1e} to {control.high:.1e}); "
        f"{control.uncorrected:.4g} against {control.analytic:.4g} nats ({control.ratio - 1:+.1%})"
    )
    holds = control.low <= 0 <= control.high and abs(control.ratio - 1) <= _BIAS_TOLERANCE
    return Check(claim, bool(holds), detail)
