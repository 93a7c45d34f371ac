"""Flips and crops: one gather makes a whole batch of views, on whichever device the records are.

What a model draws is decided on the host from its own seed, as the order of its records is, so that
the same views are made on every device and in every block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from leakscope.array_types import BoolArray, IntArray
from leakscope.randomness import Purpose, generator, skip_float32
from leakscope.recipe import Recipe


class Views(NamedTuple):
    """How each row of the batches is to be looked at; int64 tensors of equal shapes (..., batch)."""

    mirrored: Tensor  # 0 or 1
    top: Tensor  # first row of the padded image
    left: Tensor  # first column


def is_augmented(recipe: Recipe) -> bool:
    """True when the recipe changes images at random."""
    return recipe.flips or recipe.crop > 0


def drawn_views(
    recipe: Recipe, models: IntArray, seed: int, shape: tuple[int, int, int], first: int = 0
) -> Iterator[Views]:
    """The views of each epoch from `first` on, on the host; `shape` is (steps, models, batch)."""
    rngs = [generator(seed, int(m), Purpose.AUGMENTATION) for m in models]
    steps, _, batch = shape
    for rng in rngs:
        skip_float32(rng, first * 3 * steps * batch)
    while True:
        drawn = np.stack([rng.random((3, steps, batch), dtype=np.float32) for rng in rngs], axis=2)
        yield _views(recipe, drawn)  # (steps, models, batch) each


def views_of(recipe: Recipe, models: IntArray, seed: int, is_row: BoolArray, epoch: int) -> Views:
    """The views of an epoch of DP-SGD, drawn for the rows that are someone; (steps, models, width, views).

    `is_row` is bool (steps, models, width). The number of rows differs from epoch to epoch, so each epoch has
    generators of its own.
    """
    assert recipe.privacy is not None, "other trainings have one view per row"
    drawn = np.zeros((3, *is_row.shape, recipe.privacy.views), dtype=np.float32)
    for at, model in enumerate(models.tolist()):
        rng, rows = generator(seed, model, Purpose.AUGMENTATION, epoch + 1), is_row[:, at]
        numbers = rng.random((int(rows.sum()), 3, recipe.privacy.views), dtype=np.float32)
        drawn[:, :, at][:, rows] = numbers.transpose(1, 0, 2)
    return _views(recipe, drawn)


def _views(recipe: Recipe, drawn: npt.NDArray[np.float32]) -> Views:
    mirrored = (drawn[0] < 0.5) & recipe.flips
    top, left = (drawn[1:] * (2 * recipe.crop + 1)).astype(np.int64)
    return Views(*map(torch.from_numpy, (mirrored.astype(np.int64), top, left)))


def padded(x: Tensor, crop: int) -> Tensor:
    """Images with a margin of `crop` zeros (the mean, of standardised pixels) on every side."""
    return functional.pad(x, (crop, crop, crop, crop)) if crop else x


def views_at(images: Tensor, index: Tensor, views: Views, crop: int) -> Tensor:
    """As `gathered`, with several views of each record: `views` has one axis more, which comes last."""
    return gathered(images, index[..., None].expand_as(views.top), views, crop)


def gathered(images: Tensor, index: Tensor, views: Views, crop: int) -> Tensor:
    """The views of the records at `index` (...), cut out of images padded by `crop`.

    Images are float (records, channels, height + 2 crop, width + 2 crop); returns float (..., channels,
    height, width).
    """
    n_channels, height, width = images.shape[1], images.shape[2] - 2 * crop, images.shape[3] - 2 * crop
    across = torch.arange(width, device=images.device)
    mirrored = views.mirrored[..., None]
    columns = torch.where(mirrored > 0, width - 1 - across, across) + views.left[..., None]
    rows = torch.arange(height, device=images.device) + views.top[..., None]
    channels = torch.arange(n_channels, device=images.device)[:, None, None]
    cropped: Tensor = images[
        index[..., None, None, None], channels, rows[..., None, :, None], columns[..., None, None, :]
    ]
    return cropped
