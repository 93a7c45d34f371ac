"""How firmly a block of networks holds on to each record's label: the same queries for every model."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from leakscope.array_types import AnyArray
from leakscope.disk.scratch import evict_pages
from leakscope.errors import InputError
from leakscope.signals.queries import changed, queries_of, spread_of
from leakscope.signals.registry import LABEL_ROBUSTNESS
from leakscope.train.steps import Stack
from leakscope.types import Design


def block_label_robustness(
    stack: Stack, x: torch.Tensor, y: torch.Tensor, design: Design, rows: int, on_disk: AnyArray | None
) -> npt.NDArray[np.float32]:
    """Share of the queries for which each model predicts the label; float32 (models, records).

    Args:
        stack: the networks.
        x: float32 (records, ...), as the networks take them.
        y: int64 (records,).
        design: of these networks.
        rows: records to query at once.
        on_disk: the memory map that `x` is, where it is one.
    """
    if design.columns is not None:
        raise InputError(f"signals={LABEL_ROBUSTNESS!r} needs models that are queried about the same records")
    n_models, spread, n_queries = design.n_models, spread_of(x), len(queries_of(tuple(x.shape[1:])))
    n_right = torch.zeros((n_models, len(x)), dtype=torch.int64, device=x.device)
    for start in range(0, len(x), rows):
        own, labels = x[start : start + rows], y[start : start + rows]
        for query in range(n_queries):
            asked = changed(own, spread, query, start)
            predicted = stack.outputs(asked.expand(n_models, *asked.shape)).argmax(-1)
            n_right[:, start : start + rows] += predicted == labels
        if on_disk is not None:
            evict_pages(on_disk)
    share: npt.NDArray[np.float32] = (n_right / n_queries).float().cpu().numpy()
    return share
