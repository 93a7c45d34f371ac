"""Difficulty calibration (Watson et al. 2022): the answer minus that of models without the record."""

from __future__ import annotations

from dataclasses import dataclass

from leakscope.array_types import FloatArray, IntArray
from leakscope.attacks.base import Attack
from leakscope.attacks.moments import both_sides, in_float64, pooled
from leakscope.disk.scratch import over_blocks
from leakscope.types import Design, Signals


@dataclass(frozen=True)
class Calibrated(Attack):
    """Log-odds minus their mean over OUT models."""

    name = "calibrated"
    needs = ("log_odds",)
    references = "out"
    default_for = ("out_references",)
    source = "Watson et al. 2022"

    def run(self, signals: Signals, design: Design, targets: IntArray, scores: FloatArray) -> None:
        """Log-odds minus the OUT mean."""
        log_odds = signals.last("log_odds")
        answers = in_float64(log_odds)
        gap = pooled(answers, design, targets, log_odds).gap

        def fill(columns: slice) -> None:
            values = answers(columns)
            _, unseen = both_sides(values, design.in_mask[:, columns], targets, gap)
            scores[:, columns] = values[targets] - unseen.mean

        over_blocks(design.n_records, fill, log_odds, design.in_mask, scores)
