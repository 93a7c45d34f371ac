"""When is a record learned, and how often is it forgotten? From correctness over checkpoints.

A forgetting event (Toneva et al. 2019) is a correct classification at one checkpoint and a wrong one at the
next. More checkpoints give more events, so compare records within a bank, not between banks.
"""

from __future__ import annotations

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray
from leakscope.hardness.in_out_mean import side_mean


def epoch_first_learned(correct: AnyArray, epochs: tuple[int, ...]) -> FloatArray:
    """Epoch of the first checkpoint at which the record is classified correctly; late means hard.

    A record that never is counts as learned one checkpoint after the last: later than all others, yet finite.

    Args:
        correct: bool (models, checkpoints, records).
        epochs: epochs of the checkpoints.

    Returns:
        float64 (models, records).
    """
    step = epochs[-1] - epochs[-2] if len(epochs) > 1 else epochs[-1]
    at = np.where(correct.any(axis=1), correct.argmax(axis=1), len(epochs))  # (models, records)
    learned: FloatArray = np.array([*epochs, epochs[-1] + step], dtype=np.float64)[at]
    return learned


def forgetting_events(correct: AnyArray) -> FloatArray:
    """Number of forgetting events; high means hard.

    A record that is never classified correctly gets `T // 2 + 1`, one more than T checkpoints allow, because
    the paper ranks such records above all others.

    Args:
        correct: bool (models, checkpoints, records).

    Returns:
        float64 (models, records).
    """
    events = (correct[:, :-1] & ~correct[:, 1:]).sum(axis=1)
    never = ~correct.any(axis=1)
    counts: FloatArray = np.where(never, correct.shape[1] // 2 + 1, events).astype(np.float64)
    return counts


def mean_epoch_first_learned(correct: AnyArray, in_mask: BoolArray, epochs: tuple[int, ...]) -> FloatArray:
    """Mean over the models trained on the record; float64 (records,), NaN for a record without any."""
    return side_mean(epoch_first_learned(correct.astype(np.bool_), epochs), in_mask)


def mean_forgetting_events(correct: AnyArray, in_mask: BoolArray) -> FloatArray:
    """Mean over the models trained on the record; float64 (records,), NaN for a record without any."""
    return side_mean(forgetting_events(correct.astype(np.bool_)), in_mask)
