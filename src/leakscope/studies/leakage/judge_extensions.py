"""From experiments to the results of the extensions: limits, private noise, regularizer, network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import scipy

from leakscope.array_types import FloatArray
from leakscope.leakage.experiment import Experiment
from leakscope.leakage.sensitivity import loss_sensitivity, solution_radius, worst_pair
from leakscope.studies.leakage.config import (
    CLASSICAL,
    CLIPPING,
    DELTA,
    HALF_RANGE,
    LIMIT_WEIGHT,
    LOSS_SCALE,
    NETWORK,
    PRIVACY,
    PRIVATE_NORM,
    PRIVATE_SIZE,
    PRIVATE_WEIGHT,
    REGULARIZER,
    LeakageConfig,
    Setting,
    private_sensitivity,
    settings,
)
from leakscope.studies.leakage.extension_results import (
    AtSameError,
    Compared,
    LimitPoint,
    Limits,
    Privacy,
    PrivatePoint,
    Regularized,
    Tradeoff,
)
from leakscope.studies.leakage.over_records import LEVEL, corrected_leakage, over_records, rounded_leakage
from leakscope.studies.leakage.regularizer import FACTORS, RIDGE_WEIGHTS, SIZE, STRENGTHS

_ADVERSARIES = ("advantage", "likelihood_ratio", "informed")


class _Curve(NamedTuple):
    """A baseline: values and errors (points,), leakage and adversary of each record (points, records)."""

    values: FloatArray
    errors: FloatArray
    leakage: FloatArray
    ratio: FloatArray


Experiments = Mapping[int, Sequence[Experiment]]


def limits(config: LeakageConfig, experiments: Experiments) -> Limits | None:
    """The limits of Theorem 3."""
    if LOSS_SCALE not in experiments:
        return None
    radius, points = solution_radius(LIMIT_WEIGHT, HALF_RANGE), settings(config)

    def judged(part: int) -> tuple[LimitPoint, ...]:
        pairs = zip(points[part], experiments[part], strict=True)
        return tuple(
            _limit_point(config, radius, setting.value if part == LOSS_SCALE else 1.0, setting, experiment)
            for setting, experiment in pairs
        )

    return Limits(radius, judged(LOSS_SCALE), judged(CLIPPING))


def _limit_point(
    config: LeakageConfig, radius: float, scale: float, setting: Setting, experiment: Experiment
) -> LimitPoint:
    rho = rounded_leakage(experiment, config.trials, config.seed)
    return LimitPoint(
        value=setting.value,
        sensitivity=scale * loss_sensitivity(setting.clip, HALF_RANGE, radius),
        leakage=rho.mean,
        leakage_low=rho.mean_low,
        leakage_high=rho.mean_high,
        method=rho.method,
        likelihood_ratio=experiment.likelihood_ratio.mean(),
        informed=experiment.informed.mean(),
        reason=rho.reason,
    )


def privacy(config: LeakageConfig, experiments: Experiments) -> Privacy | None:
    """The Gaussian mechanism at every epsilon."""
    if PRIVACY not in experiments:
        return None
    moved, points = private_sensitivity(), settings(config)
    worst = _worst_distance()

    def judged(part: int) -> tuple[PrivatePoint, ...]:
        pairs = zip(points[part], experiments[part], strict=True)
        return tuple(_private_point(config, *pair, moved, worst) for pair in pairs)

    return Privacy(
        size=PRIVATE_SIZE,
        weight=PRIVATE_WEIGHT,
        norm=PRIVATE_NORM,
        delta=DELTA,
        sensitivity=moved,
        worst_pair=worst,
        largest_distance=max(one.largest_distance.max() for one in experiments[PRIVACY]),
        constant_accuracy=experiments[PRIVACY][0].constant_accuracy.mean(),
        analytic=judged(PRIVACY),
        classical=judged(CLASSICAL),
    )


@cache
def _worst_distance() -> float:
    return worst_pair(PRIVATE_SIZE, PRIVATE_WEIGHT, PRIVATE_NORM, HALF_RANGE).distance


def _private_point(
    config: LeakageConfig, setting: Setting, experiment: Experiment, moved: float, worst: float
) -> PrivatePoint:
    rho = over_records(corrected_leakage(experiment, config.trials).corrected, config.seed)
    sigma, epsilon = setting.noise_sd, setting.value
    mu = moved / sigma if sigma else np.inf
    bound = float(2 * scipy.special.ndtr(mu / 2) - 1)
    size, error = (
        np.stack([np.abs(getattr(experiment, f"{name}{end}")) for name in _ADVERSARIES])
        for end in ("", "_error")
    )
    # One-sided at 95% for all records and adversaries together (Bonferroni).
    sure = size - float(scipy.special.ndtri(1 - (1 - LEVEL) / size.size)) * error
    return PrivatePoint(
        epsilon=epsilon if sigma else None,
        sigma=sigma,
        mu=mu if sigma else None,
        leakage=rho.mean,
        leakage_low=rho.mean_low,
        leakage_high=rho.mean_high,
        leakage_bound=mu**2 if sigma else None,
        threshold=size[0].mean(),
        likelihood_ratio=experiment.likelihood_ratio.mean(),
        informed=experiment.informed.mean(),
        informed_error=float(np.sqrt((experiment.informed_error**2).sum()) / len(experiment.informed)),
        worst_pair=float(2 * scipy.special.ndtr(worst / (2 * sigma)) - 1) if sigma else 1.0,
        largest_measured=size.max(),
        largest_measured_low=sure.max(),
        advantage_bound=advantage_bound(epsilon, DELTA),
        gaussian_bound=bound,
        beyond=int((sure > bound).sum()),
        accuracy=experiment.accuracy.mean(),
        squared_error=experiment.squared_error.mean(),
    )


def advantage_bound(epsilon: float, delta: float) -> float:
    """Largest advantage against an (epsilon, delta)-private release: (e^eps - 1 + 2 delta) / (e^eps + 1)."""
    small = np.exp(-epsilon)
    return float((1 - small + 2 * delta * small) / (1 + small))


def regularized(config: LeakageConfig, experiments: Experiments) -> Regularized | None:
    """Leakage as a regularizer, beside both kinds of ridge."""
    if REGULARIZER not in experiments:
        return None
    every = list(experiments[REGULARIZER])
    first, second = len(RIDGE_WEIGHTS), len(RIDGE_WEIGHTS) + len(FACTORS)
    plain, scaled, penalized = every[:first], every[first:second], every[second:]
    baselines = {
        "plain ridge": _curve(config, RIDGE_WEIGHTS, plain),
        "weights chosen for the error": _curve(config, FACTORS, scaled),
    }
    return Regularized(
        size=SIZE,
        plain=_tradeoffs(config, RIDGE_WEIGHTS, plain),
        scaled=_tradeoffs(config, FACTORS, scaled),
        penalized=_tradeoffs(config, STRENGTHS, penalized),
        comparisons=tuple(
            _at_same_error(config, strength, experiment, name, curve)
            for name, curve in baselines.items()
            for strength, experiment in zip(STRENGTHS, penalized, strict=True)
        ),
    )


def _tradeoffs(
    config: LeakageConfig, values: Sequence[float], experiments: Sequence[Experiment]
) -> tuple[Tradeoff, ...]:
    return tuple(
        Tradeoff(
            value=value,
            penalty=tuple(one.penalty[0].tolist()),
            squared_error=one.squared_error.mean(),
            accuracy=one.accuracy.mean(),
            leakage=over_records(corrected_leakage(one, config.trials).corrected, config.seed).mean,
            likelihood_ratio=one.likelihood_ratio.mean(),
        )
        for value, one in zip(values, experiments, strict=True)
    )


def _curve(config: LeakageConfig, values: Sequence[float], experiments: Sequence[Experiment]) -> _Curve:
    """The branch of a baseline where heavier penalties cost error, from its least error on."""
    errors = np.array([one.squared_error.mean() for one in experiments])
    leakage = np.stack([corrected_leakage(one, config.trials).corrected for one in experiments])
    ratio = np.stack([one.likelihood_ratio for one in experiments])
    rising = slice(int(errors.argmin()), None)
    return _Curve(np.array(values)[rising], errors[rising], leakage[rising], ratio[rising])


def _at_same_error(
    config: LeakageConfig, strength: float, experiment: Experiment, name: str, curve: _Curve
) -> AtSameError:
    """Differences from the baseline, interpolated in its error to that of the penalized regressions."""
    error = float(experiment.squared_error.mean())
    is_reached = bool(curve.errors[0] <= error <= curve.errors[-1])
    after = int(np.clip(np.searchsorted(curve.errors, error), 1, max(len(curve.errors) - 1, 1)))
    low, high = (0, 0) if len(curve.errors) == 1 else (after - 1, after)
    gap = curve.errors[high] - curve.errors[low]
    share = float(np.clip((error - curve.errors[low]) / gap, 0, 1)) if gap > 0 else 0.0

    def between(values: FloatArray) -> FloatArray:
        return np.asarray((1 - share) * values[low] + share * values[high])

    own = corrected_leakage(experiment, config.trials).corrected
    leakage = over_records(own - between(curve.leakage), config.seed)
    ratio = over_records(experiment.likelihood_ratio - between(curve.ratio), config.seed)
    return AtSameError(
        strength, name, is_reached,
        float(np.exp(between(np.log(curve.values)))), float(between(curve.errors)),
        leakage.mean, leakage.mean_low, leakage.mean_high,
        ratio.mean, ratio.mean_low, ratio.mean_high, leakage.reason,
    )  # fmt: skip


def network_beside_regression(config: LeakageConfig, experiments: Experiments) -> tuple[Compared, ...]:
    """At sizes that both figures have, on the records of the network."""
    if NETWORK not in experiments or 1 not in experiments:
        return ()
    points = settings(config)
    regressions = {point.size: one for point, one in zip(points[1], experiments[1], strict=True)}
    pairs = zip(points[NETWORK], experiments[NETWORK], strict=True)
    return tuple(_compared(p.size, net, regressions[p.size]) for p, net in pairs if p.size in regressions)


def _compared(size: int, network: Experiment, regression: Experiment) -> Compared:
    n = len(network.advantage)
    advantage = np.abs(network.advantage) - np.abs(regression.advantage[:n])
    leakage = network.neighbours - network.neighbours_floor
    leakage = leakage - (regression.neighbours - regression.neighbours_floor)[:n]
    mean, half_width = _mean_with_half_width(advantage)
    by_neighbours, of_neighbours = _mean_with_half_width(leakage[np.isfinite(leakage)])
    reason = "" if half_width is not None and of_neighbours is not None else "fewer than two records"
    return Compared(size, n, mean or 0.0, half_width, by_neighbours, of_neighbours, reason)


def _mean_with_half_width(values: FloatArray) -> tuple[float | None, float | None]:
    """Mean over records, and half of its 95% interval (Student's)."""
    n = len(values)
    if n < 2:
        return (float(values.mean()) if n else None), None
    return float(values.mean()), float(scipy.special.stdtrit(n - 1, 0.975) * values.std(ddof=1) / np.sqrt(n))
