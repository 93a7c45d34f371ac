"""Signals that query the model again, about changed versions of a record.

A defence that hides confidences leaves predicted labels, and labels alone reveal how firmly a model holds on
to a record: how many changed versions of it still get its label (Choquette-Choo et al. 2021). Images are
mirrored, moved by up to two pixels and blurred by a little noise; of any other record, every feature gets
Gaussian noise at several scales, in units of its standard deviation over all records, which is a proxy of the
distance to the decision boundary. In a table that an estimator gets as it is, values of any type are replaced
at random by those of another record in the same column, in several shares.

The changes of a record depend on its number and on the number of the query alone, so every model is asked the
same questions, in whatever blocks and on whatever machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from leakscope.array_types import AnyArray
from leakscope.disk.scratch import blocks
from leakscope.frames.frame import Frame
from leakscope.randomness import Purpose, generator, skip_float32

_AT_ONCE = 8_000_000  # numbers of changed records in memory
_SHIFTS = ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1), (2, 0), (-2, 0), (0, 2), (0, -2))
_SCALES, _DRAWS = (0.1, 0.25, 0.5, 1.0, 2.0), 5
_REPLACED_SHARES = (0.05, 0.1, 0.2, 0.4, 0.6)
_IMAGE_SCALES, _IMAGE_DRAWS = (0.1, 0.25, 0.5), 2


class Query(NamedTuple):
    """How a record is changed; by default not at all.

    Attributes:
        mirrored: whether left and right are exchanged.
        down: pixels by which the image moves down; its border is repeated.
        right: pixels by which it moves to the right.
        noise: standard deviation of Gaussian noise, in units of the feature's own.
    """

    mirrored: bool = False
    down: int = 0
    right: int = 0
    noise: float = 0.0


def queries_of(shape: tuple[int, ...]) -> tuple[Query, ...]:
    """The queries about a record of this shape: 24 about an image (channels, height, width), else 26."""
    if len(shape) != 3:
        return (Query(), *(Query(noise=scale) for scale in _SCALES for _ in range(_DRAWS)))
    views = [Query(mirrored, down, right) for mirrored in (False, True) for down, right in _SHIFTS]
    return (*views, *(Query(noise=scale) for scale in _IMAGE_SCALES for _ in range(_IMAGE_DRAWS)))


def spread_of(x: Tensor) -> Tensor:
    """Standard deviation of each feature over all records, of images that of each channel."""
    axes = (0, 2, 3) if x.ndim == 4 else (0,)
    return x.float().std(dim=axes, keepdim=True, correction=0)


def changed(x: Tensor, spread: Tensor, query: int, first: int) -> Tensor:
    """The records of one query; float32, of the shape of `x`.

    Args:
        x: (records, ...), consecutive records.
        spread: of all records, see `spread_of`.
        query: number of the query among `queries_of`.
        first: number of the first of these records among all.
    """
    how, view = queries_of(tuple(x.shape[1:]))[query], x.float()
    if how.mirrored:
        view = view.flip(-1)
    if how.down or how.right:
        height, width = view.shape[2:]
        reach = max(abs(how.down), abs(how.right))
        view = functional.pad(view, (reach, reach, reach, reach), mode="replicate")
        top, left = reach - how.down, reach - how.right
        view = view[:, :, top : top + height, left : left + width]
    if how.noise:
        view = view + how.noise * spread * _noise(x, query, first)
    return view


def label_robustness_of(
    predict: Callable[[AnyArray], AnyArray], features: AnyArray, labels: AnyArray
) -> npt.NDArray[np.float32]:
    """Share of the queries about each record for which a model predicts its label; float32 (records,).

    Args:
        predict: features (records, ...) -> logits or log-probabilities (records, classes).
        features: of all records; uint8 images stay uint8.
        labels: int64 (records,).
    """
    spread, shape = spread_of(torch.from_numpy(features)), tuple(features.shape[1:])
    n_queries = len(queries_of(shape))
    n_right = np.zeros(len(features), dtype=np.int64)
    for rows in blocks(len(features), max(1, _AT_ONCE // max(1, int(np.prod(shape))))):
        own = torch.from_numpy(np.array(features[rows]))
        for query in range(n_queries):
            asked = changed(own, spread, query, rows.start)
            if own.dtype == torch.uint8:
                asked = asked.round().clamp(0, 255).to(torch.uint8)
            n_right[rows] += predict(asked.numpy()).argmax(axis=1) == labels[rows]
    return (n_right / n_queries).astype(np.float32)


def table_label_robustness(
    predict: Callable[[Any], AnyArray], table: Frame, labels: AnyArray
) -> npt.NDArray[np.float32]:
    """As `label_robustness_of`, of a table as it is."""
    shape = len(table), len(table.names)
    n_right = np.zeros(len(table), dtype=np.int64)
    n_right += predict(table.rows()).argmax(axis=1) == labels
    shares = [share for share in _REPLACED_SHARES for _ in range(_DRAWS)]
    for query, share in enumerate(shares, start=1):
        rng = generator(0, query, Purpose.QUERIES)
        donors = rng.integers(shape[0], size=shape[0])
        changed_rows = table.mixed(donors, rng.random(shape, dtype=np.float32) < share)
        n_right += predict(changed_rows).argmax(axis=1) == labels
    return (n_right / (1 + len(shares))).astype(np.float32)


def _noise(x: Tensor, query: int, first: int) -> Tensor:
    """Standard normal noise that the number of a record and of the query decide."""
    rng = generator(0, query, Purpose.QUERIES)
    skip_float32(rng, first * x[0].numel())
    uniform = torch.from_numpy(rng.random(x.shape, dtype=np.float32)).double().clamp(2.0**-25, 1 - 2.0**-25)
    noise: Tensor = torch.special.ndtri(uniform).float()
    return noise.to(x.device)
