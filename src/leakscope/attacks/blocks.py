"""The signals and the design of a bank, read in blocks of records.

A bank's arrays may be memory maps larger than memory. An attack that scores block by block holds a few
arrays of (models, records of one block) at a time, whatever the size of the bank.

In a balanced design every record is in the same number of training sets, so the number of *other* models
trained with a record reveals whether the target was. A model that leaks nothing would then look as if it
leaked less than nothing: a member has one IN reference fewer, so its IN mean is noisier. A target is
therefore left out together with a partner from the other side, drawn at random for each record; the
references that remain are as many for a member as for a non-member. Where models come in complementary pairs,
the partner is the complement. Models that diverged were drawn with the others, so partners are drawn from
them as well; a partner that diverged is left out already. All records of a unit have the same partner: scores
of a unit are combined, and with a partner for each record they would be a mean over draws, which has another
distribution for members.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.disk.scratch import gather_records, over_blocks
from leakscope.errors import InputError
from leakscope.signals.registry import QUERY_LOG_ODDS
from leakscope.types import Design, Signals

Result = TypeVar("Result")

_SAMPLED_RECORDS = 4_000
_FEWEST_FOR_PAIRS = 4  # of fewer models, leaving out two leaves too little to compare with
# Variance of the number of IN models over records, relative to independent memberships: 0 in a balanced
# design, about a quarter if a quarter of its models diverged.
_BALANCED = 0.25
_LAST_LOT = np.uint64(2**64 - 1)


@dataclass(frozen=True, eq=False)
class Block:
    """Some of the records, as an attack sees them.

    Attributes:
        records: which ones.
        arrays: signal -> (models, checkpoints, records[, classes or queries]), as stored.
        in_mask: bool (models, records), true where the record was in the model's training set. A target's
            own row is unknown to an attacker and must not affect the target's scores.
        labels: (models, records), the true labels.
        targets: int64 (targets,), the models under attack.
        statistics: what the attack's own `statistics` returned; None if it has none.
        partners: int64 (targets, records), the model that is left out together with the target, -1 where
            there is none; None where targets are left out alone.
    """

    records: slice
    arrays: dict[str, AnyArray]
    in_mask: BoolArray
    labels: AnyArray
    targets: IntArray
    statistics: Any = None
    partners: IntArray | None = None

    def signal(self, name: str) -> FloatArray:
        """A signal of every model at the last checkpoint; float64 (models, records[, classes])."""
        return self._stored(name)[:, -1].astype(np.float64)

    def of_targets(self, name: str) -> FloatArray:
        """A signal of the targets at the last checkpoint; float64 (targets, records[, classes])."""
        return np.asarray(self._stored(name)[self.targets, -1], dtype=np.float64)

    def _stored(self, name: str) -> AnyArray:
        if name not in self.arrays:
            needed = ", ".join(self.arrays) or "no signal"
            raise InputError(
                f"the attack reads the signal {name!r}, but its `needs` has {needed}; add it there"
            )
        return self.arrays[name]

    def of_query(self, query: int) -> Block:
        """The block of a bank in which this was the only query about each record."""
        return replace(self, arrays={"log_odds": self.arrays[QUERY_LOG_ODDS][..., query]})

    def is_reference(self, row: int) -> BoolArray:
        """The models that may serve as references of target number `row`; bool (models, records)."""
        allowed = np.ones(self.in_mask.shape, dtype=np.bool_)
        allowed[self.targets[row]] = False
        if self.partners is not None:
            (paired,) = np.nonzero(self.partners[row] >= 0)
            allowed[self.partners[row, paired], paired] = False
        return allowed


@dataclass(frozen=True, eq=False)
class Blocks:
    """All records, block by block.

    Attributes:
        signals: the bank's signals.
        design: who was in which training set.
        targets: int64 (targets,), the models under attack.
        needs: the signals that are read.
        statistics: handed to every block.
        allows_pairs: whether a target may be left out together with a partner.
    """

    signals: Signals
    design: Design
    targets: IntArray
    needs: tuple[str, ...]
    statistics: Any = None
    allows_pairs: bool = True

    def map(self, work: Callable[[Block], Result], *written: AnyArray) -> list[Result]:
        """The result of `work` for each block, in order; several threads work at once.

        `written` are further arrays that the work writes to.
        """
        read = [self.signals.arrays[name] for name in self.needs]
        arrays = (*read, self.design.in_mask, *written)
        return over_blocks(self.design.n_records, lambda records: work(self._block(records)), *arrays)

    @cached_property
    def leaves_pairs_out(self) -> bool:
        """Whether targets are left out together with a partner; false: alone."""
        allowed = self.allows_pairs and self.design.n_models >= _FEWEST_FOR_PAIRS
        return allowed and design_reveals_targets(self.design, self.targets)

    def whole(self) -> Block:
        """All records at once, for attacks that hold the signals in memory."""
        return self._block(slice(0, self.design.n_records))

    def unit_numbers(self, records: slice | IntArray) -> IntArray:
        """The unit of each of these records; its own number where every record is a unit."""
        units = self.design.units
        return np.arange(self.design.n_records)[records] if units is None else units[records]

    def _block(self, records: slice) -> Block:
        labels = np.broadcast_to(self.signals.labels, self.design.in_mask.shape)
        in_mask = self.design.in_mask[:, records]
        return Block(
            records,
            {name: self.signals.arrays[name][:, :, records] for name in self.needs},
            in_mask,
            labels[:, records],
            self.targets,
            self.statistics,
            self._partners(in_mask, records) if self.leaves_pairs_out else None,
        )

    @cached_property
    def complements(self) -> IntArray:
        """For each model the one trained on exactly the other records, as `complements` returns it."""
        return complements(self.design)

    def _partners(self, in_mask: BoolArray, records: slice) -> IntArray:
        """A partner that diverged is left out already."""
        complements, n_models = self.complements[self.targets][:, None], len(in_mask)
        present = np.where(complements < n_models, complements, -1)
        if (complements >= 0).all():
            return np.broadcast_to(present, (len(self.targets), in_mask.shape[1]))
        numbers, diverged = self.design.numbers, self.design.diverged
        if diverged is not None:
            in_mask = np.concatenate([in_mask, diverged.in_mask[:, records]])
            numbers = np.concatenate([numbers, diverged.numbers])
        drawn = _random_partners(in_mask, self.targets, numbers, self.unit_numbers(records))
        return np.where(complements >= 0, present, np.where(drawn < n_models, drawn, -1))


def complements(design: Design) -> IntArray:
    """For each model the one trained on exactly the other records, -1 without; int64 (models,).

    Models that diverged come after the others: the first of them has the number of models, and so on.
    """
    sample = np.concatenate([_sample(design), *_diverged_sample(design)])
    rows, opposite = (np.packbits(side, axis=1) for side in (sample, ~sample))
    # The first of several models with the same records, so the last one is entered first.
    model_of = {rows[model].tobytes(): model for model in reversed(range(len(rows)))}
    return np.array([model_of.get(row.tobytes(), -1) for row in opposite[: design.n_models]], dtype=np.int64)


def design_reveals_targets(design: Design, targets: IntArray) -> bool:
    """Whether the number of other models trained with a record predicts the membership of the target.

    That is so in a balanced design, where the number of all models trained with a record hardly varies. It is
    not for a given target beside references of a balanced design: its own membership was not part of the
    design, so the number of other models has no slope on it.
    """
    in_mask = _sample(design)
    members = in_mask[targets].astype(np.float64)
    members -= members.mean(axis=1, keepdims=True)
    everyone = np.concatenate([in_mask, *_diverged_sample(design)])
    n_in, share = everyone.sum(axis=0), everyone.mean(axis=1)
    independent = float((share * (1 - share)).sum())
    if independent == 0 or float(n_in.var()) > _BALANCED * independent:
        return False
    spread = (members**2).sum(axis=1)
    slopes = (members * (n_in - in_mask[targets])).sum(axis=1)[spread > 0] / spread[spread > 0]
    return bool(len(slopes)) and float(slopes.mean()) < -0.5


def _sample(design: Design) -> BoolArray:
    """`in_mask` of at most 4,000 units drawn at random; bool (models, units)."""
    design = design.of_units
    if design.n_records <= _SAMPLED_RECORDS:
        return design.in_mask
    records = np.random.default_rng(0).choice(design.n_records, _SAMPLED_RECORDS, replace=False)
    return gather_records(design.in_mask, np.sort(records), 1)


def _diverged_sample(design: Design) -> list[BoolArray]:
    """The memberships of models that diverged, of the same units; empty where all converged."""
    return [] if design.diverged is None else [_sample(design.diverged)]


def _random_partners(in_mask: BoolArray, targets: IntArray, numbers: IntArray, units: IntArray) -> IntArray:
    """For each target and record a random model of the other side; -1 where that side is empty.

    Per unit, one IN and one OUT model are drawn, for all targets. Scores are not averaged over several
    draws: such an average has another distribution for members than for non-members, a single draw has not.

    Args:
        in_mask: bool (models, records of the block).
        targets: int64 (targets,).
        numbers: int64 (models,), the models' numbers: a draw changes only where the drawn model is missing.
        units: int64 (records of the block,), the records' units.
    """
    lots = _lots(numbers, units)
    one_in, one_out = (
        np.where(side.any(axis=0), np.where(side, lots, _LAST_LOT).argmin(axis=0), -1)
        for side in (in_mask, ~in_mask)
    )
    return np.where(in_mask[targets], one_out, one_in)


def _lots(numbers: IntArray, units: IntArray) -> npt.NDArray[np.uint64]:
    """Random numbers from the models' and the units' numbers alone (SplitMix64); (models, records)."""
    with np.errstate(over="ignore"):
        of_models = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0xD1B54A32D192ED03)
        of_units = (units.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        bits = of_models[:, None] ^ of_units
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        lots: npt.NDArray[np.uint64] = np.minimum(bits ^ (bits >> np.uint64(31)), _LAST_LOT - np.uint64(1))
    return lots


def equal_counts(in_mask: BoolArray, n_fewer: int, numbers: IntArray, units: IntArray) -> BoolArray:
    """The models to learn from, as many of each side for every record; bool (models, records).

    In a balanced design the counts of the models outside a fold reveal who is in the fold's training sets.
    The first to go is the partner that a target is scored without: if it were learned from, the references of
    one side would all be known to the fit, and those of the other would not.

    Args:
        in_mask: bool (models, records) of the models outside the fold.
        n_fewer: number of models in the fold.
        numbers: int64 (models,), the models' numbers.
        units: int64 (records,), the records' units.
    """
    n_in, n_models = in_mask.sum(axis=0), len(in_mask)
    lots = _lots(numbers, units)
    used = np.zeros_like(in_mask)
    for side, counts in ((in_mask, n_in), (~in_mask, n_models - n_in)):
        n_used = max(int(counts.max()) - n_fewer, 1)
        own_lots = np.where(side, lots, 0)
        lowest_used = np.partition(own_lots, n_models - n_used, axis=0)[n_models - n_used]
        used |= side & (own_lots >= lowest_used)  # the partner, with the lowest lot, goes first
    return used
