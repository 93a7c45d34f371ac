"""Correlation of hardness with vulnerability: overall, among the vulnerable, and given the loss.

The published figure is r = .916 between epistemic uncertainty and vulnerability among the vulnerable records
of a WRN-28 (arXiv 2507.23291). Intervals treat records as independent. Records share their models, so an
interval holds for this population of models, not for another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from leakscope.array_types import BoolArray, FloatArray
from leakscope.errors import InputError
from leakscope.stats.correlation import Correlation, partial_correlation, pearson, spearman


class HardnessCorrelation(NamedTuple):
    """Correlations of one measure of hardness with vulnerability, over the records where both are defined.

    Attributes:
        measure: a key of `registry.MEASURES`.
        pearson: over all records.
        spearman: over all records.
        among_vulnerable: Pearson, over the vulnerable records only.
        spearman_among_vulnerable: Spearman, over the vulnerable records only.
        partial_given_loss: partial rank correlation given the loss, over all records: what the measure adds
            to the loss. Ranks, because losses are skewed and a linear fit would leave much of them in.
    """

    measure: str
    pearson: Correlation
    spearman: Correlation
    among_vulnerable: Correlation
    spearman_among_vulnerable: Correlation
    partial_given_loss: Correlation


def correlate(
    measures: Mapping[str, FloatArray],
    vulnerability: FloatArray,
    is_vulnerable: BoolArray,
    loss: FloatArray,
) -> list[HardnessCorrelation]:
    """One row per measure, in the order given.

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
    rows = []
    for name, hardness in measures.items():
        known = np.isfinite(hardness) & np.isfinite(vulnerability)
        exposed = known & is_vulnerable
        with_loss = known & np.isfinite(loss)
        rows.append(
            HardnessCorrelation(
                name,
                pearson(hardness[known], vulnerability[known]),
                spearman(hardness[known], vulnerability[known]),
                pearson(hardness[exposed], vulnerability[exposed]),
                spearman(hardness[exposed], vulnerability[exposed]),
                partial_correlation(
                    hardness[with_loss], vulnerability[with_loss], loss[with_loss], rank=True
                ),
            )
        )
    return rows
