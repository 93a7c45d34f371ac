"""When was a record learned, and how often forgotten again? From correctness over checkpoints.

Forgetting events are Toneva et al. (2019): the record was classified correctly at one look and wrongly at the
next. Both count what happens at checkpoints, so a bank that looks every epoch sees more events than one that
looks every tenth; compare records within a bank.
"""

from __future__ import annotations

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray
from leakscope.hardness.in_out_mean import side_mean


def epoch_first_learned(correct: AnyArray, epochs: tuple[int, ...]) -> FloatArray:
    """The first checkpoint's epoch at which the record is right; high = late = hard.

    A record that never is counts as learned one checkpoint after the last: later than all others, and finite.

    Args:
        correct: bool (models, checkpoints, records).
        epochs: the checkpoints' epochs.

    Returns:
        float64 (models, records).
    """
    step = epochs[-1] - epochs[-2] if len(epochs) > 1 else epochs[-1]
    at = np.where(correct.any(axis=1), correct.argmax(axis=1), len(epochs))  # (models, records)
    learned: FloatArray = np.array([*epochs, epochs[-1] + step], dtype=np.float64)[at]
    return learned


def forgetting_events(correct: AnyArray) -> FloatArray:
    """Times the record was right at a checkpoint and wrong at the next; high = hard.

    A record that never was right has nothing to forget. It counts one more than the most events T
    checkpoints have room for, `T // 2 + 1` (the paper puts such records above all others too).

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
    """Mean over the models that trained on the record; float64 (records,), NaN for a record in none."""
    return side_mean(epoch_first_learned(correct.astype(np.bool_), epochs), in_mask)


def mean_forgetting_events(correct: AnyArray, in_mask: BoolArray) -> FloatArray:
    """Mean over the models that trained on the record; float64 (records,), NaN for a record in none."""
    return side_mean(forgetting_events(correct.astype(np.bool_)), in_mask)
