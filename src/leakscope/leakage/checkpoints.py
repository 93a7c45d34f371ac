"""Membership leakage in bits per record at every checkpoint of a bank: what an audit stores and prints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from leakscope.leakage.bits import MOST_EXPOSED_SHARE, RecordBits, bits_per_record, n_most_exposed
from leakscope.stats.estimate import TwoEstimates, why_few_records
from leakscope.types import Design, Prose, Signals

LEAKAGE_SIGNALS = ("log_odds", "scaled_residual")
"""Signals close enough to Gaussian over models, the preferred first: of a classifier, of a regression."""


@dataclass(frozen=True)
class MostExposed(TwoEstimates):
    """Mean bits of the most exposed records.

    Attributes:
        share: share of the records that count as most exposed.
        reason: why they are not measured; None where they are.
    """

    share: float
    reason: Prose | None


@dataclass(frozen=True)
class CheckpointLeakage:
    """Leakage at one checkpoint, averaged over records.

    Attributes:
        epoch: epoch of the checkpoint.
        bits: mutual information between output and membership, in bits.
        rho_kl: sum of the two Kullback-Leibler divergences, in bits.
        total_variation: of the fitted Gaussians: the largest advantage from this output alone, if they are
            right.
        most_exposed: bits of the most exposed records.
        floor: bias of the estimator in bits, measured on permuted designs and subtracted; None: undefined.
    """

    epoch: int
    bits: TwoEstimates
    rho_kl: TwoEstimates
    total_variation: TwoEstimates
    most_exposed: MostExposed
    floor: float | None


@dataclass(frozen=True)
class LeakageFigures:
    """Bits of membership information in the models' outputs.

    Attributes:
        signal: the signal measured; None: the bank stores none that can be.
        unit: unit of the information measures.
        reason: why leakage is undefined, or its figures are not resolvable and have no interval; None where
            they have one.
        checkpoints: one entry per checkpoint.
    """

    signal: str | None
    unit: Literal["bits"]
    reason: Prose | None
    checkpoints: tuple[CheckpointLeakage, ...]


class BankLeakage(NamedTuple):
    """Leakage of a bank.

    Attributes:
        figures: for results.json.
        last: leakage of every record at the last checkpoint; None where it is undefined.
    """

    figures: LeakageFigures
    last: RecordBits | None


def bank_leakage(signals: Signals, design: Design) -> BankLeakage:
    """Leakage through one signal at every checkpoint."""
    if not design.n_models:
        return _undefined("there are no reference models")
    signal = next((name for name in LEAKAGE_SIGNALS if name in signals.arrays), None)
    if signal is None:
        return _undefined(f"the bank stores neither {LEAKAGE_SIGNALS[0]} nor {LEAKAGE_SIGNALS[1]}")
    if design.columns is not None:
        return _undefined("the models were queried about different records")
    outputs = signals.arrays[signal]  # (models, checkpoints, records)
    has_steps = signal == LEAKAGE_SIGNALS[0]  # a forest's votes; equal residuals are exact
    by_checkpoint = [
        bits_per_record(outputs[:, at], design.in_mask, has_steps=has_steps) for at in range(outputs.shape[1])
    ]
    checkpoints = tuple(map(_checkpoint, signals.epochs, by_checkpoint))
    last = by_checkpoint[-1]
    figures = LeakageFigures(signal, "bits", last.reason or None, checkpoints)
    return BankLeakage(figures, None if last.is_undefined else last)


def _undefined(reason: str) -> BankLeakage:
    return BankLeakage(LeakageFigures(None, "bits", reason, ()), None)


def _checkpoint(epoch: int, leakage: RecordBits) -> CheckpointLeakage:
    reason = why_few_records(n_most_exposed(len(leakage.bits))) or leakage.reason_of_most_exposed or None
    figure = TwoEstimates(None, None, None, None, None) if reason else leakage.most_exposed
    most_exposed = MostExposed(**vars(figure), share=MOST_EXPOSED_SHARE, reason=reason)
    return CheckpointLeakage(epoch, **leakage.means, most_exposed=most_exposed, floor=leakage.floor)
