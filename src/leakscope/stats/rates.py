"""How often a yes-or-no property holds for the members and for the non-members of each model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.disk.scratch import over_blocks


class RatesByModel(NamedTuple):
    """Shares of members and of non-members with the property; (models,) each, NaN without such records."""

    members: FloatArray
    nonmembers: FloatArray
    n_members: IntArray
    n_nonmembers: IntArray


def rates_by_model(says_yes: AnyArray, in_mask: BoolArray) -> RatesByModel:
    """Shares by model.

    Args:
        says_yes: such as "is correct"; bool (models, records), or numbers whose means are the result, such as
            shares of tokens.
        in_mask: bool (models, records).
    """

    def counts(columns: slice) -> FloatArray:
        yes, mask = says_yes[:, columns], in_mask[:, columns]
        of_members = (yes * mask).sum(axis=1, dtype=np.float64)
        return np.stack([of_members, yes.sum(axis=1, dtype=np.float64), mask.sum(axis=1)])

    counted = np.stack(over_blocks(in_mask.shape[1], counts, says_yes, in_mask))  # (blocks, 3, models)
    yes_members, yes, counted_members = counted.sum(axis=0)
    n_members = counted_members.astype(np.int64)
    n_others = in_mask.shape[1] - n_members
    with np.errstate(invalid="ignore"):
        return RatesByModel(yes_members / n_members, (yes - yes_members) / n_others, n_members, n_others)
