"""From the leakage study's experiments to its results: leakage, advantage, inequalities.

Records and draws are the same at every point of a figure, so a trend is more certain than two neighboring
intervals suggest.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy

from leakscope.data.registry import dataset
from leakscope.leakage.bias import Crossed, analytic_bias, crossed
from leakscope.leakage.experiment import Experiment, at_output, pooled
from leakscope.leakage.gaussian import Gaussian, symmetric_kl
from leakscope.leakage.inequalities import chain, information_at_prior, membership_entropy, mutual_information
from leakscope.stats.correlation import spearman
from leakscope.studies.leakage.checks import checks, trends
from leakscope.studies.leakage.config import CONTROL, FIGURES, ROUNDED, LeakageConfig, Setting, settings
from leakscope.studies.leakage.judge_extensions import (
    limits,
    network_beside_regression,
    privacy,
    regularized,
)
from leakscope.studies.leakage.over_records import (
    LEVEL,
    box,
    corrected_leakage,
    leakage_over,
    over_records,
    rounded_leakage,
)
from leakscope.studies.leakage.results import (
    Advantage,
    Control,
    Distinctness,
    FigureResults,
    Inequalities,
    Information,
    LeakageResults,
    MaximalLeakage,
    OutputLeakage,
    Point,
    PriorInformation,
)
from leakscope.studies.leakage.theory import evaluated

LARGE_SHARE, LEAST_LEAKAGE = 0.25, 0.1
"""A misfit, a bias or an error counts as large above this share, of at least so many nats.

The Gaussian fit is poor where nearest neighbors report significantly more or less than they would on draws
from it, and by a large share. Below so many nats they are too noisy, and the share is of this number.
"""
_DRAWS_AT_PRIOR = 4096


Fits = tuple[Gaussian, Gaussian]
"""Gaussians of all trainings with and without each record, both halves together."""


def judged(config: LeakageConfig, experiments: dict[int, list[Experiment]]) -> LeakageResults:
    """The results, from figure -> the experiments of its points."""
    points, figures = settings(config), {}
    for figure in FIGURES:
        if figure in points:
            pairs = zip(points[figure], experiments[figure], strict=True)
            at = [judge_point(config, figure, *pair) for pair in pairs]
            if figure == 3:
                at = [_with_rounded(config, *pair) for pair in zip(at, experiments[ROUNDED], strict=True)]
            figures[figure] = FigureResults(tuple(at), trends(figure, at))
    control = zip(points.get(CONTROL, ()), experiments.get(CONTROL, []), strict=True)
    shuffled = tuple(judge_control(config, *pair) for pair in control)
    at_limits, under_noise = limits(config, experiments), privacy(config, experiments)
    return LeakageResults(
        config=config,
        n_records=dataset(config.dataset).n_records,
        figures=figures,
        shuffled=shuffled,
        network=network_beside_regression(config, experiments),
        limits=at_limits,
        privacy=under_noise,
        regularizer=regularized(config, experiments),
        theory=evaluated(),
        checks=checks(figures, shuffled, at_limits, under_noise),
    )


def judge_point(config: LeakageConfig, figure: int, setting: Setting, experiment: Experiment) -> Point:
    """Every number of one point."""
    k, p = config.trials_of(figure), experiment.inside_mean.shape[-1]
    fits = _fits(experiment, k)
    # The law of the bias does not hold with added noise.
    analytic_floor = 2 * analytic_bias(p, k) if setting.noise_sd == 0 else None
    return Point(
        value=setting.value,
        parameters=p,
        trials=k,
        rho_kl=leakage_over(corrected_leakage(experiment, k), config.seed, analytic_floor),
        advantage=_advantage(experiment, config.seed),
        inequalities=_inequalities(experiment, fits),
        output=_output_leakage(experiment, k, config.seed, fits),
        rho_mi_bits=_information(fits, setting.size / dataset(config.dataset).n_records, config.priors),
        maximal_bits=_maximal(experiment, fits),
        distinctness=_distinctness(experiment),
        rho_kl_finite_precision=None,
        training_error=experiment.threshold.mean(),
        squared_error=_defined(experiment.squared_error.mean()),
    )


def _with_rounded(config: LeakageConfig, point: Point, experiment: Experiment) -> Point:
    return replace(point, rho_kl_finite_precision=rounded_leakage(experiment, config.trials, config.seed))


def judge_control(config: LeakageConfig, setting: Setting, experiment: Experiment) -> Control:
    """With presence shuffled: the corrected leakage, and the uncorrected one against its law.

    The interval is Student's over records, at 99% for both sizes together: nothing leaks here, so a miss is a
    false alarm.
    """
    rho, n = crossed(experiment.inside, experiment.outside), len(experiment.advantage)
    is_defined = n > 1 and bool(np.isfinite(rho.corrected).all())
    mean, analytic = rho.corrected.mean(), 2 * analytic_bias(experiment.inside_mean.shape[-1], config.trials)
    spread = rho.corrected.std(ddof=1) / np.sqrt(n) if is_defined else np.nan
    half_width = scipy.special.stdtrit(n - 1, 1 - 0.01 / 4) * spread if is_defined else np.nan
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


def _fits(experiment: Experiment, k: int) -> Fits:
    return pooled(experiment.inside, k), pooled(experiment.outside, k)


def _advantage(experiment: Experiment, seed: int) -> Advantage:
    size = np.abs(experiment.advantage)
    return Advantage(**vars(over_records(size, seed)), box=box(size),
                     mean_sampling_error=experiment.advantage_error.mean())  # fmt: skip


def _information(fits: Fits, sampling_prior: float, priors: tuple[float, ...]) -> Information:
    """rho_MI in bits, and how often it exceeds its multiple of rho_KL of the very same Gaussians."""
    nats, rho, bit = mutual_information(*fits), symmetric_kl(*fits), np.log(2)
    return Information(
        mean=nats.value.mean() / bit,
        error=nats.error.mean() / bit,
        beyond_quarter_rho_kl=int((nats.value - nats.error > rho / 4).sum()),
        at_sampling_prior=_at_prior(fits, sampling_prior),
        at_priors=tuple(_at_prior(fits, prior) for prior in priors),
    )


def _at_prior(fits: Fits, prior: float) -> PriorInformation:
    found = information_at_prior(*fits, prior, _DRAWS_AT_PRIOR)
    product = prior * (1 - prior) * symmetric_kl(*fits)
    return PriorInformation(
        prior=prior,
        mean=found.value.mean() / np.log(2),
        share=found.value.mean() / membership_entropy(prior),
        error=found.error.mean() / np.log(2),
        beyond_product=int((found.value - found.error > product).sum()),
    )


def _maximal(experiment: Experiment, fits: Fits) -> MaximalLeakage:
    fitted = np.log2(1 + chain(*fits).total_variation)
    attained = np.log2(1 + np.maximum(experiment.likelihood_ratio, 0.0))
    return MaximalLeakage(fitted.mean(), fitted.max(), attained.mean(), attained.max())


def _distinctness(experiment: Experiment) -> Distinctness:
    inputs = experiment.inputs[:, 1:]  # without the constant
    deviations = inputs - inputs.mean(axis=0)
    distance = ((deviations @ np.linalg.pinv(deviations.T @ deviations)) * deviations).sum(axis=1)
    r, _, ends, _, reason = spearman(distance, experiment.likelihood_ratio)
    return Distinctness(_defined(r), _defined(ends.low), _defined(ends.high), reason)


def _inequalities(experiment: Experiment, fits: Fits) -> Inequalities:
    """Means over records of advantages and fitted quantities, and how many records violate each inequality.

    A record violates the first when an adversary's advantage exceeds the total variation of the fitted
    Gaussians by more than the numerical error and the sampling error together, the latter at a level that
    holds for all records of the point at once. The others are between the same two Gaussians.
    """
    fitted = chain(*fits)
    z = float(scipy.special.ndtri(1 - (1 - LEVEL) / len(experiment.advantage)))  # one-sided, Bonferroni
    limit = fitted.total_variation + fitted.total_variation_error
    tightest = np.minimum(fitted.pinsker, fitted.bretagnolle_huber)
    size, ratio = np.abs(experiment.advantage), np.abs(experiment.likelihood_ratio)
    certain = fitted.total_variation - fitted.total_variation_error
    sure_ratio = ratio - z * experiment.likelihood_ratio_error
    return Inequalities(
        advantage=size.mean(),
        likelihood_ratio=experiment.likelihood_ratio.mean(),
        total_variation=fitted.total_variation.mean(),
        total_variation_error=fitted.total_variation_error.mean(),
        pinsker=np.minimum(fitted.pinsker, 1).mean(),
        bretagnolle_huber=fitted.bretagnolle_huber.mean(),
        farokhi_kaafar=np.minimum(fitted.farokhi_kaafar, 1).mean(),
        advantage_beyond=int((size - z * experiment.advantage_error > limit).sum()),
        likelihood_ratio_beyond=int((sure_ratio > limit).sum()),
        likelihood_ratio_beyond_farokhi_kaafar=int((sure_ratio > fitted.farokhi_kaafar).sum()),
        total_variation_beyond=int((certain > tightest).sum()),
        tightest_beyond_farokhi_kaafar=int((tightest > fitted.farokhi_kaafar * (1 + 1e-12)).sum()),
    )


def _output_leakage(experiment: Experiment, k: int, seed: int, fits: Fits) -> OutputLeakage:
    """Leakage of the output on the record: by Gaussians for all records, by nearest neighbors for some."""
    inputs = experiment.inputs[:, None]
    rho = crossed(at_output(experiment.inside, inputs), at_output(experiment.outside, inputs))
    gaussian = rho.without_inverse_excess(1, k).corrected
    of_output = symmetric_kl(*(at_output(g, experiment.inputs) for g in fits))
    beyond = int((of_output > symmetric_kl(*fits) * (1 + 1e-9)).sum())
    which = np.isfinite(experiment.neighbours) & np.isfinite(gaussian)
    n, over = int(which.sum()), over_records(gaussian, seed)
    if n < 3:
        reason = "fewer than three records have an estimate by nearest neighbors"
        return OutputLeakage(over, None, None, None, n, None, None, None, beyond, reason)
    plug_in, floor, expected = (
        v[which]
        for v in (experiment.neighbours, experiment.neighbours_floor, experiment.neighbours_if_gaussian)
    )
    difference = (plug_in - floor - expected) / np.maximum(np.abs(expected), LEAST_LEAKAGE)
    half_width = scipy.special.stdtrit(n - 1, 0.975) * difference.std(ddof=1) / np.sqrt(n)
    return OutputLeakage(
        gaussian=over,
        neighbours=leakage_over(Crossed(plug_in, floor, plug_in - floor), seed),
        neighbours_if_gaussian=expected.mean(),
        gaussian_compared=gaussian[which].mean(),
        records=n,
        relative_difference=difference.mean(),
        relative_difference_half_width=half_width,
        is_poor=bool(abs(difference.mean()) > max(LARGE_SHARE, half_width)),
        beyond_parameters=beyond,
        reason="",
    )


def _defined(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
