"""Is a record's hardness known early? Measures at every checkpoint, against the vulnerability at the end.

Each measure uses outputs up to a checkpoint only, so its correlation there says how well it would have
predicted the final vulnerability at that time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray
from leakscope.hardness.correlations import binned_pearson
from leakscope.hardness.training import loss_trace_spread
from leakscope.hardness.uncertainty import own_class_uncertainty, uncertainty_at_checkpoints
from leakscope.stats.correlation import pearson, spearman
from leakscope.types import Design, Signals

SPREAD_OF_ONE, MONITOR_OF_ONE = "loss_trace_spread_one_model", "monitor_one_model"
"""Measures of the bank's first model over its members: they need no reference models."""


@dataclass(frozen=True)
class EarlyCorrelations:
    """Correlations of a measure at each checkpoint with the vulnerability at the end.

    Attributes:
        pearson: over all records, one per checkpoint.
        spearman: over all records, one per checkpoint.
        among_vulnerable: Pearson over the finally vulnerable records, one per checkpoint.
        binned: Pearson of the means in 20 bins of equally many records, one per checkpoint; None where it is
            undefined or was not computed.
        n: number of records over which the last is defined.
    """

    pearson: tuple[float | None, ...]
    spearman: tuple[float | None, ...]
    among_vulnerable: tuple[float | None, ...]
    binned: tuple[float | None, ...]
    n: int


def measured_over_training(signals: Signals, design: Design) -> dict[str, FloatArray]:
    """Measures at every checkpoint; name -> float64 (checkpoints, records), NaN where undefined."""
    measures: dict[str, FloatArray] = {}
    if "logits" in signals.arrays:
        measures |= uncertainty_at_checkpoints(signals.arrays["logits"], ~design.in_mask)
    if "log_odds" in signals.arrays:
        at_checkpoints = np.moveaxis(signals.arrays["log_odds"], 1, 0)
        parts = [own_class_uncertainty(log_odds, ~design.in_mask) for log_odds in at_checkpoints]
        measures["epistemic_own_class"] = np.stack([part.epistemic for part in parts])
    if "loss" in signals.arrays:
        own_loss, is_member = signals.arrays["loss"][0], design.in_mask[0]
        measures[SPREAD_OF_ONE] = _spread_so_far(own_loss, is_member)
        measures[MONITOR_OF_ONE] = _root_loss_so_far(own_loss, is_member)
    return measures


def correlate_over_training(
    measures: Mapping[str, FloatArray], vulnerability: FloatArray, is_vulnerable: BoolArray
) -> dict[str, EarlyCorrelations]:
    """Measure -> its correlations at each checkpoint.

    Args:
        measures: name -> float (checkpoints, records); NaN where undefined.
        vulnerability: float (records,), the advantage at the end; NaN where undefined.
        is_vulnerable: bool (records,), vulnerable at the end.
    """
    return {
        name: _correlations(values, vulnerability, is_vulnerable)
        for name, values in measures.items()
        if np.isfinite(values[:-1]).any()
    }


def _correlations(
    values: FloatArray, vulnerability: FloatArray, is_vulnerable: BoolArray
) -> EarlyCorrelations:
    linear, ranked, among, binned = [], [], [], []
    for at_checkpoint in values:
        known = np.isfinite(at_checkpoint) & np.isfinite(vulnerability)
        exposed = known & is_vulnerable
        linear.append(pearson(at_checkpoint[known], vulnerability[known]).r)
        ranked.append(spearman(at_checkpoint[known], vulnerability[known]).r)
        among.append(pearson(at_checkpoint[exposed], vulnerability[exposed]).r)
        binned.append(binned_pearson(at_checkpoint[known], vulnerability[known]).r)
    return EarlyCorrelations(tuple(linear), tuple(ranked), tuple(among), tuple(binned), int(known.sum()))


def _root_loss_so_far(loss: AnyArray, is_member: BoolArray) -> FloatArray:
    """The exposure that `Monitor` predicts: the sum of root losses relative to the average record."""
    exposure: FloatArray = np.full(loss.shape, np.nan)
    roots = np.sqrt(np.asarray(loss[:, is_member], dtype=np.float64))
    expected = roots.mean(axis=1, keepdims=True).cumsum(axis=0)
    exposure[:, is_member] = roots.cumsum(axis=0) / np.maximum(expected, np.finfo(np.float64).tiny)
    return exposure


def _spread_so_far(loss: AnyArray, is_member: BoolArray) -> FloatArray:
    """Loss-trace spread up to each checkpoint; loss (checkpoints, records) of one model, NaN outside."""
    spread: FloatArray = np.full(loss.shape, np.nan)
    members = np.asarray(loss[:, is_member], dtype=np.float64)
    for at in range(1, len(loss)):  # of a single loss there is no spread
        spread[at, is_member] = loss_trace_spread(members[: at + 1])
    return spread
