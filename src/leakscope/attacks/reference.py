"""Attack-R (Ye et al. 2022): is the target's loss small compared with other models' on the record?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.attacks.base import Attack
from leakscope.attacks.moments import both_sides, in_float64, pooled
from leakscope.disk.scratch import over_blocks
from leakscope.types import Design, Signals


@dataclass(frozen=True)
class Reference(Attack):
    """Share of OUT models with a higher loss on the record than the target.

    With n OUT models that share has n + 1 values; records that tie are told apart by how far the
    target's log-odds stand above the OUT models' mean, which never reorders two different shares.
    """

    name = "reference"
    needs = ("log_odds",)
    references = "out"
    default_for = ("out_references",)
    source = "Ye et al. 2022"

    def run(self, signals: Signals, design: Design, targets: IntArray, scores: FloatArray) -> None:
        """The share, ties broken."""
        log_odds = signals.last("log_odds")
        answers = in_float64(log_odds)
        gap = pooled(answers, design, targets, log_odds).gap

        def fill(columns: slice) -> None:
            values, in_mask = answers(columns), design.in_mask[:, columns]
            _, unseen = both_sides(values, in_mask, targets, gap)
            above = values[targets] - unseen.mean
            tie_break = 0.5 + above / (2 * (1 + np.abs(above)))  # in (0, 1), rises with `above`
            share = _share_above(values, ~in_mask, targets)
            scores[:, columns] = share + tie_break / (2 * design.n_models**2)

        over_blocks(design.n_records, fill, log_odds, design.in_mask, scores)


def _share_above(values: FloatArray, out_mask: BoolArray, targets: IntArray) -> FloatArray:
    """Share of OUT models other than the target below its answer, 1/2 without any; (targets, block)."""
    share = np.empty((len(targets), values.shape[1]))
    for row, target in enumerate(targets):
        others = out_mask.copy()
        others[target] = False
        n_below, n_out = ((values < values[target]) & others).sum(axis=0), others.sum(axis=0)
        share[row] = np.where(n_out > 0, n_below / np.maximum(n_out, 1), 0.5)
    return share
