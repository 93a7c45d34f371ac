"""Designs: which records each model is trained on, at random.

In every design a record has IN models and OUT models, so each model can be the target in turn, with the
others as its references.

Where one person has several records, the design draws persons: a *unit* is a set of records that are members
of a model together, or not at all. Each model is then trained on an equal number of units, and the number of
its records varies with the sizes of the units it drew.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.disk.scratch import IN_MEMORY, Scratch, blocks, evict_pages, gather_records
from leakscope.errors import InputError
from leakscope.randomness import Purpose, generator
from leakscope.types import Design

_RECORDS_AT_ONCE = 1 << 18
DESIGNS = ("balanced", "bernoulli", "pairs")


def make_design(
    kind: str,
    n_models: int,
    n_records: int,
    seed: int,
    member_share: float = 0.5,
    units: IntArray | None = None,
) -> Design:
    """A design of the named kind.

    Args:
        kind: "balanced" (each record in equally many models, model sizes equal within one),
            "bernoulli" (each membership is a coin flip) or "pairs" (models 2k and 2k+1 are complements).
        n_models: number of random rows; even for "balanced" and "pairs".
        n_records: number of columns.
        seed: run seed.
        member_share: share of the records that each model is trained on; "pairs" are always halves. Every
            record has IN and OUT models, so few models allow no extreme share.
        units: int64 (records,), the unit of each record (`number_units`); None: every record is a unit.
    """
    if units is not None:
        of_units = make_design(kind, n_models, int(units.max()) + 1, seed, member_share)
        return Design(of_units.in_mask[:, units], units=units)
    if kind not in DESIGNS:
        raise InputError(f"design={kind!r} is unknown; choose one of {', '.join(DESIGNS)}")
    if n_records < 2:
        raise InputError(f"records={n_records}: a design needs at least 2 records")
    if n_models < 2:
        raise InputError(f"models={n_models}: a {kind} design needs at least 2 models")
    if kind != "bernoulli" and n_models % 2:
        raise InputError(
            f"models={n_models}: a {kind} design needs an even number of models (try {n_models + 1})"
        )
    rng = generator(seed, 0, Purpose.DESIGN)
    if kind == "pairs":
        return Design(pairs(n_models, n_records, rng))
    draw = balanced if kind == "balanced" else bernoulli
    return Design(draw(n_models, n_records, rng, _possible_share(member_share, n_models)))


def single_part(n_records: int, seed: int, member_share: float, units: IntArray | None = None) -> Design:
    """One random part of the records, of this share; for the only reference of a given model.

    Args:
        n_records: number of columns.
        seed: run seed.
        member_share: share of the records, or of the units.
        units: int64 (records,), the unit of each record; None: every record is a unit.
    """
    if units is not None:
        of_units = single_part(int(units.max()) + 1, seed, member_share)
        return Design(of_units.in_mask[:, units], units=units)
    n_members = min(max(round(member_share * n_records), 1), n_records - 1)
    order = generator(seed, 0, Purpose.DESIGN).permutation(n_records)
    return Design((order < n_members)[None])


def number_units(names: npt.NDArray[np.str_]) -> IntArray:
    """The unit of each record, numbered in the order of their first records; int64 (records,)."""
    _, first, codes = np.unique(names, return_index=True, return_inverse=True)
    number = np.empty(len(first), dtype=np.int64)
    number[np.argsort(first)] = np.arange(len(first))
    return number[codes]


def unit_sums(values: AnyArray, units: IntArray) -> FloatArray:
    """Sums over the records of each unit; `values` are (records,), the result is float64 (units,)."""
    return np.asarray(np.bincount(units, weights=values), dtype=np.float64)


def unit_means(values: AnyArray, units: IntArray, scratch: Scratch = IN_MEMORY) -> AnyArray:
    """Means over the records of each unit; (models, records, ...) in, (models, units, ...) out, float32."""
    order, sizes = np.argsort(units, kind="stable"), unit_sizes(units)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    means = scratch.empty((len(values), len(sizes), *values.shape[2:]), np.float32)
    sizes = sizes.reshape(-1, *[1] * (values.ndim - 2))
    for own, row in zip(means, values, strict=True):
        own[...] = np.add.reduceat(np.asarray(row[order], dtype=np.float64), starts, axis=0) / sizes
        evict_pages(values, means)
    return means


def units_among(units: IntArray | None, records: IntArray) -> IntArray | None:
    """The units of some records, which are all records of their units, numbered anew."""
    return None if units is None else np.unique(units[records], return_inverse=True)[1]


def on_records(design: Design, records: IntArray, scratch: Scratch = IN_MEMORY) -> Design:
    """The design on some records, which are all records of their units, on `scratch`."""
    return Design(
        gather_records(design.in_mask, records, 1, scratch),
        None,
        design.models,
        units_among(design.units, records),
        None if design.diverged is None else on_records(design.diverged, records, scratch),
    )


def unit_sizes(units: IntArray) -> IntArray:
    """The number of records of each unit; int64 (units,)."""
    return np.bincount(units)


def _possible_share(member_share: float, n_models: int) -> float:
    """The share, or the nearest that leaves every record two IN and two OUT models (one, of fewer than 8)."""
    least = max(1, min(2, n_models // 4)) / n_models
    return min(max(member_share, least), 1 - least)


def balanced(n_models: int, n_records: int, rng: np.random.Generator, share: float = 0.5) -> BoolArray:
    """Each record in the same share of the models, rounded; model sizes equal within one.

    Draws random models for each record, then moves single memberships from models
    that are too large to models that are too small, which leaves every record's count unchanged.
    """
    n_in = math.ceil(share * n_models - 0.5)
    in_mask = np.empty((n_models, n_records), dtype=np.bool_)
    for some in blocks(n_records, _RECORDS_AT_ONCE):
        ranks = rng.random((some.stop - some.start, n_models)).argsort(axis=1)
        in_mask[:, some] = (ranks < n_in).T
    wanted = _equal_sizes(int(in_mask.sum()), n_models, rng)
    surplus = in_mask.sum(axis=1) - wanted
    while surplus.any():
        giver, taker = int(surplus.argmax()), int(surplus.argmin())
        movable = np.flatnonzero(in_mask[giver] & ~in_mask[taker])
        n_moved = min(surplus[giver], -surplus[taker], len(movable))
        moved = rng.choice(movable, size=n_moved, replace=False)
        in_mask[giver, moved], in_mask[taker, moved] = False, True
        surplus[giver] -= n_moved
        surplus[taker] += n_moved
    return in_mask


def bernoulli(n_models: int, n_records: int, rng: np.random.Generator, share: float) -> BoolArray:
    """Each membership is an independent coin flip with probability `share`; no model is empty or full."""
    in_mask = np.stack([rng.random(n_records) < share for _ in range(n_models)])
    sizes = in_mask.sum(axis=1)
    in_mask[sizes == 0, 0] = True
    in_mask[sizes == n_records, 0] = False
    return in_mask


def pairs(n_models: int, n_records: int, rng: np.random.Generator) -> BoolArray:
    """Models 2k and 2k+1 split the records between them: every record is in exactly one of the two."""
    half = n_records // 2
    in_mask = np.empty((n_models, n_records), dtype=np.bool_)
    for model in range(0, n_models, 2):
        n_first = half + model // 2 % 2 * (n_records % 2)
        in_mask[model] = rng.random(n_records).argsort().argsort() < n_first
        in_mask[model + 1] = ~in_mask[model]
    return in_mask


def _equal_sizes(total: int, n_models: int, rng: np.random.Generator) -> np.ndarray:
    """Model sizes that add up to `total` and differ by at most one, the larger ones at random."""
    sizes = np.full(n_models, total // n_models)
    sizes[rng.permutation(n_models)[: total % n_models]] += 1
    return sizes
