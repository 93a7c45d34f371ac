"""Attacks that can read another signal than the usual one, or several queries per record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Literal

from leakscope.array_types import FloatArray
from leakscope.attacks.base import Attack
from leakscope.attacks.blocks import Block, Blocks
from leakscope.errors import InputError, choose_from
from leakscope.signals.registry import (
    CLASSIFICATION,
    QUERY_LOG_ODDS,
    TASKS,
    Task,
    has_one_value,
    names_of,
)

Values = Callable[[Block], FloatArray]
"""A block of records -> float64 (models, records)."""


class AnySignal(Attack):
    """An attack with the option `signal`, which subclasses declare, last.

    Attributes:
        signal: the signal it reads, one number per record; None: the usual one, see `needs`.
    """

    signal: str | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.signal is not None and not any(has_one_value(self.signal, task) for task in TASKS):
            known = sorted({name for task in TASKS for name in names_of(task) if has_one_value(name, task)})
            raise InputError(
                f"attack={self.name!r}: signal={self.signal!r}: {choose_from(self.signal, known)}"
            )

    def reads(self, task: Task) -> tuple[str, ...]:
        """The signals it reads from models of this task."""
        if self.signal is None:
            return super().reads(task)
        return (self.signal,) if has_one_value(self.signal, task) else ()


class SeveralQueries(AnySignal):
    """An attack with the options `queries` and `signal`, which subclasses declare, last.

    Attributes:
        queries: "one": the record itself; "all": every stored query, mirror images and shifts of it.
    """

    queries: Literal["one", "all"]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.queries == "all" and self.signal is not None:
            raise InputError(
                f"attack={self.label!r}: several queries are stored as log-odds; leave `signal` out"
            )

    def with_all_queries(self) -> SeveralQueries:
        """The same attack on every stored query."""
        options = {field.name: getattr(self, field.name) for field in fields(self)}
        return type(self)(**{**options, "queries": "all"})

    def reads(self, task: Task) -> tuple[str, ...]:
        """The signals it reads from models of this task; several queries are for classifiers."""
        if self.queries == "one":
            return super().reads(task)
        return (QUERY_LOG_ODDS,) if task == CLASSIFICATION else ()


def values_of_queries(blocks: Blocks, of: Values) -> list[Values]:
    """For each query, what `of` gives if this is the only one; `of` itself where the bank stores one."""
    if QUERY_LOG_ODDS not in blocks.needs:
        return [of]
    n_queries = blocks.signals.arrays[QUERY_LOG_ODDS].shape[3]
    return [partial(_of_query, of, query) for query in range(n_queries)]


def _of_query(of: Values, query: int, block: Block) -> FloatArray:
    return of(block.of_query(query))
