"""The sentences and tables of the scaling study, for its report and the screen."""

from __future__ import annotations

from typing import NamedTuple

from leakscope.report.blocks import Table
from leakscope.stats.estimate import Estimate
from leakscope.studies.scaling.results import (
    Correlation,
    DescribedCorrelation,
    GapOrSize,
    ScalingResults,
)

ATTACK_NAMES = {
    "shokri": "shadow models (logistic regression)",
    "correctness": "correctness",
    "loss": "loss threshold",
    "lira": "LiRA, fixed variance",
}
SHORT_NAMES = {"shokri": "shadow models", "correctness": "correctness", "loss": "loss", "lira": "LiRA"}


class PublishedRow(NamedTuple):
    """One width of the published table."""

    train_acc: float
    test_acc: float
    gap: float
    attack_auc: float


PUBLISHED = {
    16: PublishedRow(0.901, 0.667, 0.235, 0.516),
    32: PublishedRow(0.953, 0.680, 0.273, 0.529),
    64: PublishedRow(0.995, 0.665, 0.329, 0.541),
    128: PublishedRow(1.000, 0.656, 0.344, 0.527),
    256: PublishedRow(1.000, 0.645, 0.355, 0.544),
}
"""Width -> its row of the published table."""

TABLE_NOTE = (
    "Mean ± standard deviation over repeats (dividing by n). The gap is train minus test accuracy. The last "
    "columns are the AUC (area under the ROC curve) of each attack; 0.5 is guessing."
)
ANSWER_NOTE = (
    "Intervals of r and of the difference resample repeats; a resample keeps a repeat's models at all widths "
    "together. The difference is that of the absolute values. Partial correlations hold the other predictor "
    "fixed, with intervals by Fisher's z. The AUC of correctness is exactly 0.5 + gap / 2, so its row is a "
    "check, not a finding."
)
CONVENTIONS = (
    "Classes have standard deviation 1.5 around centers drawn from N(0, I).",
    "The shadow-model attack is a logistic regression on the softmax vector; it does not see the label.",
    "LiRA fits Gaussians to the log-odds of the target's reference models: one mean per record, and one "
    "variance each for members and non-members.",
    "ROC curves treat ties exactly. Parameter counts include biases.",
)


def setting_words(results: ScalingResults) -> str:
    """What was trained, in one paragraph."""
    c = results.config
    same_centers = "the target's class centers" if c.shadow_data == "same" else "class centers of their own"
    same_records = "share the target's records" if c.target_data == "fixed" else "draw new records"
    return (
        f"{results.runtime.n_models:,} MLPs (Linear-ReLU-Linear; Adam, learning rate 0.01, batches of 64, 50 "
        f"epochs) on {c.n_classes} Gaussian classes in {c.n_features} dimensions. A dataset has "
        f"{c.n_samples} records, {c.train_fraction:.0%} of them members. There are {c.n_repeats} repeats per "
        f"width, which {same_records}; each has one target, {c.n_shadow} shadow models with {same_centers}, "
        f"and {c.n_reference} reference models. Seed {c.seed}."
    )


def ranked_findings(results: ScalingResults) -> list[GapOrSize]:
    """Whether gap or size predicts an attack's success, that of the strongest attack first.

    Without correctness, whose AUC is the gap itself, up to a factor: a check, not a finding.
    """
    findings = [finding for name, finding in results.gap_or_size.items() if name != "correctness"]
    return sorted(findings, key=lambda finding: -(finding.mean_auc.value or 0))


def width_table(results: ScalingResults, with_spread: bool = True) -> Table:
    """One row per width; with the standard deviations over repeats, or without."""

    def cell(mean: float, sd: float) -> str:
        return f"{mean:.3f} ± {sd:.3f}" if with_spread else f"{mean:.3f}"

    rows = [
        [
            f"{row.hidden_width}",
            f"{row.n_params:,}",
            f"{row.mean_train_acc:.3f}",
            f"{row.mean_test_acc:.3f}",
            cell(row.mean_overfit_gap, row.std_overfit_gap),
            *(cell(attack.mean_auc, attack.std_auc) for attack in row.attacks.values()),
        ]
        for row in results.results
    ]
    attacks = [SHORT_NAMES[attack] for attack in results.attacks]
    return Table(["width", "parameters", "train accuracy", "test accuracy", "gap", *attacks], rows)


def published_rows(results: ScalingResults) -> list[PublishedRow]:
    """The published table's rows of the same widths; empty unless the protocol is the published one."""
    is_published = results.config.is_published_protocol
    return [PUBLISHED[row.hidden_width] for row in results.results] if is_published else []


def published_table(results: ScalingResults) -> Table | None:
    """The published values, and ours minus theirs; None unless the protocol is the published one."""
    published = published_rows(results)
    if not published:
        return None
    rows = []
    for row, theirs in zip(results.results, published, strict=True):
        ours = (row.mean_train_acc, row.mean_test_acc, row.mean_overfit_gap, row.mean_attack_auc)
        cells = [f"{value:.3f} ({own - value:+.3f})" for own, value in zip(ours, theirs, strict=True)]
        rows.append([f"{row.hidden_width}", *cells])
    head = ("width", "train accuracy", "test accuracy", "gap", "attack AUC")
    return Table(head, rows, "Published values, with ours minus theirs in parentheses")


def correlation_lines(results: ScalingResults) -> list[str]:
    """The published correlations, one per line."""
    c = results.correlations
    return [
        _correlation_words(one) for one in (c.auc_vs_log_params, c.auc_vs_overfit_gap, c.gap_vs_log_params)
    ]


def predictor_table(results: ScalingResults) -> Table:
    """How well gap and size predict each attack's AUC, one attack per row."""
    rows = [
        [
            ATTACK_NAMES[name],
            *map(_estimate, (finding.mean_auc, finding.r_gap, finding.r_size, finding.difference)),
        ]
        for name, finding in results.gap_or_size.items()
    ]
    head = ("attack", "mean AUC", "r with the gap", "r with log2 parameters", "difference")
    return Table(head, rows, "Correlations of AUC over width means, with 95% intervals")


def partial_table(results: ScalingResults) -> Table:
    """Both partial correlations of each attack, one attack per row."""
    rows = [
        [ATTACK_NAMES[name], *map(_r, (finding.partial_r_gap_given_size, finding.partial_r_size_given_gap))]
        for name, finding in results.gap_or_size.items()
    ]
    return Table(("attack", "gap given size", "size given gap"), rows, "Partial correlations with AUC")


def _correlation_words(c: DescribedCorrelation) -> str:
    if c.r is None:
        return f"{c.description}: undefined (too few widths, or a constant)"
    return f"{c.description}: r = {_r(c)}, p = {c.p:.3g}"


def _estimate(estimate: Estimate) -> str:
    return _with_interval(estimate.value, estimate.low, estimate.high)


def _r(correlation: Correlation) -> str:
    return _with_interval(correlation.r, correlation.low, correlation.high)


def _with_interval(value: float | None, low: float | None, high: float | None) -> str:
    if value is None:
        return "undefined"
    return f"{value:.3f}" if low is None else f"{value:.3f} ({low:.3f} to {high:.3f})"
