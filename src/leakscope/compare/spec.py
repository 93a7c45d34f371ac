"""What is compared: the figures that every run can provide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from leakscope.attacks.base import Attack
from leakscope.compare.results import LeakageMeasure

AccuracyMeasure = Literal["accuracy_members", "accuracy_nonmembers"]
Groups = Mapping[str, npt.NDArray[np.str_]]
"""Column -> the group of each record, (records,)."""

LEVEL = 0.95
"""Confidence of each interval on its own."""
FEWEST_PER_SIDE = 10
"""Members, and non-members, that a group needs for an AUC."""


class FigureKey(NamedTuple):
    """Identifies one figure.

    Attributes:
        measure: what is measured.
        attack: label of the attack; None for accuracy and bits.
        fpr: FPR budget of a TPR.
        column: column of the group; None for all records.
        group: name of the group; None for all records.
    """

    measure: LeakageMeasure | AccuracyMeasure
    attack: str | None = None
    fpr: float | None = None
    column: str | None = None
    group: str | None = None


@dataclass(frozen=True)
class ComparisonSpec:
    """What all runs have in common.

    Attributes:
        attacks: the attacks that every run used.
        fpr_budgets: the FPR budgets that every run can measure, largest first.
        strongest_attack: label of the attack whose AUC is compared group by group.
        columns: the columns of groups that every run evaluated.
        record_attack: the attack that evaluates single records; None where a run does not evaluate them.
        with_accuracy: whether every run stores which predictions are correct.
        with_bits: whether every run measures bits of membership information, with an interval.
    """

    attacks: tuple[Attack, ...]
    fpr_budgets: tuple[float, ...]
    strongest_attack: str
    columns: tuple[str, ...] = ()
    record_attack: Attack | None = None
    with_accuracy: bool = False
    with_bits: bool = False

    @property
    def scored_attacks(self) -> dict[str, Attack]:
        """Label -> attack, the one on single records included."""
        extra = () if self.record_attack is None else (self.record_attack,)
        return {attack.label: attack for attack in (*self.attacks, *extra)}

    def leakage_keys(self) -> list[FigureKey]:
        """Leakage over all records, but for bits, which are not computed from scores; higher is worse."""
        keys = []
        for attack in self.attacks:
            keys.append(FigureKey("auc", attack.label))
            if not attack.is_binary:  # with a single operating point the AUC says it all
                keys.append(FigureKey("advantage", attack.label))
                keys += [FigureKey("tpr", attack.label, budget) for budget in self.fpr_budgets]
        if self.record_attack is not None:
            keys.append(FigureKey("record_advantage", self.record_attack.label))
        return keys

    def accuracy_keys(self) -> list[FigureKey]:
        """Accuracy; higher is better."""
        return [FigureKey("accuracy_members"), FigureKey("accuracy_nonmembers")] * self.with_accuracy

    def group_keys(self, groups: Groups) -> list[FigureKey]:
        """The AUC of the strongest attack in each group."""
        return [
            FigureKey("auc", self.strongest_attack, None, column, str(group))
            for column in self.columns
            for group in np.unique(groups[column])
        ]

    def keys(self, groups: Groups) -> tuple[FigureKey, ...]:
        """Every figure that is computed from scores and predictions."""
        return (*self.leakage_keys(), *self.accuracy_keys(), *self.group_keys(groups))
