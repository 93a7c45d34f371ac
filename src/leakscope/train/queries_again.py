"""Signals for which a block of networks is queried again: the same queries for every model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from leakscope.disk.scratch import blocks, evict_pages
from leakscope.errors import InputError
from leakscope.signals.asked import Query, label_queries
from leakscope.signals.filtered import filtered
from leakscope.signals.functions import log_odds
from leakscope.signals.queries import changed, noise_unit
from leakscope.signals.registry import LABEL_ROBUSTNESS, QUERY_LOG_ODDS
from leakscope.train.steps import Stack
from leakscope.types import Design

if TYPE_CHECKING:
    from leakscope.train.loop import Inputs


def block_label_robustness(
    stack: Stack, inputs: Inputs, design: Design, rows: int
) -> npt.NDArray[np.float32]:
    """Share of the queries for which each model predicts the label; float32 (models, records).

    Args:
        stack: the networks.
        inputs: the records.
        design: of these networks.
        rows: records to query at once.
    """
    queries = label_queries(inputs.shape)
    n_right = torch.zeros((design.n_models, len(inputs.x)), dtype=torch.int64, device=inputs.x.device)
    for own, _, logits in _asked(stack, inputs, design, rows, queries, LABEL_ROBUSTNESS):
        n_right[:, own] += logits.argmax(-1) == inputs.y[own]
    share: npt.NDArray[np.float32] = (n_right / len(queries)).float().cpu().numpy()
    return share


def block_query_log_odds(
    stack: Stack,
    inputs: Inputs,
    design: Design,
    rows: int,
    answers: Callable[[slice, int], Tensor] | None,
) -> npt.NDArray[np.float32]:
    """Log-odds of the label for each of `inputs.queries`; float32 (models, records, queries).

    Args:
        stack: the networks.
        inputs: the records.
        design: of these networks.
        rows: records to query at once.
        answers: (records, query) -> logits of random inputs, where queries return their values.
    """
    shape = (design.n_models, len(inputs.x), len(inputs.queries))
    values = np.empty(shape, dtype=np.float32)
    for own, query, logits in _asked(stack, inputs, design, rows, inputs.queries, QUERY_LOG_ODDS):
        instead = None if answers is None else answers(own, query)
        labels = inputs.y[own].expand(logits.shape[:2])
        values[:, own, query] = log_odds(filtered(logits, inputs.outputs, instead), labels).cpu().numpy()
    return values


def _asked(
    stack: Stack, inputs: Inputs, design: Design, rows: int, queries: tuple[Query, ...], signal: str
) -> Iterator[tuple[slice, int, Tensor]]:
    """(Records, number of the query, logits (models, records, classes)), in blocks of records."""
    if design.columns is not None:
        raise InputError(f"signals={signal!r} needs models that are queried about the same records")
    spread = noise_unit(inputs.x, queries)
    for own in blocks(len(inputs.x), rows):
        for number, asked in enumerate(changed(inputs.x[own], spread, queries, own.start)):
            yield own, number, stack.outputs(asked.expand(design.n_models, *asked.shape)).float()
        if inputs.on_disk is not None:
            evict_pages(inputs.on_disk)
