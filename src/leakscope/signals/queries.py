"""Signals that query the model again, about changed versions of a record.

`label_robustness`: a defence that hides confidences leaves predicted labels, and labels alone reveal how
firmly a model holds on to a record: how many changed versions of it still get its label (Choquette-Choo et
al. 2021). Images are mirrored, moved by up to two pixels and blurred by a little noise; of any other record,
every feature gets Gaussian noise at several scales, in units of its standard deviation over all records,
which is a proxy of the distance to the decision boundary. In a table that an estimator gets as it is, values
of any type are replaced at random by those of another record in the same column, in several shares.

`query_log_odds`: training that mirrors and crops images teaches a model more than one version of a record, so
the log-odds of several versions reveal more than those of one (Carlini et al. 2022). Images are mirrored and
moved by a pixel in eight directions; any other record gets a little noise. The record itself comes first.

The changes of a record depend on its number and on the number of the query alone, so every model is asked the
same questions, in whatever blocks and on whatever machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from leakscope.array_types import AnyArray
from leakscope.disk.scratch import blocks
from leakscope.frames.frame import Frame
from leakscope.randomness import Purpose, generator, skip_float32
from leakscope.signals.asked import Query, label_queries
from leakscope.signals.functions import log_odds

_AT_ONCE = 8_000_000  # numbers of changed records in memory
_SCALES, _DRAWS = (0.1, 0.25, 0.5, 1.0, 2.0), 5
_REPLACED_SHARES = (0.05, 0.1, 0.2, 0.4, 0.6)


def noise_unit(x: Tensor, queries: tuple[Query, ...]) -> Tensor:
    """What noise is relative to: `spread_of` the records; 0 where no query adds noise, which saves a pass."""
    return spread_of(x) if any(how.noise for how in queries) else torch.zeros(())


def spread_of(x: Tensor) -> Tensor:
    """Standard deviation of each feature over all records, of images that of each channel."""
    axes = (0, 2, 3) if x.ndim == 4 else (0,)
    return x.float().std(dim=axes, keepdim=True, correction=0)


def changed(x: Tensor, spread: Tensor, queries: tuple[Query, ...], first: int) -> Iterator[Tensor]:
    """The records of each query; float32, of the shape of `x`.

    Args:
        x: (records, ...), consecutive records.
        spread: of all records, see `noise_unit`.
        queries: how records are changed.
        first: number of the first of these records among all.
    """
    for number, how in enumerate(queries):
        view = x.float()
        if how.mirrored:
            view = view.flip(-1)
        if how.down or how.right:
            view = _moved(view, how.down, how.right)
        if how.noise:
            view = view + how.noise * spread * _noise(x, number, first)
        yield view


def label_robustness_of(
    predict: Callable[[AnyArray], AnyArray], features: AnyArray, labels: AnyArray
) -> npt.NDArray[np.float32]:
    """Share of the queries about each record for which a model predicts its label; float32 (records,).

    Args:
        predict: features (records, ...) -> logits or log-probabilities (records, classes).
        features: of all records; uint8 images stay uint8.
        labels: int64 (records,).
    """
    queries = label_queries(tuple(features.shape[1:]))
    n_right = np.zeros(len(features), dtype=np.int64)
    for rows, _, asked in _asked(features, queries):
        n_right[rows] += predict(asked).argmax(axis=1) == labels[rows]
    return (n_right / len(queries)).astype(np.float32)


def query_log_odds_of(
    predict: Callable[[AnyArray, slice, int], AnyArray],
    features: AnyArray,
    labels: AnyArray,
    queries: tuple[Query, ...],
) -> npt.NDArray[np.float32]:
    """Log-odds of the label for each query; float32 (records, queries).

    Args:
        predict: (changed features, which records they are of, number of the query) -> what the query returns,
            (records, classes) as logits or log-probabilities.
        features: of all records; uint8 images stay uint8.
        labels: int64 (records,).
        queries: how records are changed.
    """
    values = np.empty((len(features), len(queries)), dtype=np.float32)
    for rows, number, asked in _asked(features, queries):
        returned = torch.from_numpy(np.array(predict(asked, rows, number), dtype=np.float32))
        values[rows, number] = log_odds(returned, torch.from_numpy(np.array(labels[rows]))).numpy()
    return values


def _asked(features: AnyArray, queries: tuple[Query, ...]) -> Iterator[tuple[slice, int, AnyArray]]:
    """(Records, number of the query, changed features), in blocks of records."""
    spread, size = noise_unit(torch.from_numpy(features), queries), int(np.prod(features.shape[1:]))
    for rows in blocks(len(features), max(1, _AT_ONCE // max(1, size))):
        own = torch.from_numpy(np.array(features[rows]))
        for number, asked in enumerate(changed(own, spread, queries, rows.start)):
            if own.dtype == torch.uint8:
                asked = asked.round().clamp(0, 255).to(torch.uint8)
            yield rows, number, asked.numpy()


def _moved(images: Tensor, down: int, right: int) -> Tensor:
    """Images moved by so many pixels; their border is repeated."""
    height, width = images.shape[2:]
    reach = max(abs(down), abs(right))
    wider = functional.pad(images, (reach, reach, reach, reach), mode="replicate")
    top, left = reach - down, reach - right
    return wider[:, :, top : top + height, left : left + width]


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
