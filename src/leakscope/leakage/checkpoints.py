"""Bits per record at every checkpoint of a bank: the numbers an audit stores and prints."""

from __future__ import annotations

from typing import Any, NamedTuple

from leakscope.leakage.bits import MOST_EXPOSED_SHARE, Figure, RecordBits, bits_per_record
from leakscope.types import Design, Signals

ANSWERS = ("log_odds", "log_density")
"""Signals close enough to Gaussian over models, by preference: of a classifier, of a regression."""


class BankLeakage(NamedTuple):
    """What the answers of a bank carry.

    Attributes:
        figures: for results.json: `signal`, `unit`, `reason` and one entry a checkpoint.
        last: of the last checkpoint, record by record; None where there is nothing, `reason` says why.
    """

    figures: dict[str, Any]
    last: RecordBits | None


def bank_leakage(signals: Signals, design: Design) -> BankLeakage:
    """Leakage of one signal's answers at every checkpoint; all models count, targets or not."""
    signal = next((name for name in ANSWERS if name in signals.arrays), None)
    reason = ""
    if signal is None:
        reason = f"the bank keeps neither {ANSWERS[0]} nor {ANSWERS[1]}"
    elif design.columns is not None:
        reason = "the models were asked about different records"
    if signal is None or reason:
        return BankLeakage(_figures(None, reason, []), None)
    answers = signals.arrays[signal]  # (models, checkpoints, records)
    found = [bits_per_record(answers[:, at], design.in_mask) for at in range(answers.shape[1])]
    checkpoints = [_checkpoint(epoch, one) for epoch, one in zip(signals.epochs, found, strict=True)]
    last = found[-1]
    return BankLeakage(_figures(signal, last.reason, checkpoints), None if last.is_undefined else last)


def _figures(signal: str | None, reason: str, checkpoints: list[dict[str, Any]]) -> dict[str, Any]:
    return {"signal": signal, "unit": "bits", "reason": reason or None, "checkpoints": checkpoints}


def _checkpoint(epoch: int, found: RecordBits) -> dict[str, Any]:
    most_exposed = {"share": MOST_EXPOSED_SHARE, **_plain(found.most_exposed)}
    means = {name: _plain(figure) for name, figure in found.means.items()}
    return {"epoch": epoch, **means, "most_exposed": most_exposed, "floor": found.floor}


def _plain(figure: Figure) -> dict[str, float]:
    return {"value": figure.value, "low": figure.low, "high": figure.high}
