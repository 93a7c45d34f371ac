"""What the publication reports, number by number, and the one time that we measured beside it."""

from __future__ import annotations

from typing import NamedTuple


class PublishedRow(NamedTuple):
    """One width of the published table; standard deviations are over 3 repeats and divide by 3."""

    n_params: int
    train_acc: float
    test_acc: float
    overfit_gap: float
    std_overfit_gap: float
    attack_auc: float
    std_attack_auc: float


class PublishedCorrelation(NamedTuple):
    """A published correlation over the five widths."""

    r: float
    p: float


class MeasuredTime(NamedTuple):
    """How long the 60 models take to train here; docs/benchmarks.md states the same figures.

    Attributes:
        compiled_s: seconds on the clock, side by side in compiled code.
        plain_loop_s: one after the other in a plain PyTorch loop.
        protocol: how it was measured.
    """

    compiled_s: float
    plain_loop_s: float
    protocol: str


MEASURED_TIME = MeasuredTime(
    0.057,
    3.15,
    "benchmarks/stacked_against_loop.py, medians, 2 idle CPU cores, 2026-11-18; training and outputs, "
    "without the attack",
)
PUBLISHED_SECONDS = 30.0
"""The stricter of the two published times."""

PUBLISHED = {
    16: PublishedRow(261, 0.901, 0.667, 0.235, 0.005, 0.516, 0.011),
    32: PublishedRow(517, 0.953, 0.680, 0.273, 0.011, 0.529, 0.014),
    64: PublishedRow(1029, 0.995, 0.665, 0.329, 0.010, 0.541, 0.015),
    128: PublishedRow(2053, 1.000, 0.656, 0.344, 0.014, 0.527, 0.006),
    256: PublishedRow(4101, 1.000, 0.645, 0.355, 0.011, 0.544, 0.024),
}
"""Width -> its row of the published table."""

PUBLISHED_CORRELATIONS = {
    "auc_vs_log_params": PublishedCorrelation(0.743, 0.150),
    "auc_vs_overfit_gap": PublishedCorrelation(0.782, 0.118),
    "gap_vs_log_params": PublishedCorrelation(0.958, 0.010),
}
"""Field of `Correlations` -> the published value."""

FIGURES = {
    "train_acc": "train accuracy",
    "test_acc": "test accuracy",
    "overfit_gap": "gap",
    "std_overfit_gap": "standard deviation of the gap",
    "attack_auc": "attack AUC",
    "std_attack_auc": "standard deviation of the AUC",
}
"""Column of the published table -> what it is called."""
