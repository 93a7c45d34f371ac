"""From the scaling study's banks to its results."""

from __future__ import annotations

import platform
from collections.abc import Sequence

import numpy as np
import scipy
import sklearn

import leakscope
from leakscope.array_types import FloatArray, IntArray
from leakscope.attacks.lira import Lira
from leakscope.attacks.shokri import fit_membership, logistic_regression, softmax
from leakscope.attacks.thresholds import Correctness, LossThreshold
from leakscope.bank.bank import Bank
from leakscope.stats import correlation as stats
from leakscope.stats.estimate import Estimate
from leakscope.stats.intervals import Interval, spread_over_targets
from leakscope.stats.rates import rates_by_model
from leakscope.stats.roc import auc
from leakscope.studies.scaling.config import ScalingConfig
from leakscope.studies.scaling.population import roles
from leakscope.studies.scaling.results import (
    AttackSummary,
    Correlation,
    Correlations,
    DescribedCorrelation,
    GapOrSize,
    Repeat,
    Runtime,
    ScalingResults,
    WidthResults,
)
from leakscope.types import Design, Signals

_N_DRAWS = 2000
_SUBJECTS = {
    "shokri": "the shadow-model attack",
    "correctness": "correctness alone",
    "loss": "the loss threshold",
    "lira": "LiRA",
}
"""Attack -> what sentences call it."""


def judged(config: ScalingConfig, banks: list[Bank]) -> ScalingResults:
    """The results of the study; `banks` holds one bank per width."""
    widths = tuple(_width_results(config, w, bank) for w, bank in zip(config.widths, banks, strict=True))
    packages = {"numpy": np, "scipy": scipy, "scikit-learn": sklearn}
    return ScalingResults(
        experiment="membership inference against MLP width",
        config=config,
        results=widths,
        correlations=_published_correlations(widths),
        gap_or_size={attack: _gap_or_size(config, widths, attack) for attack in widths[0].attacks},
        runtime=Runtime(
            n_models=config.n_models,
            versions={
                "leakscope": leakscope.__version__,
                "python": platform.python_version(),
                **{name: package.__version__ for name, package in packages.items()},
            },
        ),
    )


def _width_results(config: ScalingConfig, width: int, bank: Bank) -> WidthResults:
    """Accuracy and attack success at one width."""
    signals, design = bank.signals(), bank.design()
    probability = softmax(signals.last("logits"))
    member_probability, aucs = [], []
    targets, shadows, references = roles(config)
    for target, own_shadows, own_references in zip(targets, shadows, references, strict=True):
        fitted = fit_membership(logistic_regression(), probability[own_shadows], design.in_mask[own_shadows])
        member_probability.append(fitted.predict_proba(probability[target])[:, 1])
        aucs.append(_aucs(signals, design, int(target), own_references, member_probability[-1]))
    in_mask = design.in_mask[targets]
    train_acc, test_acc = rates_by_model(signals.last("correct")[targets], in_mask)[:2]
    gap, shokri = train_acc - test_acc, np.array([row["shokri"] for row in aucs])  # (repeats,) as the others
    attack_accuracy = ((np.stack(member_probability) > 0.5) == in_mask).mean(axis=1)
    by_attack = {attack: np.array([row[attack] for row in aucs]) for attack in aucs[0]}
    columns = zip(train_acc, test_acc, gap, shokri, attack_accuracy, aucs, strict=True)
    return WidthResults(
        hidden_width=width,
        n_params=config.n_params(width),
        mean_attack_auc=shokri.mean(),
        std_attack_auc=shokri.std(),
        mean_attack_accuracy=attack_accuracy.mean(),
        std_attack_accuracy=attack_accuracy.std(),
        mean_overfit_gap=gap.mean(),
        std_overfit_gap=gap.std(),
        mean_train_acc=train_acc.mean(),
        mean_test_acc=test_acc.mean(),
        attacks={name: AttackSummary(values.mean(), values.std()) for name, values in by_attack.items()},
        repeats=tuple(Repeat(k, width, *of_repeat) for k, of_repeat in enumerate(columns)),
    )


def _gap_or_size(config: ScalingConfig, widths: Sequence[WidthResults], attack: str) -> GapOrSize:
    """Which predicts the attack's AUC better over widths: the gap, or log2 of the number of parameters?

    Pearson correlations over the means of the widths, their difference with an interval from resampling
    repeats (a resample keeps a repeat's models at all widths together), and both partial correlations.
    """
    by_repeat = np.stack(
        [[one.auc[attack] for one in w.repeats] for w in widths], axis=1
    )  # (repeats, widths)
    gaps = np.stack([[one.overfit_gap for one in w.repeats] for w in widths], axis=1)
    size = np.log2([w.n_params for w in widths])
    drawn = stats.compare_predictors(by_repeat, gaps, size, seed=config.seed, n_draws=_N_DRAWS)
    r_gap, r_size, difference = map(_estimate, drawn.estimate, drawn.intervals)
    success, gap = by_repeat.mean(axis=0), gaps.mean(axis=0)
    mean_auc = spread_over_targets(by_repeat.mean(axis=1))
    overall = _estimate(mean_auc.mean, mean_auc.interval)
    answer, numbers = _answer(_SUBJECTS[attack], overall, r_gap, r_size, difference)
    smallest, largest = min(config.widths), max(config.widths)
    setting = f"Over {len(widths)} widths from {smallest} to {largest} and {config.n_repeats} repeats"
    return GapOrSize(
        mean_auc=overall,
        r_gap=r_gap,
        r_size=r_size,
        difference=difference,
        partial_r_gap_given_size=_correlation(stats.partial_correlation(success, gap, size)),
        partial_r_size_given_gap=_correlation(stats.partial_correlation(success, size, gap)),
        n_widths=len(widths),
        width_range=(smallest, largest),
        n_repeats=config.n_repeats,
        answer=answer,
        evidence=f"{setting}, {numbers}.",
    )


def _answer(
    attack: str, mean_auc: Estimate, r_gap: Estimate, r_size: Estimate, difference: Estimate
) -> tuple[str, str]:
    """The finding in one sentence, and its numbers."""
    if mean_auc.low is not None and mean_auc.low <= 0.5:
        interval = f"95% interval {mean_auc.low:.3f} to {mean_auc.high:.3f}"
        return (
            f"{attack[0].upper()}{attack[1:]} does not beat guessing, so there is no success to predict.",
            f"its mean AUC is {mean_auc.value:.3f} ({interval})",
        )
    if difference.low is None or difference.high is None:
        return (
            f"Whether the gap or size predicts the success of {attack} better cannot be decided.",
            "the difference of the two correlations is undefined: there are too few widths or repeats",
        )
    numbers = (
        f"r = {r_gap.value:.3f} for the gap and {r_size.value:.3f} for log2 parameters (difference "
        f"{difference.value:+.3f}, 95% interval {difference.low:+.3f} to {difference.high:+.3f})"
    )
    if difference.low <= 0 <= difference.high:
        return f"Neither the overfitting gap nor model size predicts the success of {attack} better.", numbers
    better, other = ("overfitting gap", "model size")[:: 1 if difference.low > 0 else -1]
    return f"The {better} predicts the success of {attack} better than the {other} does.", numbers


def _aucs(
    signals: Signals, design: Design, target: int, references: IntArray, member_probability: FloatArray
) -> dict[str, float]:
    """AUC of each attack on one target; `member_probability` (records,) is the shadow-model attack's."""
    in_mask, of_target = design.in_mask[target], np.array([target])
    aucs = {"shokri": auc(member_probability, in_mask)}
    for attack in (Correctness(), LossThreshold()):
        aucs[attack.name] = auc(attack(signals, design, of_target).values[0], in_mask)
    if len(references):
        group = np.concatenate([of_target, references])
        scores = Lira()(signals.take(group), design.take(group), np.array([0]))
        aucs["lira"] = auc(scores.values[0], in_mask)
    return aucs


def _published_correlations(widths: Sequence[WidthResults]) -> Correlations:
    success = np.array([w.mean_attack_auc for w in widths])
    gap = np.array([w.mean_overfit_gap for w in widths])
    size = np.log2([w.n_params for w in widths])
    return Correlations(
        _described(success, size, "Attack AUC against log2 parameters, over width means"),
        _described(success, gap, "Attack AUC against overfitting gap, over width means"),
        _described(gap, size, "Overfitting gap against log2 parameters, over width means"),
    )


def _described(x: FloatArray, y: FloatArray, description: str) -> DescribedCorrelation:
    return DescribedCorrelation(**vars(_correlation(stats.pearson(x, y))), description=description)


def _correlation(correlation: stats.Correlation) -> Correlation:
    interval = correlation.interval
    return Correlation(*map(_defined, (correlation.r, correlation.p, interval.low, interval.high)))


def _estimate(value: float, interval: Interval) -> Estimate:
    return Estimate(*map(_defined, (value, interval.low, interval.high)))


def _defined(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
