"""Statements about the leakage study's measurements: trends, inequalities, controls; with their outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leakscope.stats.correlation import spearman
from leakscope.studies.leakage.config import FIGURES, NETWORK
from leakscope.studies.leakage.extension_results import Limits, Privacy, PrivatePoint
from leakscope.studies.leakage.results import (
    Check,
    Control,
    FigureResults,
    Information,
    Leakage,
    Point,
    Trend,
    Trends,
)

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
    neighbours = [point.output.neighbours for point in points]
    return Trends(
        leakage=_trend(values, [one.mean for one in leakage], expected),
        median_leakage=_trend(values, [one.median for one in leakage], expected),
        neighbours=_trend(values, [one.mean if one else None for one in neighbours], expected),
        median_advantage=_trend(values, [point.advantage.median for point in points], expected),
    )


def checks(
    figures: Mapping[int, FigureResults],
    shuffled: Sequence[Control],
    limits: Limits | None,
    privacy: Privacy | None,
) -> tuple[Check, ...]:
    """Every statement with its outcome and the numbers behind it."""
    points = [point for figure in figures.values() for point in figure.points]
    return (
        *(_trend_check(number, figure.trends) for number, figure in figures.items()),
        *_advantage_checks(points),
        _count_check(
            "of the fitted Gaussians, total variation <= min(Pinsker, Bretagnolle-Huber) <= sqrt(rho_KL) / 2 "
            "for every record",
            [
                p.inequalities.total_variation_beyond + p.inequalities.tightest_beyond_farokhi_kaafar
                for p in points
            ],
        ),
        _count_check(
            "of the fitted Gaussians, rho_MI <= P(z=0) P(z=1) rho_KL at every prior, for every record",
            [p.rho_mi_bits.beyond_quarter_rho_kl + _beyond_product(p.rho_mi_bits) for p in points],
        ),
        *([_levelling_check(*figures[3].points[-2:])] if 3 in figures else []),
        *map(_control_check, shuffled),
        *(_limit_checks(limits) if limits else []),
        *(_privacy_checks(privacy) if privacy else []),
    )


def _beyond_product(information: Information) -> int:
    every = (information.at_sampling_prior, *information.at_priors)
    return sum(at_prior.beyond_product for at_prior in every)


def _advantage_checks(points: Sequence[Point]) -> list[Check]:
    """Whether measured advantages stay below the total variation of the fits; only a right fit ensures it."""
    beyond = {
        "threshold": [point.inequalities.advantage_beyond for point in points],
        "likelihood-ratio": [point.inequalities.likelihood_ratio_beyond for point in points],
    }
    return [
        _count_check(
            f"{adversary} adversary's advantage <= total variation of the fitted Gaussians + errors for "
            "every record",
            counts,
        )
        for adversary, counts in beyond.items()
    ]


def _limit_checks(limits: Limits) -> list[Check]:
    """At the smallest sensitivity nothing is left; before, leakage rises with the sensitivity."""
    found = []
    for name, points in (("scaled loss", limits.loss_scale), ("clipped inputs", limits.clipping)):
        last, adversaries = points[-1], [points[-1].likelihood_ratio, points[-1].informed]
        is_zero = None if last.leakage is None else last.leakage == 0 and not any(adversaries)
        detail = f"S = {last.sensitivity:.2g}: rho_KL {last.leakage}, informed adversary {last.informed:.3g}"
        statement = (
            f"Theorem 3, {name}: at the smallest sensitivity, rounded parameters reveal exactly nothing"
        )
        found.append(Check(statement, is_zero, detail))
    return found


def _leaks_beyond_bound(point: PrivatePoint) -> bool:
    low, bound = point.leakage_low, point.leakage_bound
    return low is not None and bound is not None and low > bound


def _privacy_checks(privacy: Privacy) -> list[Check]:
    """The two statements of the figure against epsilon, and the sensitivity."""
    points, every = privacy.analytic, (*privacy.analytic, *privacy.classical)
    names = ("leakage", "threshold", "likelihood_ratio", "informed")
    falls = {name: _rises([getattr(point, name) for point in points]) for name in names}
    n_beyond, leaks_beyond = sum(point.beyond for point in every), sum(map(_leaks_beyond_bound, every))
    reached = max(privacy.worst_pair, privacy.largest_distance)
    return [
        Check(
            "private noise: leakage and every measured advantage fall with epsilon (rank correlation >= 0.9)",
            None if None in falls.values() else all((r or 0) >= 0.9 for r in falls.values()),
            ", ".join(
                f"{n.replace('_', ' ')} {'undefined' if r is None else f'{r:+.2f}'}" for n, r in falls.items()
            ),
        ),
        Check(
            "private noise: no measured advantage exceeds its bound by more than its sampling error",
            n_beyond == 0,
            f"{n_beyond} records and adversaries beyond it, at {len(every)} points",
        ),
        Check(
            "private noise: no leakage exceeds its bound, the square of sensitivity / sigma",
            leaks_beyond == 0,
            f"{leaks_beyond} of {len(every)} points beyond it",
        ),
        Check(
            "private noise: no pair of neighboring training sets is further apart than the sensitivity",
            reached <= privacy.sensitivity,
            f"sensitivity {privacy.sensitivity:.4g}; search reached {privacy.worst_pair:.4g}, trainings "
            f"{privacy.largest_distance:.4g}",
        ),
    ]


def _rises(values: Sequence[float | None]) -> float | None:
    """Rank correlation with the order; None where a value is missing."""
    defined = [value for value in values if value is not None]
    if len(defined) < len(values):
        return None
    correlation = spearman(list(range(len(values))), defined)
    return None if correlation.reason else correlation.r


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
    parts, spec = [of_figure.leakage, of_figure.median_advantage], FIGURES[number]
    if number == NETWORK:  # both estimates of the output's leakage
        parts.insert(1, of_figure.neighbours)
    numbers = ["undefined" if part.spearman is None else f"{part.spearman:+.2f}" for part in parts]
    names = ["leakage", *(["by nearest neighbors"] if number == NETWORK else []), "median advantage"]
    limit = f"{'at least' if spec.expected > 0 else 'at most'} {spec.expected:+.1f}"
    return Check(
        statement=f"figure {number}: rank correlation with {spec.short_axis} is {limit}",
        holds=None if any(part.holds is None for part in parts) else all(part.holds for part in parts),
        detail=", ".join(f"{name} {value}" for name, value in zip(names, numbers, strict=True)),
    )


def _count_check(statement: str, violations: list[int]) -> Check:
    n_points = sum(count > 0 for count in violations)
    detail = f"violated by {sum(violations)} records, at {n_points} of {len(violations)} points"
    return Check(statement, sum(violations) == 0, detail)


def _levelling_check(before: Point, last: Point) -> Check:
    """At the largest weights, continuous leakage is flat and above 0; at finite precision it is gone."""
    statement = "figure 3: continuous leakage levels off, while leakage at finite precision goes to 0"
    fine = last.rho_kl_finite_precision
    if fine is None or fine.mean is None or last.rho_kl.mean is None or before.rho_kl.mean is None:
        return Check(statement, None, "undefined: every record is perfectly separable")
    is_flat = abs(last.rho_kl.mean - before.rho_kl.mean) < 0.1 * abs(before.rho_kl.mean)
    holds = is_flat and last.rho_kl.mean > 0 and abs(fine.mean) < 0.02 * last.rho_kl.mean
    detail = f"at the largest ridge weight, {last.rho_kl.mean:.3g} against {fine.mean:.2g} nats"
    return Check(statement, bool(holds), detail)


def _control_check(control: Control) -> Check:
    statement = (
        f"presence shuffled, n = {control.n:g}: corrected leakage is 0, uncorrected leakage is p(p+3)/K"
    )
    if control.low is None or control.high is None or control.ratio is None:
        return Check(statement, None, control.reason)
    detail = (
        f"{control.corrected:.1e} ({control.low:.1e} to {control.high:.1e}); "
        f"{control.uncorrected:.4g} against {control.analytic:.4g} nats ({control.ratio - 1:+.1%})"
    )
    holds = control.low <= 0 <= control.high and abs(control.ratio - 1) <= _BIAS_TOLERANCE
    return Check(statement, bool(holds), detail)
