"""The scaling study's numbers: pure functions of its banks.

Field names of `results`, `repeats` and `correlations` are those of the published document; what it
does not have (other attacks, intervals, the decision) stands beside them.
"""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy
import sklearn

import leakscope
from leakscope.array_types import FloatArray, IntArray
from leakscope.attacks.correctness import Correctness
from leakscope.attacks.lira import Lira
from leakscope.attacks.loss import LossThreshold
from leakscope.attacks.shokri import fit_membership, logistic_regression, softmax
from leakscope.bank.bank import Bank
from leakscope.bank.run_folder import to_jsonable
from leakscope.stats.correlation import Correlation, compare_predictors, partial_correlation, pearson
from leakscope.stats.intervals import Interval, spread_over_targets
from leakscope.stats.roc import auc
from leakscope.studies.scaling.study import ScalingConfig, roles
from leakscope.types import Design, Signals

ATTACKS = ("shokri", "correctness", "loss", "lira")
_N_DRAWS = 2000


@dataclass(frozen=True, eq=False)
class WidthFigures:
    """One width's figures; every array is (repeats,)."""

    width: int
    n_params: int
    train_acc: FloatArray
    test_acc: FloatArray
    attack_accuracy: FloatArray
    auc: dict[str, FloatArray]  # attack -> AUC

    @property
    def gap(self) -> FloatArray:
        """Train minus test accuracy."""
        return self.train_acc - self.test_acc


def judged(config: ScalingConfig, banks: list[Bank]) -> dict[str, Any]:
    """results.json of the study."""
    figures = [width_figures(config, w, bank) for w, bank in zip(config.widths, banks, strict=True)]
    results: dict[str, Any] = to_jsonable({
        "experiment": "membership inference against MLP width",
        "config": asdict(config),
        "results": [_row(f, config) for f in figures],
        "correlations": _published_correlations(figures),
        "gap_or_size": {name: gap_or_size(figures, name, config) for name in attacks_of(config)},
        "runtime": {
            "n_models": len(config.widths) * config.n_repeats * config.models_per_repeat,
            "leakscope": leakscope.__version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "scikit-learn": sklearn.__version__,
        },
    })  # fmt: skip
    return results


def attacks_of(config: ScalingConfig) -> tuple[str, ...]:
    """LiRA needs reference models on both sides."""
    return ATTACKS if config.n_reference else ATTACKS[:-1]


def width_figures(config: ScalingConfig, width: int, bank: Bank) -> WidthFigures:
    """Accuracies and attack results of one width."""
    signals, design = bank.signals(), bank.design()
    probability = softmax(signals.last("logits"))
    rows = []
    for target, shadows, references in zip(*roles(config), strict=True):
        fitted = fit_membership(logistic_regression(), probability[shadows], design.in_mask[shadows])
        member_probability = fitted.predict_proba(probability[target])[:, 1]
        rows.append(_repeat_row(signals, design, int(target), references, member_probability))
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return WidthFigures(
        width=width,
        n_params=n_params(width, config),
        train_acc=columns["train_acc"],
        test_acc=columns["test_acc"],
        attack_accuracy=columns["attack_accuracy"],
        auc={name: columns[name] for name in attacks_of(config)},
    )


def n_params(width: int, config: ScalingConfig) -> int:
    """Parameters of the two-layer MLP."""
    return width * (config.n_features + 1) + config.n_classes * (width + 1)


def gap_or_size(figures: list[WidthFigures], attack: str, config: ScalingConfig) -> dict[str, Any]:
    """Which goes with the attack's AUC more closely over widths: the gap, or log2 parameters?

    Pearson correlations over width means, their difference with an interval from resampling
    repeats (each resample keeps a repeat's models at all widths together), and both partials.
    """
    by_repeat = np.stack([f.auc[attack] for f in figures], axis=1)  # (repeats, widths)
    gaps = np.stack([f.gap for f in figures], axis=1)
    size = np.log2([f.n_params for f in figures])
    drawn = compare_predictors(by_repeat, gaps, size, seed=config.seed, n_draws=_N_DRAWS)
    success, gap = by_repeat.mean(axis=0), gaps.mean(axis=0)
    mean_auc = spread_over_targets(by_repeat.mean(axis=1))
    found = {
        "mean_auc": _with_interval(mean_auc.mean, mean_auc.interval),
        "r_gap": _with_interval(float(drawn.estimate[0]), drawn.intervals[0]),
        "r_size": _with_interval(float(drawn.estimate[1]), drawn.intervals[1]),
        "difference": _with_interval(float(drawn.estimate[2]), drawn.intervals[2]),
        "partial_r_gap_given_size": _correlation(partial_correlation(success, gap, size)),
        "partial_r_size_given_gap": _correlation(partial_correlation(success, size, gap)),
        "n_widths": len(figures),
        "width_range": [min(f.width for f in figures), max(f.width for f in figures)],
        "n_repeats": config.n_repeats,
    }
    return {**found, "answer": answer(found, attack)}


def answer(found: dict[str, Any], attack: str) -> str:
    """The finding as one sentence a reader can quote."""
    named = {"shokri": "the shadow-model attack", "loss": "the loss threshold", "lira": "LiRA",
             "correctness": "correctness alone"}[attack]  # fmt: skip
    smallest, largest = found["width_range"]
    setting = f"Over {found['n_widths']} widths from {smallest} to {largest} and {found['n_repeats']} repeats"
    low, high = found["difference"]["low"], found["difference"]["high"]
    beats_guessing = found["mean_auc"]["low"]
    if np.isfinite(beats_guessing) and beats_guessing <= 0.5:
        success = found["mean_auc"]
        return (
            f"{setting} {named} does not beat guessing (mean AUC {success['value']:.3f}, 95% interval "
            f"{success['low']:.3f} to {success['high']:.3f}), so there is no success to predict."
        )
    if not np.isfinite([low, high]).all():
        return f"{setting} the question cannot be answered for {named}: too few widths or repeats."
    numbers = (
        f"r = {found['r_gap']['value']:.3f} for the gap against "
        f"{found['r_size']['value']:.3f} for log2 parameters "
        f"(difference {found['difference']['value']:+.3f}, 95% interval {low:+.3f} to {high:+.3f})"
    )
    if low <= 0 <= high:
        return f"{setting} neither predicts the success of {named} better than the other: {numbers}."
    better, other = ("overfitting gap", "model size") if low > 0 else ("model size", "overfitting gap")
    return f"{setting} the {better} predicts the success of {named} better than {other} does: {numbers}."


def _repeat_row(
    signals: Signals, design: Design, target: int, references: IntArray, member_probability: FloatArray
) -> dict[str, float]:
    """One repeat's numbers; `member_probability` is the shadow attack's, (columns,)."""
    in_mask = design.in_mask[target]
    correct = signals.last("correct")[target]
    row = {
        "train_acc": float(correct[in_mask].mean()),
        "test_acc": float(correct[~in_mask].mean()),
        "attack_accuracy": float(((member_probability > 0.5) == in_mask).mean()),
        "shokri": auc(member_probability, in_mask),
    }
    of_target = np.array([target])
    for attack in (Correctness(), LossThreshold()):
        row[attack.name] = auc(attack(signals, design, of_target).values[0], in_mask)
    if len(references):
        group = np.concatenate([of_target, references])
        scores = Lira()(signals.take(group), design.take(group), np.array([0]))
        row["lira"] = auc(scores.values[0], in_mask)
    return row


def _row(figures: WidthFigures, config: ScalingConfig) -> dict[str, Any]:
    """One width in the document's fields; standard deviations divide by n, as there."""
    return {
        "hidden_width": figures.width,
        "n_params": figures.n_params,
        "mean_attack_auc": figures.auc["shokri"].mean(),
        "std_attack_auc": figures.auc["shokri"].std(),
        "mean_attack_accuracy": figures.attack_accuracy.mean(),
        "std_attack_accuracy": figures.attack_accuracy.std(),
        "mean_overfit_gap": figures.gap.mean(),
        "std_overfit_gap": figures.gap.std(),
        "mean_train_acc": figures.train_acc.mean(),
        "mean_test_acc": figures.test_acc.mean(),
        "attacks": {name: {"mean_auc": v.mean(), "std_auc": v.std()} for name, v in figures.auc.items()},
        "repeats": [
            {
                "repeat": r,
                "hidden_width": figures.width,
                "train_acc": figures.train_acc[r],
                "test_acc": figures.test_acc[r],
                "overfit_gap": figures.gap[r],
                "attack_auc": figures.auc["shokri"][r],
                "attack_accuracy": figures.attack_accuracy[r],
                "auc": {name: v[r] for name, v in figures.auc.items()},
            }
            for r in range(config.n_repeats)
        ],
    }


def _published_correlations(figures: list[WidthFigures]) -> dict[str, Any]:
    success = np.array([f.auc["shokri"].mean() for f in figures])
    gap = np.array([f.gap.mean() for f in figures])
    size = np.log2([f.n_params for f in figures])
    pairs = {
        "auc_vs_log_params": (success, size, "attack AUC against log2 parameters, over width means"),
        "auc_vs_overfit_gap": (success, gap, "attack AUC against overfitting gap, over width means"),
        "gap_vs_log_params": (gap, size, "overfitting gap against log2 parameters, over width means"),
    }
    return {
        name: {**_correlation(pearson(x, y)), "description": text} for name, (x, y, text) in pairs.items()
    }


def _correlation(found: Correlation) -> dict[str, Any]:
    return {"r": found.r, "p": found.p, "low": found.interval.low, "high": found.interval.high}


def _with_interval(value: float, interval: Interval) -> dict[str, Any]:
    return {"value": value, "low": interval.low, "high": interval.high}
