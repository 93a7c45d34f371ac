"""An attack's decisions at every checkpoint: which model's output about which record looks like a member's.

Every model is the target in turn and is judged by the others, at each checkpoint as if training had ended
there. The rule that turns a score into "member" affects every figure; `fpr` chooses it:

- None: a log likelihood ratio above 0: the output is more likely for a member. For attacks whose score is a
  log likelihood ratio (`Attack.is_log_ratio`).
- a share: any attack, at the lowest threshold that at most this share of the *other* models' non-members
  reaches, because an attacker does not know the target's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leakscope.array_types import BoolArray, FloatArray
from leakscope.attacks.base import Attack
from leakscope.errors import InputError
from leakscope.stats.roc import why_unresolvable
from leakscope.stats.thresholds import barriers_of_others
from leakscope.types import Design, Signals


@dataclass(frozen=True, eq=False)
class Decisions:
    """Which model's output about which record counts as a member's.

    Attributes:
        epochs: epochs of the checkpoints.
        is_called: bool (models, checkpoints, records).
    """

    epochs: tuple[int, ...]
    is_called: BoolArray


def decide(attack: Attack, signals: Signals, design: Design, fpr: float | None = None) -> Decisions:
    """Leave-one-out decisions of an attack, which sees one checkpoint at a time.

    Every model must be queried about the same records.
    """
    check_rule(attack, fpr)
    _check_design(design)
    shape = (design.n_models, len(signals.epochs), design.n_records)
    is_called = np.empty(shape, dtype=np.bool_)
    for checkpoint in range(len(signals.epochs)):
        scores = attack(_at_checkpoint(signals, checkpoint, attack.reads_from(signals)), design).values
        is_called[:, checkpoint] = called(scores, design.in_mask, fpr)
    return Decisions(signals.epochs, is_called)


def called(scores: FloatArray, in_mask: BoolArray, fpr: float | None) -> BoolArray:
    """Which scores count as "member" at one checkpoint; bool (models, records)."""
    if fpr is None:
        return np.asarray(scores > 0)
    nonmembers = [np.sort(row[~mask]) for row, mask in zip(scores, in_mask, strict=True)]
    counts = [len(own) for own in nonmembers]
    reason = why_unresolvable(fpr, 1, sum(counts) - max(counts))
    if reason:
        raise InputError(f"fpr={fpr:g}: {reason}; choose a higher one")
    return np.asarray(scores > barriers_of_others(nonmembers, [fpr]).highest)


def rule_text(fpr: float | None) -> str:
    """When a score counts as "member", in words."""
    return "log ratio > 0" if fpr is None else f"threshold at {fpr:.2%} FPR of the other models' non-members"


def check_fpr(fpr: float | None) -> None:
    """Raises InputError where a false positive rate is not between 0 and 1."""
    if fpr is not None and not 0 < fpr < 1:
        raise InputError(f"fpr={fpr}: must be between 0 and 1, like 0.1")


def check_rule(attack: Attack, fpr: float | None) -> None:
    """Raises InputError where an attack cannot decide by a rule."""
    check_fpr(fpr)
    if fpr is None and not attack.is_log_ratio:
        raise InputError(
            f"attack={attack.label!r}: its score is not a log likelihood ratio, so 0 is no threshold for it; "
            "decide at a false positive rate (--fpr 0.1, in Python fpr=0.1), or use lira or eb_lira"
        )


def _at_checkpoint(signals: Signals, checkpoint: int, names: tuple[str, ...]) -> Signals:
    """The named signals of one checkpoint, which an attack then takes for the last."""
    for name in names:
        signals.last(name)  # raises with the stored signals where this one is missing
    arrays = {name: np.asarray(signals.arrays[name][:, checkpoint, None]) for name in names}
    return Signals(arrays, (signals.epochs[checkpoint],), signals.labels)


def _check_design(design: Design) -> None:
    if design.columns is not None:
        raise InputError("dynamics need the same records for every model; in this design they differ")
    if design.n_models < 3:
        raise InputError(
            f"models={design.n_models}: dynamics need at least 3, because each is judged by the others"
        )
