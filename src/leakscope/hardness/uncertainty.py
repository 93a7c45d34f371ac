"""Predictive uncertainty and its two parts, aleatoric and epistemic.

For class probabilities p_s of passes s = 1..S,

    predictive = H(mean_s p_s)      aleatoric = mean_s H(p_s)      epistemic = predictive - aleatoric

The epistemic part is the mutual information between prediction and model (Houlsby et al. 2011; Gal et al.
2017). A cruder measure of the same is the variance over the passes, `sum_c var_s p_s(c)`. A pass is one draw
of the model: a model of the population that was not trained on the record, a member of a deep ensemble
(Lakshminarayanan et al. 2017), or a forward pass with dropout enabled (Gal and Ghahramani 2016). Entropies
are in nats; high means uncertain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy

from leakscope.array_types import AnyArray, BoolArray, FloatArray
from leakscope.disk.scratch import blocks
from leakscope.hardness.in_out_mean import side_mean

_NUMBERS_AT_ONCE = 8_000_000  # probabilities held in float64 together


class Uncertainty(NamedTuple):
    """float64 (records,) each, the first three in nats; NaN for a record without any pass."""

    predictive: FloatArray
    aleatoric: FloatArray
    epistemic: FloatArray
    variance: FloatArray


UNCERTAINTIES = {"epistemic": "epistemic", "aleatoric": "aleatoric", "ensemble_variance": "variance"}
"""Measure of hardness -> the part of `Uncertainty` it is; those that are followed over training."""


def uncertainty_of_logits(logits: AnyArray, counted: BoolArray | None = None) -> Uncertainty:
    """Uncertainty over a stack of passes.

    Args:
        logits: float (passes, records, classes).
        counted: bool (passes, records), the passes that count for a record; None means all. With a single
            pass the epistemic part is zero.
    """
    return _by_part(
        lambda part: scipy.special.softmax(logits[:, part].astype(np.float64), axis=2), logits.shape, counted
    )


def uncertainty_at_checkpoints(logits: AnyArray, counted: BoolArray) -> dict[str, FloatArray]:
    """Every one of `UNCERTAINTIES` at each checkpoint; float64 (checkpoints, records).

    Args:
        logits: float (models, checkpoints, records, classes).
        counted: bool (models, records), the models that count for a record.
    """
    parts = [uncertainty_of_logits(logits[:, at], counted) for at in range(logits.shape[1])]
    return {name: np.stack([getattr(p, part) for p in parts]) for name, part in UNCERTAINTIES.items()}


def own_class_uncertainty(log_odds: AnyArray, counted: BoolArray | None = None) -> Uncertainty:
    """The same for the two-way prediction "its own class or another", from log-odds (passes, records).

    For banks without logits. Merging classes loses information, so the entropies are at most those over all
    classes (data processing inequality); of the variance that does not hold.
    """

    def probabilities(part: slice) -> FloatArray:
        own = log_odds[:, part].astype(np.float64)
        return np.stack([scipy.special.expit(own), scipy.special.expit(-own)], axis=2)

    return _by_part(probabilities, (*log_odds.shape, 2), counted)


def _by_part(
    probabilities: Callable[[slice], FloatArray], shape: tuple[int, ...], counted: BoolArray | None
) -> Uncertainty:
    """Computes a few records at a time, so that memory does not grow with their number."""
    n_passes, n_records, n_classes = shape
    mask = np.ones((n_passes, n_records), dtype=np.bool_) if counted is None else counted
    step = max(1, _NUMBERS_AT_ONCE // max(1, n_passes * n_classes))
    parts = [_split(probabilities(part), mask[:, part]) for part in blocks(n_records, step)]
    return Uncertainty(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _split(probabilities: FloatArray, counted: BoolArray) -> Uncertainty:
    mean = side_mean(probabilities, counted)
    predictive, aleatoric = _entropy(mean), side_mean(_entropy(probabilities), counted)
    variance = side_mean(np.square(probabilities - mean), counted).sum(axis=-1)
    return Uncertainty(predictive, aleatoric, np.maximum(predictive - aleatoric, 0.0), variance)


def _entropy(probabilities: FloatArray) -> FloatArray:
    entropies: FloatArray = scipy.special.entr(probabilities).sum(axis=-1)
    return entropies
