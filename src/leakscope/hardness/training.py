"""Measures of hardness from how models were trained on a record; high means hard.

- EL2N and GraNd (Paul, Ganguli and Dziugaite 2021): norm of the loss gradient early in training, with respect
  to the logits, `||softmax(z) - onehot(y)||`, or to all weights (`train.gradient_norms`).
- TracIn (Pruthi et al. 2020): how much training on a record lowers its own loss, `sum_t lr_t ||g_t||^2`. It
  counts one step per checkpoint, so values are comparable within a run only.
- When a record is first learned, and how often it is forgotten (Toneva et al. 2019): correct at one
  checkpoint, wrong at the next. More checkpoints give more events, so compare records within a bank only.
- Loss-trace spread: interquartile range of the loss over checkpoints. The loss of an easy record is low from
  the start; that of a hard record falls late, which separates the quartiles.
"""

from __future__ import annotations

import numpy as np
import scipy

from leakscope.array_types import AnyArray, FloatArray
from leakscope.errors import InputError

_EARLY_SHARE = 0.1  # of training; in the paper, epoch 20 of 200


def early_checkpoint(epochs: tuple[int, ...]) -> int:
    """Index of the first checkpoint after a tenth of training, where EL2N and GraNd are computed."""
    return int(np.argmax(np.asarray(epochs) >= _EARLY_SHARE * epochs[-1]))


def el2n(logits: AnyArray, labels: AnyArray) -> FloatArray:
    """`||softmax(z) - onehot(y)||` for each output, float64 (..., records), in [0, sqrt(2)].

    Args:
        logits: float (..., records, classes).
        labels: int (records,), or (..., records).
    """
    errors = scipy.special.softmax(np.asarray(logits, dtype=np.float64), axis=-1)
    at = np.broadcast_to(labels, errors.shape[:-1])[..., None].astype(np.int64)
    np.put_along_axis(errors, at, np.take_along_axis(errors, at, axis=-1) - 1, axis=-1)
    norms: FloatArray = np.linalg.norm(errors, axis=-1)
    return norms


def tracin(gradient_norms: AnyArray, learning_rates: AnyArray) -> FloatArray:
    """`sum_t lr_t ||g_t||^2` for each model and record; float64 (models, records).

    Args:
        gradient_norms: float (models, checkpoints, records), with respect to all weights.
        learning_rates: float (checkpoints,).
    """
    rates = np.asarray(learning_rates, dtype=np.float64)
    if rates.shape != gradient_norms.shape[1:2]:
        raise InputError(
            f"learning_rates has shape {rates.shape}; give one for each of the {gradient_norms.shape[1]} "
            "checkpoints"
        )
    squares = np.square(gradient_norms, dtype=np.float64)
    influence: FloatArray = np.einsum("mtr,t->mr", squares, rates)
    return influence


def epoch_first_learned(correct: AnyArray, epochs: tuple[int, ...]) -> FloatArray:
    """Epoch of the first checkpoint at which the record is classified correctly; float64 (models, records).

    A record that never is counts as learned one checkpoint after the last: later than all others, yet finite.
    `correct` is (models, checkpoints, records).
    """
    step = epochs[-1] - epochs[-2] if len(epochs) > 1 else epochs[-1]
    is_correct = correct.astype(np.bool_)
    at = np.where(is_correct.any(axis=1), is_correct.argmax(axis=1), len(epochs))  # (models, records)
    learned: FloatArray = np.array([*epochs, epochs[-1] + step], dtype=np.float64)[at]
    return learned


def forgetting_events(correct: AnyArray) -> FloatArray:
    """Number of forgetting events; float64 (models, records), from `correct` (models, checkpoints, records).

    A record that is never classified correctly gets `T // 2 + 1`, one more than T checkpoints allow, because
    the paper ranks such records above all others.
    """
    is_correct = correct.astype(np.bool_)
    events = (is_correct[:, :-1] & ~is_correct[:, 1:]).sum(axis=1)
    never = ~is_correct.any(axis=1)
    counts: FloatArray = np.where(never, correct.shape[1] // 2 + 1, events).astype(np.float64)
    return counts


def loss_trace_spread(loss: AnyArray) -> FloatArray:
    """Interquartile range over checkpoints, in nats; (models, checkpoints, records) -> (models, records)."""
    low, high = np.quantile(np.asarray(loss, dtype=np.float64), [0.25, 0.75], axis=-2)
    spread: FloatArray = high - low
    return spread
