"""Attacks that can read several queries per record (the signal `query_log_odds`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Literal

from leakscope.array_types import FloatArray
from leakscope.attacks.base import Attack
from leakscope.attacks.blocks import Block, Blocks
from leakscope.signals.registry import CLASSIFICATION, QUERY_LOG_ODDS, Task

Values = Callable[[Block], FloatArray]
"""A block of records -> float64 (models, records)."""


class SeveralQueries(Attack):
    """An attack with the option `queries`, which subclasses declare, last.

    Attributes:
        queries: "one": the record itself; "all": every stored query, mirror images and shifts of it.
    """

    queries: Literal["one", "all"]

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
