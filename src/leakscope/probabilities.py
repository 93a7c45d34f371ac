"""From probabilities to logarithms that attacks can work with, also where a model answers exactly 0 or 1."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from leakscope.types import AnyArray

SMALLEST_FLOOR = 1e-6
LARGEST_FLOOR = 0.01


def log_probabilities(probability: AnyArray) -> npt.NDArray[np.float32]:
    """Log-probabilities of one model's answers; float32 of the same shape (records, classes).

    A forest of 100 trees answers in steps of 1/100; its 0 means "less than half a step", not "impossible".
    So zeros are raised to half of the smallest positive answer, shared over the other classes, within
    [1e-6, 0.01]. Taking the logarithm at a tiny constant instead would put a wide empty gap between
    "0.99" and "1.00", which breaks every attack that fits distributions.
    """
    positive = probability[probability > 0]
    step = float(positive.min()) if len(positive) else 1.0
    floor = np.clip(step / 2, SMALLEST_FLOOR, LARGEST_FLOOR) / max(probability.shape[-1] - 1, 1)
    log_p: npt.NDArray[np.float32] = np.log(np.maximum(probability, floor, dtype=np.float64)).astype(
        np.float32
    )
    return log_p
