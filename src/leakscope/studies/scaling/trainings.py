"""The published figures of one training of all targets and shadow models, and their spread over several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray
from leakscope.attacks.shokri import fit_membership, softmax
from leakscope.stats import correlation as stats
from leakscope.stats.rates import rates_by_model
from leakscope.stats.roc import auc
from leakscope.studies.scaling.config import ScalingConfig
from leakscope.studies.scaling.population import Roles
from leakscope.studies.scaling.results import Initializations, Spread, WidthMeans, WidthSpread

_FIGURES = ("train_acc", "test_acc", "overfit_gap", "std_overfit_gap", "attack_auc", "std_attack_auc")


class Attacked(NamedTuple):
    """The shadow-model attack on the targets of one width; float64."""

    member_probability: FloatArray  # (repeats, records)
    auc: FloatArray  # (repeats,)


def attack_targets(config: ScalingConfig, probability: AnyArray, in_mask: BoolArray, of: Roles) -> Attacked:
    """Fits the classifier on each repeat's shadow models, applies it to the target.

    `probability` (models, records, classes) and `in_mask` (models, records) are those of all models.
    """
    scores = []
    for target, shadows in zip(of.targets, of.shadows, strict=True):
        fitted = fit_membership(config.classifier(), probability[shadows], in_mask[shadows])
        scores.append(fitted.predict_proba(probability[target])[:, 1])
    success = [auc(score, in_mask[target]) for score, target in zip(scores, of.targets, strict=True)]
    return Attacked(np.stack(scores), np.array(success))


def width_means(
    config: ScalingConfig, width: int, logits: AnyArray, labels: AnyArray, in_mask: BoolArray, of: Roles
) -> WidthMeans:
    """The published figures of one width; arrays (models, records[, classes]) of all models."""
    success = attack_targets(config, softmax(logits), in_mask, of).auc
    correct = logits[of.targets].argmax(axis=-1) == labels[of.targets]
    train_acc, test_acc = rates_by_model(correct, in_mask[of.targets])[:2]
    gap = train_acc - test_acc
    values = (train_acc.mean(), test_acc.mean(), gap.mean(), gap.std(), success.mean(), success.std())
    return WidthMeans(width, *map(float, values))


def spread_of(config: ScalingConfig, trainings: Sequence[Sequence[WidthMeans]]) -> Initializations:
    """Every figure over several trainings, each of which has one entry per width."""
    by_width = list(zip(*trainings, strict=True))
    widths = tuple(
        WidthSpread(of_width[0].hidden_width, *(_spread([getattr(t, f) for t in of_width]) for f in _FIGURES))
        for of_width in by_width
    )
    size = np.log2([config.n_params(width) for width in config.hidden_widths])
    success, gap = (np.array([[getattr(w, f) for w in t] for t in trainings])
                    for f in ("attack_auc", "overfit_gap"))  # fmt: skip
    by_size = [stats.coefficient(row, size, "pearson") for row in success]
    by_gap = [stats.coefficient(row, own, "pearson") for row, own in zip(success, gap, strict=True)]
    growth = [stats.coefficient(row, size, "pearson") for row in gap]
    difference = list(np.subtract(by_gap, by_size))
    return Initializations(
        len(trainings), widths, *(_spread_or_none(v) for v in (by_size, by_gap, growth, difference))
    )


def _spread(values: Sequence[float]) -> Spread:
    array = np.asarray(values, dtype=np.float64)
    low, high = np.quantile(array, [0.025, 0.975])
    values = tuple(map(float, array))
    return Spread(float(array.mean()), float(array.std(ddof=1)), float(low), float(high), values)


def _spread_or_none(values: Sequence[float]) -> Spread | None:
    return _spread(values) if np.isfinite(values).all() else None
