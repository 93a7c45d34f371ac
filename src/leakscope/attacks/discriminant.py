"""Several checkpoints and queries of a record, combined into one number.

A model's outputs for several queries about a record are correlated, and so are those at several checkpoints.
Fisher's discriminant weighs them by the covariance of their scatter around each record's own means, pooled
over records, and by the gap between the IN and OUT means. Its weights would separate IN from OUT best if all
records were alike. They are not: most are easy, and their outputs hardly move. So weights are learned twice,
the second time from the hardest third of the records, whose membership shows most.

Weights need a record with two models on one side, so at least two references. With fewer, the mean over the
queries at the last checkpoint counts; a mean over checkpoints would be weaker than the last one alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray
from leakscope.disk.scratch import blocks

_LEARNED_FROM = 4_000_000
"""Outputs, of all models, checkpoints and queries, from which weights are learned at most."""
_AT_ONCE = 1 << 22  # outputs in memory as float64
_RIDGE = 1e-3  # of the mean variance: queries may be equal, or constant
_HARD = 1 / 3
_FEWEST = 20  # outputs on hard records for each weight


class Scale(NamedTuple):
    """Combines a model's checkpoints and queries into one number of about unit size."""

    weights: FloatArray  # (checkpoints, queries)
    centre: float


def combined(outputs: AnyArray, scale: Scale) -> FloatArray:
    """The outputs (models, checkpoints, records, queries) on a scale; float64 (models, records)."""
    n_models, n_checkpoints, n_records, n_queries = outputs.shape
    total = np.full((n_models, n_records), -scale.centre)
    for some in blocks(n_records, max(1, _AT_ONCE // (n_models * n_queries))):
        for checkpoint in range(n_checkpoints):
            values, weights = outputs[:, checkpoint, some].astype(np.float64), scale.weights[checkpoint]
            total[:, some] += values @ weights if n_queries > 1 else values[..., 0] * weights[0]
    return total


def weights_of(outputs: AnyArray, in_mask: BoolArray) -> FloatArray:
    """The weights that best separate IN from OUT; (checkpoints, queries).

    Args:
        outputs: (models, checkpoints, records, queries).
        in_mask: bool (models, records).
    """
    n_checkpoints, _, n_queries = outputs.shape[1:]
    usual = np.zeros((n_checkpoints, n_queries))
    usual[-1] = 1 / n_queries
    if usual.size == 1:
        return usual
    step = -(-outputs.size // _LEARNED_FROM)
    some = np.moveaxis(outputs[:, :, ::step], (1, 3), (0, 1)).astype(np.float64, order="C")
    some = some.reshape(usual.size, len(outputs), -1)  # (weights, models, records)
    moments = _Moments.of(some, in_mask[:, ::step])
    everyone = moments.discriminant(np.ones(moments.means.shape[2], dtype=np.bool_))
    if everyone is None:
        return usual
    middle = everyone @ moments.means.mean(axis=0)
    hard = moments.has_both & (middle <= np.quantile(middle[moments.has_both], _HARD))
    again = None
    if hard.sum() * len(outputs) >= _FEWEST * usual.size:
        again = moments.discriminant(hard)
    return (everyone if again is None else again).reshape(usual.shape)


class _Moments(NamedTuple):
    """Of both sides of some records."""

    values: tuple[FloatArray, FloatArray]  # IN and OUT, (weights, models, records) each; 0 on the other side
    counts: FloatArray  # (2, records)
    means: FloatArray  # (2, weights, records); 0 without a model

    @classmethod
    def of(cls, outputs: FloatArray, in_mask: BoolArray) -> _Moments:
        sides = in_mask, ~in_mask
        values = outputs * sides[0], outputs * sides[1]
        counts = np.stack([side.sum(axis=0) for side in sides]).astype(np.float64)
        sums = np.stack([side.sum(axis=1) for side in values])
        return cls(values, counts, sums / np.maximum(counts, 1)[:, None])

    @property
    def has_both(self) -> BoolArray:
        """Records with a model on each side."""
        return np.asarray((self.counts > 0).all(axis=0))

    def discriminant(self, records: BoolArray) -> FloatArray | None:
        """The weights for these records; None where nothing scatters, or no record has both sides."""
        own = records & self.has_both
        if not own.any():
            return None
        scatter = np.zeros((len(self.values[0]),) * 2)
        for values, counts, means in zip(self.values, self.counts, self.means, strict=True):
            several = records & (counts > 1)
            flat = values[:, :, several].reshape(len(scatter), -1)
            centre = means[:, several] * np.sqrt(counts[several])
            scatter += flat @ flat.T - centre @ centre.T
        ridge = _RIDGE * np.trace(scatter) / len(scatter)
        size = np.square(self.means).sum() + 1e-300
        if ridge <= 1e-12 * _RIDGE * size:  # rounding is no scatter
            return None
        gap = (self.means[0] - self.means[1])[:, own].mean(axis=1)
        weights = np.linalg.solve(scatter + ridge * np.eye(len(scatter)), gap)
        total = float(np.abs(weights).sum())
        return np.asarray(weights / total) if total > 0 else None
