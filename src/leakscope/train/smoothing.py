"""How much labels are smoothed."""

from __future__ import annotations

from functools import cache
from math import log


def smoothing_of(label_smoothing: float, label_entropy: float, n_classes: int) -> float:
    """The share of a label's probability that is spread over all classes, as a recipe sets it."""
    return _smoothing_for(label_entropy, n_classes) if label_entropy else label_smoothing


@cache
def _smoothing_for(label_entropy: float, n_classes: int) -> float:
    """The label smoothing at which labels have this share of the largest entropy, log(classes)."""

    def entropy(smoothing: float) -> float:
        other = smoothing / n_classes
        own = 1 - (n_classes - 1) * other
        return -own * log(own) - (n_classes - 1) * (other * log(other) if other else 0.0)

    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if entropy(middle) < label_entropy * log(n_classes):
            low = middle
        else:
            high = middle
    return high
