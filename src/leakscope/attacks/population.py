"""Attack-P: is the loss small compared with other records' on the same model? (Ye et al. 2022)"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leakscope.attacks.base import Attack
from leakscope.types import Design, FloatArray, IntArray, Signals


@dataclass(frozen=True)
class Population(Attack):
    """Share of the records of the same class whose loss on the target is higher.

    Attributes:
        by_class: compare within the record's class; else with all records.
    """

    by_class: bool = True

    name = "population"
    needs = ("loss",)

    def run(self, signals: Signals, design: Design, targets: IntArray) -> FloatArray:
        """float64 (targets, columns)."""
        loss = signals.last("loss")[targets].astype(np.float64)
        labels = np.broadcast_to(signals.labels, design.in_mask.shape)[targets]
        scores = np.empty_like(loss)
        for row, (values, classes) in enumerate(zip(loss, labels, strict=True)):
            for label in np.unique(classes) if self.by_class else [None]:
                own = slice(None) if label is None else classes == label
                scores[row, own] = _share_above(values[own])
        return scores


def _share_above(values: FloatArray) -> FloatArray:
    """Share of the values above each, ties half; (records,)."""
    ascending = np.sort(values)
    below = np.searchsorted(ascending, values, side="left")
    not_above = np.searchsorted(ascending, values, side="right")
    share: FloatArray = 1 - (below + not_above) / (2 * len(values))
    return share
