"""From the leakage study's experiments to its numbers: leakage, advantage, the chain of bounds, and checks.

KL and total variation are in nats and as they are; mutual information is in bits. Means, medians and their
95% intervals are over records (resampled whole); records and draws are the same at every point of a
figure, so a trend is surer than two neighbouring intervals suggest.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from leakscope.array_types import FloatArray
from leakscope.leakage.bias import analytic_bias
from leakscope.leakage.bounds import Chain, chain
from leakscope.leakage.experiment import Crossed, Experiment, at_answer, crossed, pooled
from leakscope.leakage.gaussian import Gaussian, symmetric_kl, with_precision
from leakscope.leakage.mutual_information import mutual_information
from leakscope.studies.leakage.findings import checks, trends
from leakscope.studies.leakage.study import CONTROL, LeakageConfig, Setting

_N_DRAWS = 1000
_LEVEL = 0.95
_POOR = 0.25
"""The Gaussian fit is called poor where the neighbours' estimate is surely off, by more than this share"""
_TELLING = 0.1
"""of the leakage or of this many nats, whichever is more: below, neighbours are too noisy to tell."""


class SplitScores(NamedTuple):
    """The Gaussians of all trainings with and without each record, both halves together."""

    inside: Gaussian
    outside: Gaussian


def judged(
    config: LeakageConfig, points: dict[int, tuple[Setting, ...]], experiments: dict[int, list[Experiment]]
) -> dict[str, Any]:
    """All results: figure -> points and trends, the control, the checks."""
    figures: dict[str, dict[str, Any]] = {}
    for figure in sorted(set(points) - {CONTROL}):
        pairs = zip(points[figure], experiments[figure], strict=True)
        found = [judge_point(config, figure, setting, experiment) for setting, experiment in pairs]
        figures[str(figure)] = {"points": found, "trends": trends(figure, found)}
    results: dict[str, Any] = {"config": asdict(config), "figures": figures}
    if CONTROL in points:
        pairs = zip(points[CONTROL], experiments[CONTROL], strict=True)
        results["shuffled"] = [judge_control(config, setting, experiment) for setting, experiment in pairs]
    return {**results, "checks": checks(results)}


def judge_point(config: LeakageConfig, figure: int, setting: Setting, found: Experiment) -> dict[str, Any]:
    """Every number of one point."""
    k = config.network_trials if figure == 2 else config.trials
    p = found.inside_mean.shape[-1]
    sides = SplitScores(pooled(found.inside, k), pooled(found.outside, k))
    rho = _without_inverse_excess(crossed(found.inside, found.outside), k, p)
    bounds = chain(sides.inside, sides.outside)
    point: dict[str, Any] = {
        "value": setting.value,
        "parameters": p,
        "trials": k,
        "rho_kl": _leakage(rho, config.seed),
        "advantage": _advantage(found, config.seed),
        "chain": _chain(found, bounds),
        "answers": _answers(found, k),
    }
    if setting.noise_sd == 0:  # the law does not hold with added noise
        point["rho_kl"]["analytic_floor"] = 2 * analytic_bias(p, k)
    point |= _information(sides)
    if figure == 3:
        rounded = [with_precision(g, config.precision) for g in (found.inside, found.outside)]
        fine = _without_inverse_excess(crossed(rounded[0], rounded[1]), k, p)
        point["rho_kl_finite_precision"] = _leakage(fine, config.seed)
    return point


def judge_control(config: LeakageConfig, setting: Setting, found: Experiment) -> dict[str, Any]:
    """The bias with presence shuffled: what is left after correction, and the plain estimate by its law.

    The interval is Student's over records, and 99% for both sizes together: nothing leaks here, so a miss
    would be a false alarm.
    """
    rho, n = crossed(found.inside, found.outside), len(found.advantage)
    is_defined = n > 1 and bool(np.isfinite(rho.corrected).all())
    mean, analytic = rho.corrected.mean(), 2 * analytic_bias(found.inside_mean.shape[-1], config.trials)
    spread = rho.corrected.std(ddof=1) / np.sqrt(n) if is_defined else np.nan
    half_width = special.stdtrit(n - 1, 1 - 0.01 / 4) * spread if is_defined else np.nan
    bounds = chain(pooled(found.inside, config.trials), pooled(found.outside, config.trials))
    return {
        "n": setting.value,
        "corrected": mean,
        "low": mean - half_width,
        "high": mean + half_width,
        "uncorrected": rho.plug_in.mean(),
        "analytic": analytic,
        "ratio": rho.plug_in.mean() / analytic,
        "total_variation": bounds.total_variation.mean(),
        "reason": "" if is_defined else "undefined: one record, or some are told apart for sure",
    }


def over_records(values: FloatArray, seed: int) -> dict[str, Any]:
    """Mean and median of (records,) with 95% intervals; infinite ones are counted and left out."""
    finite = values[np.isfinite(values)]
    n_left_out = len(values) - len(finite)
    certain = f"{n_left_out} of {len(values)} records are told apart for sure and left out"
    reasons = [certain] if n_left_out else []
    reasons += ["one record has no spread over records"] if len(finite) == 1 else []
    found: dict[str, Any] = {"infinite": n_left_out, "reason": "; ".join(reasons)}
    for name, statistic in (("mean", np.mean), ("median", np.median)):
        low, high = _resampled(finite, statistic, seed) if len(finite) > 1 else (None, None)
        found |= {name: statistic(finite) if len(finite) else None, f"{name}_low": low, f"{name}_high": high}
    return found


def _resampled(values: FloatArray, statistic: Any, seed: int) -> FloatArray:
    """Ends of the 95% percentile bootstrap interval of a mean or median; all draws at once."""
    rows = np.random.default_rng(seed).integers(len(values), size=(_N_DRAWS, len(values)))
    ends: FloatArray = np.quantile(statistic(values[rows], axis=1), [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return ends


def box(values: FloatArray) -> dict[str, Any]:
    """What a box plot shows: quartiles, whiskers within 1.5 box heights, and what is beyond them."""
    low, median, high = np.quantile(values, [0.25, 0.5, 0.75])
    reach = 1.5 * (high - low)
    within = values[(values >= low - reach) & (values <= high + reach)]
    beyond = np.sort(values[(values < within.min()) | (values > within.max())])
    return {"q1": low, "med": median, "q3": high, "whislo": within.min(), "whishi": within.max(),
            "fliers": beyond}  # fmt: skip


def _without_inverse_excess(found: Crossed, k: int, p: int) -> Crossed:
    """Inverses of sample covariances are too large by (K-1)/(K-p-2), and so is the part above the floor.

    That holds without added noise; with it the factor is nearer to 1, and at the study's K the
    difference is below one percent.
    """
    factor = (k - p - 2) / (k - 1) if k > p + 2 else 1.0
    return found._replace(corrected=found.corrected * factor)


def _leakage(found: Crossed, seed: int) -> dict[str, Any]:
    plug_in, floor = (over_records(values, seed)["mean"] for values in (found.plug_in, found.floor))
    return {**over_records(found.corrected, seed), "uncorrected": plug_in, "floor": floor}


def _advantage(found: Experiment, seed: int) -> dict[str, Any]:
    size = np.abs(found.advantage)
    return {**over_records(size, seed), "box": box(size), "mean_sampling_error": found.advantage_error.mean()}


def _information(sides: SplitScores) -> dict[str, Any]:
    """rho_MI in bits, and how far it is below a quarter of rho_KL on the very same Gaussians."""
    found = mutual_information(sides.inside, sides.outside)
    quarter = symmetric_kl(sides.inside, sides.outside) / 4
    in_bits = {"mean": found.value.mean() / np.log(2), "error": found.error.mean() / np.log(2)}
    return {
        "rho_mi_bits": {**in_bits, "beyond_quarter_rho_kl": int((found.value - found.error > quarter).sum())}
    }


def _chain(found: Experiment, bounds: Chain) -> dict[str, Any]:
    """Means over records of the chain, bounds cut at 1, and how many records break a link.

    A record breaks the first link when the adversary's advantage is above the total variation of the fitted
    Gaussians by more than the numerical error and the sampling error together, the latter at a level that
    holds for all records of the point at once. The other links hold between the same two Gaussians.
    """
    n = len(found.advantage)
    z = float(special.ndtri(1 - (1 - _LEVEL) / n))  # one-sided, Bonferroni over records
    limit = bounds.total_variation + bounds.total_variation_error
    tightest = np.minimum(bounds.pinsker, bounds.bretagnolle_huber)
    size, ratio = np.abs(found.advantage), np.abs(found.likelihood_ratio)
    return {
        "advantage": size.mean(),
        "likelihood_ratio": found.likelihood_ratio.mean(),
        "total_variation": bounds.total_variation.mean(),
        "total_variation_error": bounds.total_variation_error.mean(),
        "pinsker": np.minimum(bounds.pinsker, 1).mean(),
        "bretagnolle_huber": bounds.bretagnolle_huber.mean(),
        "document": np.minimum(bounds.document, 1).mean(),
        "advantage_beyond": int((size - z * found.advantage_error > limit).sum()),
        "likelihood_ratio_beyond": int((ratio - z * found.likelihood_ratio_error > limit).sum()),
        "total_variation_beyond": int(
            (bounds.total_variation - bounds.total_variation_error > tightest).sum()
        ),
        "tightest_beyond_document": int((tightest > bounds.document * (1 + 1e-12)).sum()),
    }


def _answers(found: Experiment, k: int) -> dict[str, Any]:
    """Leakage of the answer about the record: by Gaussians for all, by neighbours for some records."""
    inputs = found.inputs[:, None]
    rho = crossed(at_answer(found.inside, inputs), at_answer(found.outside, inputs))
    gaussian = _without_inverse_excess(rho, k, 1).corrected
    asked = np.isfinite(found.nearest_neighbour) & np.isfinite(gaussian)
    answers: dict[str, Any] = {"rho_kl": over_records(gaussian, 0)["mean"], "records": int(asked.sum())}
    nothing = {"gaussian": None, "nearest_neighbour": None, "is_poor": None}
    if asked.sum() < 3:
        return {**answers, **nothing, "reason": "too few trials or records for nearest neighbours"}
    by_gaussian, by_neighbours = gaussian[asked], found.nearest_neighbour[asked]
    share = (by_neighbours - by_gaussian) / np.maximum(by_gaussian, _TELLING)
    half_width = special.stdtrit(len(share) - 1, 0.975) * share.std(ddof=1) / np.sqrt(len(share))
    is_poor = bool(abs(share.mean()) > max(_POOR, half_width))
    return {**answers, "gaussian": by_gaussian.mean(), "nearest_neighbour": by_neighbours.mean(),
            "share_apart": share.mean(), "share_apart_half_width": half_width, "is_poor": is_poor,
            "reason": ""}  # fmt: skip
