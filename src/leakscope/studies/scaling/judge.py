"""From the scaling study's banks to its results."""

from __future__ import annotations

import platform
from collections.abc import Sequence

import numpy as np
import scipy
import sklearn

import leakscope
from leakscope.array_types import AnyArray, FloatArray, IntArray
from leakscope.attacks.lira import Lira
from leakscope.attacks.shokri import softmax
from leakscope.attacks.thresholds import Correctness, LossThreshold
from leakscope.bank.bank import Bank
from leakscope.stats import correlation as stats
from leakscope.stats.rates import rates_by_model
from leakscope.stats.roc import auc
from leakscope.studies.scaling.config import ScalingConfig
from leakscope.studies.scaling.population import Roles, roles
from leakscope.studies.scaling.predictors import correlation, gap_or_size
from leakscope.studies.scaling.results import (
    AttackSummary,
    Correlations,
    DescribedCorrelation,
    Initializations,
    PublishedSeeds,
    Repeat,
    Runtime,
    ScalingResults,
    WidthMeans,
    WidthResults,
)
from leakscope.studies.scaling.trainings import attack_targets, spread_of, width_means
from leakscope.types import Design, Signals

_N_DRAWS = 2000


def judged(config: ScalingConfig, banks: Sequence[Bank], exact: Sequence[AnyArray] = ()) -> ScalingResults:
    """The results of the study.

    Args:
        config: what was run.
        banks: one bank per width.
        exact: the logits of models trained with the publication's seeds, one array per width; may be empty.
    """
    widths = tuple(
        _width_results(config, w, bank) for w, bank in zip(config.hidden_widths, banks, strict=True)
    )
    packages = {"numpy": np, "scipy": scipy, "scikit-learn": sklearn}
    attacks = widths[0].attacks
    return ScalingResults(
        experiment="membership inference against MLP width",
        config=config,
        results=widths,
        correlations=_published_correlations(
            config, [w.mean_attack_auc for w in widths], [w.mean_overfit_gap for w in widths]
        ),
        gap_or_size={attack: gap_or_size(widths, attack, config.seed, _N_DRAWS) for attack in attacks},
        initializations=_initializations(config, banks),
        published_seeds=_published_seeds(config, banks, exact),
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
    signals, design, of = bank.signals(), bank.design(), roles(config)
    attacked = attack_targets(config, softmax(signals.last("logits")), design.in_mask, of)
    aucs = [
        {"shokri": float(shokri)} | _aucs(signals, design, int(target), references)
        for shokri, target, references in zip(attacked.auc, of.targets, of.references, strict=True)
    ]
    in_mask = design.in_mask[of.targets]
    train_acc, test_acc = rates_by_model(signals.last("correct")[of.targets], in_mask)[:2]
    gap, shokri = train_acc - test_acc, attacked.auc  # (repeats,) as the others
    attack_accuracy = ((attacked.member_probability > 0.5) == in_mask).mean(axis=1)
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


def _aucs(signals: Signals, design: Design, target: int, references: IntArray) -> dict[str, float]:
    """AUC of each attack on one target but the shadow-model attack."""
    in_mask, of_target = design.in_mask[target], np.array([target])
    aucs = {}
    for attack in (Correctness(), LossThreshold()):
        aucs[attack.name] = auc(attack(signals, design, of_target).values[0], in_mask)
    if len(references):
        group = np.concatenate([of_target, references])
        scores = Lira()(signals.take(group), design.take(group), np.array([0]))
        aucs["lira"] = auc(scores.values[0], in_mask)
    return aucs


def _initializations(config: ScalingConfig, banks: Sequence[Bank]) -> Initializations | None:
    if config.n_initializations == 1:
        return None
    every = [roles(config, k) for k in range(config.n_initializations)]
    by_width = []
    for width, bank in zip(config.hidden_widths, banks, strict=True):
        logits = bank.signals().last("logits")
        by_width.append([_means(config, width, bank, logits, of) for of in every])
    return spread_of(config, list(zip(*by_width, strict=True)))


def _published_seeds(
    config: ScalingConfig, banks: Sequence[Bank], exact: Sequence[AnyArray]
) -> PublishedSeeds | None:
    if not exact:
        return None
    each = zip(config.hidden_widths, banks, exact, strict=True)
    widths = tuple(_means(config, width, bank, logits, roles(config)) for width, bank, logits in each)
    success, gap = [w.attack_auc for w in widths], [w.overfit_gap for w in widths]
    return PublishedSeeds(widths, _published_correlations(config, success, gap))


def _means(config: ScalingConfig, width: int, bank: Bank, logits: AnyArray, of: Roles) -> WidthMeans:
    return width_means(config, width, logits, bank.signals().labels, bank.design().in_mask, of)


def _published_correlations(
    config: ScalingConfig, success: Sequence[float], gap: Sequence[float]
) -> Correlations:
    size = np.log2([config.n_params(width) for width in config.hidden_widths])
    auc_means, gap_means = np.array(success), np.array(gap)
    return Correlations(
        _described(auc_means, size, "Attack AUC against log2 parameters, over width means"),
        _described(auc_means, gap_means, "Attack AUC against overfitting gap, over width means"),
        _described(gap_means, size, "Overfitting gap against log2 parameters, over width means"),
    )


def _described(x: FloatArray, y: FloatArray, description: str) -> DescribedCorrelation:
    return DescribedCorrelation(**vars(correlation(stats.pearson(x, y))), description=description)
