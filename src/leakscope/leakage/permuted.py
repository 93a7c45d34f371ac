"""Designs that are as likely as the given one where nothing leaks: its rows, in another order.

Complementary models are trained on all records between them, so what one lacks the other has, and their
outputs deviate in opposite directions. One of them is IN wherever the other is OUT, so these deviations add
up in every gap. Orders that separate complements do not know that: the floor is too low, and models that leak
nothing seem to leak (`tests/leakage/test_bits.py`). Therefore complements move together and may change
places, which is what a design of pairs leaves to chance.
"""

from __future__ import annotations

import numpy as np

from leakscope.array_types import BoolArray, IntArray
from leakscope.attacks.blocks import complements
from leakscope.types import Design

FEWEST_PAIRS = 4
"""With fewer, too many orders of pairs are the given design again."""


def partners(in_mask: BoolArray) -> IntArray:
    """For each model the one that moves with it, -1 without; int64 (models,).

    Args:
        in_mask: bool (models, records).
    """
    opposite = complements(Design(in_mask))
    models = np.arange(len(opposite))
    is_mutual = (opposite >= 0) & (opposite[opposite] == models)  # equal rows share one complement
    if is_mutual.sum() < 2 * FEWEST_PAIRS:
        return np.full(len(models), -1)
    return np.where(is_mutual, opposite, -1)


def random_order(partner: IntArray, rng: np.random.Generator) -> IntArray:
    """A random order of the models that leaves partners together; int64 (models,)."""
    models = np.arange(len(partner))
    order, alone, first = models.copy(), np.flatnonzero(partner < 0), np.flatnonzero(partner > models)
    order[alone] = rng.permutation(alone)
    drawn = rng.permutation(first)
    drawn = np.where(rng.random(len(drawn)) < 0.5, drawn, partner[drawn])
    order[first], order[partner[first]] = drawn, partner[drawn]
    return order
