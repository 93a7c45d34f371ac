"""The signals of `functions.py` for outputs in files and arrays: with numpy, because torch may be missing.

Float32 outputs are computed with in float64 and rounded at the end, so both differ in the last digit at most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import scipy

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.errors import InputError
from leakscope.signals.registry import CLASSIFICATION, REGRESSION, Signal, find_signal
from leakscope.signals.residuals import LINEAR_SPREADS


def signals_of_logits(logits: AnyArray, labels: IntArray, names: Sequence[str]) -> dict[str, AnyArray]:
    """The named signals of a classifier.

    Args:
        logits: float (records, classes).
        labels: int64 (records,).
        names: shipped signals that need no further queries, or a user's own as "package.module:function".

    Returns:
        name -> float32 (records,); `correct` is bool, `logits` keeps its last axis.
    """
    signals, exact = [find_signal(name, CLASSIFICATION) for name in names], logits.astype(np.float64)
    return {
        signal.name: _own(signal, logits, labels) if signal.is_own else _shipped(signal, exact, labels)
        for signal in signals
    }


def signals_of_numbers(
    outputs: AnyArray, labels: AnyArray, spread: float, names: Sequence[str]
) -> dict[str, AnyArray]:
    """The named signals of a regression model; name -> float32 (records,).

    Args:
        outputs: float (records,).
        labels: float (records,).
        spread: of the labels of all records (`leakscope.signals.residuals.label_spread`).
        names: shipped signals, or a user's own as "package.module:function".
    """
    residual = outputs.astype(np.float64) - labels
    shipped = {"loss": residual**2, "scaled_residual": np.arcsinh(residual / (LINEAR_SPREADS * spread))}
    signals = [find_signal(name, REGRESSION) for name in names]
    return {
        signal.name: _own(signal, outputs[:, None], labels)
        if signal.is_own
        else shipped[signal.name].astype(np.float32)
        for signal in signals
    }


def log_odds(logits: AnyArray, labels: IntArray) -> FloatArray:
    """LiRA's scaled confidence `z_y - logsumexp(z without y)`; float64 (records,)."""
    z = logits.astype(np.float64)
    return np.asarray(at_label(z, labels) - _log_sum_exp(_without_label(z, labels)))


def _log_sum_exp(values: FloatArray) -> FloatArray:
    """log(sum(exp)) of each row; as scipy's, without its copies."""
    largest = values.max(axis=1, keepdims=True)
    shift = np.where(np.isfinite(largest), largest, 0.0)
    with np.errstate(divide="ignore"):  # a single class: no other one has a probability
        return np.asarray(np.log(np.exp(values - shift).sum(axis=1)) + shift[:, 0])


def modified_entropy(logits: FloatArray, labels: IntArray) -> FloatArray:
    """Song and Mittal (2021): `-(1-p_y) log p_y - sum_{c != y} p_c log(1-p_c)`, in nats."""
    odds = log_odds(logits, labels)
    p = scipy.special.softmax(logits, axis=1)
    wrong = np.where(_is_label(logits, labels), 0.0, p * _log_one_minus(logits)).sum(axis=1)
    return np.asarray(scipy.special.expit(-odds) * np.logaddexp(0, -odds) - wrong)


def gradient_proxy(logits: FloatArray, labels: IntArray) -> FloatArray:
    """Norm of the loss gradient at the logits, `||softmax(z) - onehot(y)||`."""
    p = scipy.special.softmax(logits, axis=1)
    others = np.where(_is_label(logits, labels), 0.0, p)
    return np.asarray(
        np.hypot(np.linalg.norm(others, axis=1), scipy.special.expit(-log_odds(logits, labels)))
    )


def entropy(logits: FloatArray) -> FloatArray:
    """Entropy of the prediction in nats."""
    return np.asarray(scipy.special.entr(scipy.special.softmax(logits, axis=1)).sum(axis=1))


def top2_margin(logits: FloatArray) -> FloatArray:
    """Largest minus second largest probability."""
    second, first = np.sort(scipy.special.softmax(logits, axis=1), axis=1)[:, -2:].T
    return np.asarray(first - second)


def at_label(values: FloatArray, labels: IntArray) -> FloatArray:
    """The number of each record's class."""
    return np.asarray(np.take_along_axis(values, labels[:, None], axis=1)[:, 0])


def _shipped(signal: Signal, logits: FloatArray, labels: IntArray) -> AnyArray:
    values = _CLASSIFICATION[signal.name](logits, labels)
    return values if values.dtype == np.bool_ else values.astype(np.float32)


def _own(signal: Signal, logits: AnyArray, labels: AnyArray) -> AnyArray:
    """A user's signal, whose function takes tensors."""
    try:
        import torch
    except ModuleNotFoundError as error:
        raise InputError(
            f"signals={signal.name!r}: a signal of your own takes tensors; install torch with "
            "`pip install 'leakscope[train]'`"
        ) from error
    from leakscope.signals.functions import own_signal

    z, y = (torch.from_numpy(np.array(values))[None] for values in (logits, labels))
    values: AnyArray = own_signal(signal, z, y).numpy()[0]
    return values


def _log_one_minus(logits: FloatArray) -> FloatArray:
    """log(1 - p_c) for each class; the largest p, which may round to 1, through the other logits."""
    top = logits.argmax(axis=1)
    others = scipy.special.logsumexp(_without_label(logits, top), axis=1)
    log_not_top = others - scipy.special.logsumexp(logits, axis=1)
    is_top = _is_label(logits, top)
    p = np.where(is_top, 0.0, scipy.special.softmax(logits, axis=1))
    return np.where(is_top, log_not_top[:, None], np.log1p(-p))


def _is_label(logits: FloatArray, labels: IntArray) -> BoolArray:
    """bool (records, classes), true at each record's label."""
    return np.asarray(np.arange(logits.shape[1]) == labels[:, None])


def _without_label(logits: FloatArray, labels: IntArray) -> FloatArray:
    return np.where(_is_label(logits, labels), -np.inf, logits)


_CLASSIFICATION: dict[str, Callable[[FloatArray, IntArray], AnyArray]] = {
    "loss": lambda z, y: np.logaddexp(0, -log_odds(z, y)),
    "log_odds": log_odds,
    "true_prob": lambda z, y: scipy.special.expit(log_odds(z, y)),
    "true_logit": at_label,
    "max_logit": lambda z, _: z.max(axis=1),
    "max_prob": lambda z, _: scipy.special.softmax(z, axis=1).max(axis=1),
    "entropy": lambda z, _: entropy(z),
    "modified_entropy": modified_entropy,
    "top2_margin": lambda z, _: top2_margin(z),
    "correct": lambda z, y: z.argmax(axis=1) == y,
    "gradient_proxy": gradient_proxy,
    "logits": lambda z, _: z,
}
