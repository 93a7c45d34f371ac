"""Attack-P: is the loss small compared with other records' on the same model? (Ye et al. 2022)"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leakscope.array_types import AnyArray, FloatArray, IntArray
from leakscope.attacks.base import Attack
from leakscope.disk.scratch import evict_pages
from leakscope.signals.registry import CLASSIFICATION, task_of
from leakscope.types import Design, Signals


@dataclass(frozen=True)
class Population(Attack):
    """Share of the records of the same class whose loss on the target is higher.

    Attributes:
        by_class: compare with records of the same class only; in a regression, with those whose labels lie in
            the same tenth.
    """

    by_class: bool = True

    name = "population"
    needs = ("loss",)
    default_for = ("alone", "references", "out_references")
    source = "Ye et al. 2022"

    def run(self, signals: Signals, design: Design, targets: IntArray, scores: FloatArray) -> None:
        """The share, target by target."""
        loss, labels = signals.last("loss"), np.broadcast_to(_classes(signals.labels), design.in_mask.shape)
        for row, target in enumerate(targets.tolist()):
            values, classes = loss[target].astype(np.float64), labels[target]
            for label in np.unique(classes) if self.by_class else [None]:
                own = slice(None) if label is None else np.flatnonzero(classes == label)
                scores[row, own] = _share_above(values[own])
            evict_pages(loss, scores)


def _classes(labels: AnyArray) -> AnyArray:
    """Classes; numeric labels by tenths, those of equal labels the same."""
    if task_of(labels) == CLASSIFICATION:
        return labels
    return np.searchsorted(np.quantile(labels, np.arange(1, 10) / 10), labels)


def _share_above(values: FloatArray) -> FloatArray:
    """Share of the values above each, counting ties half; (records,)."""
    ascending = np.sort(values)
    below = np.searchsorted(ascending, values, side="left")
    not_above = np.searchsorted(ascending, values, side="right")
    share: FloatArray = 1 - (below + not_above) / (2 * len(values))
    return share
