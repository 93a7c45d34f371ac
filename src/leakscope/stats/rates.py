"""How often each model says yes, about its members and about the others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.disk.scratch import over_blocks


class RatesByModel(NamedTuple):
    """Share of its members and of the others that each model says yes to; (models,) each.

    NaN where a model has no such records.
    """

    members: FloatArray
    nonmembers: FloatArray
    n_members: IntArray
    n_nonmembers: IntArray


def rates_by_model(says_yes: AnyArray, in_mask: BoolArray) -> RatesByModel:
    """Rates on both sides; says_yes (like right or wrong) and in_mask are bool (models, records)."""

    def counts(columns: slice) -> IntArray:
        yes, mask = says_yes[:, columns], in_mask[:, columns]
        return np.stack([(yes & mask).sum(axis=1), yes.sum(axis=1), mask.sum(axis=1)])

    counted = np.stack(over_blocks(in_mask.shape[1], counts, says_yes, in_mask))  # (blocks, 3, models)
    yes_members, yes, n_members = counted.sum(axis=0)
    n_others = in_mask.shape[1] - n_members
    with np.errstate(invalid="ignore"):
        return RatesByModel(yes_members / n_members, (yes - yes_members) / n_others, n_members, n_others)
