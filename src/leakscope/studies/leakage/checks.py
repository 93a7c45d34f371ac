"""What the leakage study must reproduce: trends with the published sign, the law of the bias, the bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leakscope.stats.correlation import spearman
from leakscope.studies.leakage.config import FIGURES
from leakscope.studies.leakage.results import Check, Control, FigureResults, Leakage, Point, Trend, Trends

_BIAS_TOLERANCE = 0.15
_VERDICTS = {True: "holds", False: "fails", None: "undefined"}


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
