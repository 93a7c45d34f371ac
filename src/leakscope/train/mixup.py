"""Mixup (Zhang et al. 2018): every batch is mixed with a permutation of itself, inputs and labels alike.

Shares and permutations are drawn on the host from each model's own seed, as the order of its records is, so
that they are the same on every device and in every block. A row that fills up a short batch stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from scipy.special import betaincinv
from torch import Tensor

from leakscope.randomness import Purpose, generator, skip_float32
from leakscope.train.plan import BatchPlan


class Mixes(NamedTuple):
    """How the batches of an epoch are mixed."""

    share: Tensor
    """float32 (steps, models): of a row itself; its partner has the rest."""
    partner: Tensor
    """int64 (steps, models, batch): the row of the batch that each row is mixed with."""


def drawn_mixes(alpha: float, plan: BatchPlan, first: int = 0) -> Iterator[Mixes]:
    """The mixes of each epoch from `first` on, on the host; shares are Beta(alpha, alpha)."""
    rngs = [generator(plan.seed, int(m), Purpose.MIXUP) for m in plan.models]
    shape = (plan.steps, 1 + plan.batch)
    for rng in rngs:
        skip_float32(rng, first * shape[0] * shape[1])
    is_filled = plan.row_weight == 0
    while True:
        drawn = np.stack([rng.random(shape, dtype=np.float32) for rng in rngs], axis=1)
        # The inverse of the distribution function takes one number per share, so that epochs can be skipped.
        share = betaincinv(alpha, alpha, drawn[..., 0].astype(np.float64)).astype(np.float32)
        position = np.arange(plan.batch, dtype=np.float32)
        partner = np.where(is_filled, 1 + position, drawn[..., 1:]).argsort(axis=-1, kind="stable")
        yield Mixes(torch.from_numpy(share), torch.from_numpy(partner))


def mixed(values: Tensor, share: Tensor, partner: Tensor) -> Tensor:
    """Rows mixed with their partners.

    Values are (models, batch, ...), shares (models,) and partners (models, batch).
    """
    lane = torch.arange(len(values), device=values.device)[:, None]
    others = values[lane, partner]
    own = share.view(-1, *(1 for _ in values.shape[1:]))
    return own * values + (1 - own) * others
