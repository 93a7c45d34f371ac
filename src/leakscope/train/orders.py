"""The records of every epoch, drawn by the host; and their order, which a CUDA device ranks by itself.

For small networks, sorting on the host takes longer than training on the device. The numbers that are sorted
are drawn on the host all the same, from each model's own generator: the order is the same on every device.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from leakscope.array_types import AnyArray
from leakscope.recipe import Recipe
from leakscope.train.augment import Views, drawn_views, is_augmented, views_of
from leakscope.train.plan import DRAWN_AT_ONCE, BatchPlan
from leakscope.train.poisson import NOBODY, Plan

_POSITION_BITS = 32  # the lower half of a key


def epochs_of(
    plan: Plan, recipe: Recipe, first: int, until: int, as_draws: bool = False
) -> Iterator[tuple[AnyArray, Views | None]]:
    """The records of the batches of each epoch from `first` to `until`, and how to look at them.

    With `as_draws`, the numbers of `BatchPlan.draws` in place of the records.
    """
    orders = _orders(plan, first, until, as_draws)
    if not is_augmented(recipe):
        yield from ((order, None) for order in orders)
    elif isinstance(plan, BatchPlan):
        shape = (plan.steps, len(plan.models), plan.batch)
        yield from zip(orders, drawn_views(recipe, plan.models, plan.seed, shape, first), strict=False)
    else:
        for epoch, order in enumerate(orders, first):
            yield order, views_of(recipe, plan.models, plan.seed, order != NOBODY, epoch)


def _orders(plan: Plan, first: int, until: int, as_draws: bool) -> Iterator[AnyArray]:
    if as_draws and isinstance(plan, BatchPlan):
        return plan.draws(until, first)
    return plan.epochs(until, first)


def can_rank(plan: Plan) -> bool:
    """Whether a device can order the records: what sorting needs must be small beside the records."""
    if not isinstance(plan, BatchPlan) or not plan.weighs_alike:
        return False
    return len(plan.models) * plan.steps * plan.batch <= DRAWN_AT_ONCE


class Ranking:
    """Makes orders of records on a device from the numbers that the models drew."""

    def __init__(self, plan: BatchPlan, device: torch.device) -> None:
        n_members = np.array([len(members) for members in plan.members])
        table = np.zeros((len(n_members), n_members.max()), dtype=np.int64)
        for own, members in zip(table, plan.members, strict=True):
            own[: len(members)] = members
        position = np.arange(plan.steps * plan.batch)
        self._members = torch.from_numpy(table).to(device)
        self._places = torch.from_numpy(position % n_members[:, None]).to(device)
        self._column = torch.arange(table.shape[1], device=device)
        self._shape = len(n_members), plan.steps, plan.batch
        self.drawn = torch.zeros(table.shape, device=device)
        """Where the numbers of an epoch go: float32 (models, largest number of members)."""

    def order(self) -> Tensor:
        """The order of the records by `drawn`, as `BatchPlan.epochs` gives it; (steps, models, batch)."""
        keys = (self.drawn.view(torch.int32).long() << _POSITION_BITS) | self._column
        ranked = keys.sort(dim=1).values & (2**_POSITION_BITS - 1)
        records = self._members.gather(1, ranked.gather(1, self._places))
        return records.view(self._shape).transpose(0, 1)
