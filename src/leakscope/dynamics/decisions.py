"""Who is called a member, by which model's answers, when: an attack's decisions at every checkpoint.

Every model is the target in turn and judged by the others, once for each checkpoint, as if training had
stopped there. When a score counts as "member" is a convention that changes every figure made from it,
so it is a small frozen type of its own and travels with the decisions:

- `AboveLogRatio`: a log likelihood ratio above 0, so the answer is likelier of a member. For attacks
  whose score is one (EB-LiRA, online LiRA).
- `AtFpr`: any attack, at the lowest threshold which at most this share of the *other* models'
  non-members reaches, since an attacker does not know the target's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leakscope.array_types import BoolArray, FloatArray
from leakscope.attacks.base import Attack
from leakscope.errors import InputError
from leakscope.stats.roc import why_unresolvable
from leakscope.stats.thresholds import thresholds_of_others
from leakscope.types import Design, Signals


@dataclass(frozen=True)
class AboveLogRatio:
    """A record is called a member where the log ratio is above `threshold`."""

    threshold: float = 0.0

    def __str__(self) -> str:
        return f"log ratio > {self.threshold:g}"


@dataclass(frozen=True)
class AtFpr:
    """A record is called a member above the threshold that the other models' non-members set at `fpr`."""

    fpr: float

    def __post_init__(self) -> None:
        if not 0 < self.fpr < 1:
            raise InputError(f"fpr={self.fpr}: must be between 0 and 1, like 0.1")

    def __str__(self) -> str:
        return f"threshold at {self.fpr:.2%} FPR of the other models' non-members"


Convention = AboveLogRatio | AtFpr


@dataclass(frozen=True, eq=False)
class Decisions:
    """Which model's answer about which record says "member", and by what rule.

    Attributes:
        attack: name of the attack.
        convention: when a score counts as "member".
        epochs: of the checkpoints.
        is_called: bool (models, checkpoints, records).
    """

    attack: str
    convention: Convention
    epochs: tuple[int, ...]
    is_called: BoolArray


def decide(
    attack: Attack, signals: Signals, design: Design, convention: Convention | None = None
) -> Decisions:
    """Leave-one-out decisions of an attack at every checkpoint.

    Args:
        attack: the attack; it sees one checkpoint at a time.
        signals: the bank's answers, (models, checkpoints, records).
        design: who was in which training set; the same records for all models.
        convention: when a score counts as "member"; None: log ratio > 0.
    """
    rule = AboveLogRatio() if convention is None else convention
    _check(attack, design, rule)
    shape = (design.n_models, len(signals.epochs), design.n_records)
    is_called = np.empty(shape, dtype=np.bool_)
    for checkpoint in range(len(signals.epochs)):
        scores = attack(at_checkpoint(signals, checkpoint, attack.needs), design).values
        is_called[:, checkpoint] = called(scores, design.in_mask, rule)
    return Decisions(attack.name, rule, signals.epochs, is_called)


def at_checkpoint(signals: Signals, checkpoint: int, names: tuple[str, ...]) -> Signals:
    """The named signals of one checkpoint alone, so that an attack takes it for the last."""
    for name in names:
        signals.last(name)  # says which signals were kept when this one was not
    arrays = {name: np.asarray(signals.arrays[name][:, checkpoint, None]) for name in names}
    return Signals(arrays, (signals.epochs[checkpoint],), signals.labels)


def called(scores: FloatArray, in_mask: BoolArray, convention: Convention) -> BoolArray:
    """Which scores say "member" at one checkpoint; bool (models, records)."""
    if isinstance(convention, AboveLogRatio):
        return np.asarray(scores > convention.threshold)
    outside = [np.sort(row[~mask]) for row, mask in zip(scores, in_mask, strict=True)]
    n_outside = [len(own) for own in outside]
    reason = why_unresolvable(convention.fpr, 1, sum(n_outside) - max(n_outside))
    if reason:
        raise InputError(f"fpr={convention.fpr:g}: {reason}; ask for a higher one")
    return np.asarray(scores >= thresholds_of_others(outside, [convention.fpr]))


def _check(attack: Attack, design: Design, convention: Convention) -> None:
    if design.columns is not None:
        raise InputError("dynamics need one universe of records for all models; this design has several")
    if design.n_models < 3:
        raise InputError(f"models={design.n_models}: dynamics need at least 3, to judge each by the others")
    if isinstance(convention, AboveLogRatio) and not attack.is_log_ratio:
        raise InputError(
            f"attack={attack.name!r}: its score is no log likelihood ratio, so 0 means nothing; "
            "decide at an FPR instead (AtFpr), or use eb_lira or lira"
        )
