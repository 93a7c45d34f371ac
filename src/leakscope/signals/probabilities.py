"""From probabilities to logarithms that stay finite, also where a model outputs exactly 0 or 1."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from leakscope.array_types import AnyArray

SMALLEST_FLOOR = 1e-6
LARGEST_FLOOR = 0.01


def log_probabilities(probability: AnyArray) -> npt.NDArray[np.float32]:
    """Log-probabilities of one model's outputs; float32 of the same shape (records, classes).

    The outputs of a forest of 100 trees come in steps of 1/100; its 0 means "less than half a step", not
    "impossible". So zeros are raised to half of the smallest positive output, shared over the other classes,
    within [1e-6, 0.01]. A tiny constant instead would put a wide empty gap between "0.99" and "1.00", which
    breaks every attack that fits distributions.
    """
    return floored_log(probability, floor_of(smallest_positive(probability), probability.shape[-1]))


def smallest_positive(probability: AnyArray) -> float:
    """The step in which a model's outputs come; infinite if none is above 0."""
    return float(probability[probability > 0].min(initial=np.inf))


def floor_of(step: float, n_classes: int) -> float:
    """What a probability of 0 is raised to, for a model whose outputs come in such steps."""
    return float(np.clip(step / 2, SMALLEST_FLOOR, LARGEST_FLOOR)) / max(n_classes - 1, 1)


def floored_log(probability: AnyArray, floor: float) -> npt.NDArray[np.float32]:
    """Logarithm of each probability, none below the floor's; float32 of the same shape."""
    log_p: npt.NDArray[np.float32] = np.log(np.maximum(probability, floor, dtype=np.float64)).astype(
        np.float32
    )
    return log_p
