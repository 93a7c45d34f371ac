"""Correlation of hardness with vulnerability: overall, among the vulnerable, and given the loss.

The published figure is r = .916 between epistemic uncertainty and vulnerability among the vulnerable records
of a WRN-28 (arXiv 2507.23291). Intervals treat records as independent. Records share their models, so an
interval holds for this population of models, not for another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from leakscope.array_types import BoolArray, FloatArray
from leakscope.errors import InputError
from leakscope.stats.correlation import Correlation, partial_correlation, pearson, spearman
from leakscope.types import Prose

BINS = 20


@dataclass(frozen=True)
class CorrelationFigure:
    """A correlation coefficient with its 95% interval.

    Attributes:
        r: the coefficient.
        low: lower end of the interval.
        high: upper end of the interval.
        n: number of records.
        reason: why `r` is undefined; empty where it is defined.
    """

    r: float | None
    low: float | None
    high: float | None
    n: int
    reason: Prose

    def __str__(self) -> str:
        if self.r is None:
            return f"undefined ({self.reason})"
        return f"{self.r:.3f} ({self.low:.2f} to {self.high:.2f})"


@dataclass(frozen=True)
class HardnessFigures:
    """Correlations of one measure of hardness with vulnerability, over the records where both are defined.

    Attributes:
        pearson: over all records.
        spearman: over all records.
        among_vulnerable: Pearson, over the vulnerable records.
        spearman_among_vulnerable: Spearman, over the vulnerable records.
        binned: Pearson of the means in 20 bins, equally many records of similar hardness each. Averaging
            removes what single records add, so it is larger than `pearson` and no figure of single records.
        binned_among_vulnerable: the same, over the vulnerable records.
        partial_given_loss: partial rank correlation given the mean loss of models not trained on the record:
            what the measure adds to the loss. Ranks, because losses are skewed.
    """

    pearson: CorrelationFigure
    spearman: CorrelationFigure
    among_vulnerable: CorrelationFigure
    spearman_among_vulnerable: CorrelationFigure
    binned: CorrelationFigure
    binned_among_vulnerable: CorrelationFigure
    partial_given_loss: CorrelationFigure


def correlate(
    measures: Mapping[str, FloatArray],
    vulnerability: FloatArray,
    is_vulnerable: BoolArray,
    loss: FloatArray,
) -> dict[str, HardnessFigures]:
    """Measure -> its correlations, in the order given.

    Args:
        measures: name -> float (records,), high = hard; NaN where undefined.
        vulnerability: float (records,), the advantage TPR - FPR; NaN where undefined.
        is_vulnerable: bool (records,), such as "in the vulnerable corner at the end".
        loss: float (records,), such as the mean loss of the models not trained on the record.
    """
    for name, values in {"is_vulnerable": is_vulnerable, "loss": loss, **measures}.items():
        if np.shape(values) != np.shape(vulnerability):
            raise InputError(
                f"{name} has shape {np.shape(values)} but vulnerability {np.shape(vulnerability)}; "
                "give one number per record"
            )
    return {name: _figures(values, vulnerability, is_vulnerable, loss) for name, values in measures.items()}


def binned_pearson(x: FloatArray, y: FloatArray) -> Correlation:
    """Pearson of the bins' means, where bins hold equally many points of ascending x."""
    bins = np.array_split(np.argsort(x, kind="stable"), BINS) if len(x) >= BINS else []
    return pearson([x[b].mean() for b in bins], [y[b].mean() for b in bins])


def _figures(
    hardness: FloatArray, vulnerability: FloatArray, is_vulnerable: BoolArray, loss: FloatArray
) -> HardnessFigures:
    known = np.isfinite(hardness) & np.isfinite(vulnerability)
    exposed, with_loss = known & is_vulnerable, known & np.isfinite(loss)
    correlations = (
        pearson(hardness[known], vulnerability[known]),
        spearman(hardness[known], vulnerability[known]),
        pearson(hardness[exposed], vulnerability[exposed]),
        spearman(hardness[exposed], vulnerability[exposed]),
        binned_pearson(hardness[known], vulnerability[known]),
        binned_pearson(hardness[exposed], vulnerability[exposed]),
        partial_correlation(hardness[with_loss], vulnerability[with_loss], loss[with_loss], rank=True),
    )
    return HardnessFigures(
        *(CorrelationFigure(c.r, c.interval.low, c.interval.high, c.n, c.reason) for c in correlations)
    )
