"""The most exposed records of each target, chosen on other models than the target.

Ranked by the very scores that are then measured, the top 1% of records looks exposed even where nothing
leaks. So the records that are measured on a target are those whose outputs, over the *other* models, differ
most between models trained with the record and models trained without it. Neither the target's outputs nor
its membership has any part in the choice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from leakscope.array_types import FloatArray, IntArray
from leakscope.attacks.base import Attack, Combination, References, have_in_references
from leakscope.attacks.blocks import Block, Blocks
from leakscope.attacks.label_fit import CLASSIFIER, REGRESSION, LabelFit
from leakscope.attacks.moments import Pooled, both_sides, pooled
from leakscope.disk.scratch import Scratch, evict_pages
from leakscope.evaluate.hygiene.models import LEAST_MODELS
from leakscope.leakage.bits import MOST_EXPOSED_SHARE
from leakscope.types import Design, Signals

_PRIOR_MODELS = 8
"""A record's own variance counts as much as the variance of all records with this many models."""
_SMALLEST_VARIANCE = 1e-12


class MostExposed(NamedTuple):
    """The most exposed records of each target.

    Attributes:
        records: int64 (targets, chosen), ascending; None where they cannot be chosen.
        reason: why they cannot be chosen; None where they can.
    """

    records: IntArray | None
    reason: str | None = None


def most_exposed_records(
    signals: Signals, design: Design, targets: IntArray, scratch: Scratch
) -> MostExposed:
    """The 1% of the records (units), at least one, whose membership shows most in other models' outputs."""
    separation = _Separation()
    missing = [name for name in separation.reads_from(signals) if name not in signals.arrays]
    if missing:
        return MostExposed(None, f"the bank does not store {missing[0]}, by which they would be chosen")
    if design.n_models < LEAST_MODELS:
        return MostExposed(None, f"choosing them takes at least {LEAST_MODELS} models, not {design.n_models}")
    if not have_in_references(
        design, targets
    ):  # references trained apart from the target, as for offline LiRA
        return MostExposed(
            None,
            "choosing them takes reference models that were trained with some of the records, and none was",
        )
    gaps = separation(signals, design, targets, scratch).values
    n_chosen = max(1, round(MOST_EXPOSED_SHARE * gaps.shape[1]))
    chosen = np.empty((len(targets), n_chosen), dtype=np.int64)
    for own, row in zip(chosen, gaps, strict=True):  # one target's numbers in memory at a time
        own[:] = np.sort(np.argpartition(np.array(row), -n_chosen)[-n_chosen:])
        evict_pages(gaps)
    return MostExposed(chosen)


def most_exposed_of_population(
    signals: Signals, design: Design, among: IntArray, n_chosen: int, scratch: Scratch
) -> IntArray:
    """The `n_chosen` records of `among` that membership shows most of in a population; int64, ascending.

    All models choose, so figures on these records need other models than these.
    """
    gaps = _Separation()(signals, design, np.arange(design.n_models), scratch).values
    total = np.zeros(len(among))
    for row in gaps:
        total += np.array(row)[among]
        evict_pages(gaps)
    return np.asarray(np.sort(among[np.argpartition(total, -n_chosen)[-n_chosen:]]))


class _Known(NamedTuple):
    """The values that are compared, and their moments over all records."""

    values_of: Callable[[Block], FloatArray]
    pooled: Pooled


class _Separation(Attack):
    """How far outputs of the other models trained with a record exceed those of models trained without it.

    It is no attack, for it ignores the target's output; it needs the same blocks, partners and scratch files.
    The gap is in standard errors. Each record's variance is shrunk to that of all records.
    """

    name = "separation"
    needs = (CLASSIFIER,)
    needs_in_regression = (REGRESSION,)

    @property
    def references(self) -> References:
        """Models trained with the record, and models trained without it."""
        return "both"

    @property
    def combines_by(self) -> Combination:
        """A unit is exposed by all of its records together."""
        return "sum"

    def statistics(self, blocks: Blocks) -> _Known:
        """Moments over all records."""
        values_of = LabelFit.to(blocks).of
        return _Known(values_of, pooled(blocks, values_of))

    def score(self, block: Block) -> FloatArray:
        """The gap; minus infinity where one side has no model."""
        known: _Known = block.statistics
        seen, unseen = both_sides(known.values_of(block), block, known.pooled.gap)
        scatter = seen.n * np.nan_to_num(seen.variance) + unseen.n * np.nan_to_num(unseen.variance)
        usual = np.nan_to_num(known.pooled.seen.variance + known.pooled.unseen.variance) / 2
        variance = (scatter + _PRIOR_MODELS * usual) / (seen.n + unseen.n + _PRIOR_MODELS)
        n_in, n_out = np.maximum(seen.n, 1), np.maximum(unseen.n, 1)
        error = np.sqrt(np.maximum(variance, _SMALLEST_VARIANCE) * (1 / n_in + 1 / n_out))
        gap: FloatArray = np.where((seen.n > 0) & (unseen.n > 0), (seen.mean - unseen.mean) / error, -np.inf)
        return gap
