"""What two audits have in common to be compared by, and each figure's difference with its interval.

Two kinds of audits, two kinds of chance:

- a population: models are drawn. Groups of models are left out in turn, as targets and as references, and
  every figure is made again (`stats/differences.py`); attacks are scored anew from the bank's signals.
- one given model: records are drawn, and both models answered about the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.attacks.registry import PER_RECORD
from leakscope.attacks.spec import resolve
from leakscope.dynamics.jackknife import model_groups
from leakscope.stats.differences import (
    Difference,
    Replicated,
    advantage_difference,
    auc_difference,
    jackknife_difference,
    rate_difference,
)
from leakscope.stats.intervals import Interval
from leakscope.stats.rates import rates_by_model
from leakscope.stats.roc_summary import roc_summaries, roc_summary
from leakscope.types import Design, Signals

_MOST_GROUPS = 16
_FEWEST_MODELS = 4
_YES_OR_NO = ("correctness",)  # one threshold: the AUC says all there is
_FEWEST_A_SIDE = 10  # members, and non-members, of a group of one model's records


class Key(NamedTuple):
    """Names one figure.

    Attributes:
        measure: "auc", "advantage", "tpr", "record_advantage" (mean over records of TPR - FPR at the
            per-record decision), "accuracy_members" or "accuracy_nonmembers".
        attack: None for an accuracy.
        fpr: of "tpr".
        column: of groups; None for all records.
        group: its label.
    """

    measure: str
    attack: str | None = None
    fpr: float | None = None
    column: str | None = None
    group: str | None = None


@dataclass(frozen=True)
class Asked:
    """What is compared.

    Attributes:
        attacks: that all runs were attacked with.
        fpr_budgets: that all runs resolve.
        with_records: single records were judged in all runs.
        with_accuracy: all runs know who was answered correctly.
        grouped_attack: whose AUC is compared group by group.
    """

    attacks: tuple[str, ...]
    fpr_budgets: tuple[float, ...]
    with_records: bool
    with_accuracy: bool
    grouped_attack: str

    def leakage_keys(self) -> list[Key]:
        """Figures over all records: more means that more leaks."""
        keys = []
        for attack in self.attacks:
            keys.append(Key("auc", attack))
            if attack not in _YES_OR_NO:
                keys.append(Key("advantage", attack))
                keys += [Key("tpr", attack, budget) for budget in self.fpr_budgets]
        return [*keys, *([Key("record_advantage", PER_RECORD.label)] if self.with_records else [])]

    def accuracy_keys(self) -> list[Key]:
        """What a model is good for: more is better."""
        return [Key("accuracy_members"), Key("accuracy_nonmembers")] if self.with_accuracy else []


Groups = Mapping[str, npt.NDArray[np.str_]]


@dataclass(frozen=True, eq=False)
class Population:
    """Many targets: the figures, and the same without each group of models."""

    keys: tuple[Key, ...]
    figures: Replicated

    def values(self) -> FloatArray:
        """float64 (figures,)."""
        return self.figures.figures

    def differences(self, other: Population, is_paired: bool, level: float) -> tuple[Difference, ...]:
        """Of every figure, `other` minus this."""
        return jackknife_difference(self.figures, other.figures, is_paired, level)


@dataclass(frozen=True, eq=False)
class OneModel:
    """One target: its scores, by attack, and whom it was trained on; arrays (records,)."""

    keys: tuple[Key, ...]
    scores: Mapping[str, FloatArray]
    is_member: BoolArray
    correct: BoolArray | None
    groups: Groups

    def values(self) -> FloatArray:
        """float64 (figures,); NaN for a group that is too small."""
        return np.array([self._value(key) for key in self.keys])

    def differences(self, other: OneModel, is_paired: bool, level: float) -> tuple[Difference, ...]:
        """Of every figure, `other` minus this; the records are the same."""
        return tuple(self._difference(other, key, level) for key in self.keys)

    def _value(self, key: Key) -> float:
        own = self._part(key)
        if own is None:
            return float("nan")
        if own.correct is not None and key.attack is None:
            return _share(*own._right(key))
        assert key.attack is not None
        found = roc_summary(own.scores[key.attack], own.is_member, () if key.fpr is None else (key.fpr,))
        return found.points[0].tpr if key.measure == "tpr" else float(getattr(found, key.measure))

    def _difference(self, other: OneModel, key: Key, level: float) -> Difference:
        first, second = self._part(key), other._part(key)
        if first is None or second is None:
            reason = f"undefined: fewer than {_FEWEST_A_SIDE} members or non-members"
            return Difference(float("nan"), Interval(float("nan"), float("nan"), level, reason))
        if key.attack is None:
            return rate_difference(first._right(key), second._right(key), level)
        pair = first.scores[key.attack], second.scores[key.attack]
        if key.measure == "auc":
            return auc_difference(*pair, first.is_member, second.is_member, level)
        if key.measure == "advantage":
            values = first._value(replace_group(key)), second._value(replace_group(key))
            return advantage_difference(values, first._sides(), second._sides(), level)
        return rate_difference(first._hits(key), second._hits(key), level)

    def _part(self, key: Key) -> OneModel | None:
        """The records a figure is about; None when too few."""
        if key.column is None:
            return self
        own = self.groups[key.column] == key.group
        part = replace(
            self,
            scores={name: values[own] for name, values in self.scores.items()},
            is_member=self.is_member[own],
            correct=None if self.correct is None else self.correct[own],
            groups={},
        )
        return part if min(part._sides()) >= _FEWEST_A_SIDE else None

    def _sides(self) -> tuple[int, int]:
        n_members = int(self.is_member.sum())
        return n_members, len(self.is_member) - n_members

    def _right(self, key: Key) -> tuple[int, int]:
        """Correct answers, and all, of one side."""
        assert self.correct is not None
        side = self.is_member if key.measure == "accuracy_members" else ~self.is_member
        return int((self.correct & side).sum()), int(side.sum())

    def _hits(self, key: Key) -> tuple[int, int]:
        n_members = self._sides()[0]
        return round(self._value(replace_group(key)) * n_members), n_members


def replace_group(key: Key) -> Key:
    """The same figure of all records at hand."""
    return key._replace(column=None, group=None)


def population_of(
    signals: Signals, design: Design, asked: Asked, groups: Groups, models: IntArray
) -> Population:
    """Figures of a population, and again without each of at most 16 groups of its models.

    Args:
        signals: the bank's answers.
        design: who was in which training set.
        asked: what to compute.
        groups: column -> label of each record, to be compared group by group.
        models: int64, the models that count.
    """
    labels = {(column, str(label)): values == label for column, values in groups.items()
              for label in np.unique(values)}  # fmt: skip
    keys = (*asked.leakage_keys(), *asked.accuracy_keys(),
            *(Key("auc", asked.grouped_attack, None, *name) for name in labels))  # fmt: skip
    used = _last_checkpoint(signals, asked)

    def figures(kept: IntArray) -> FloatArray:
        return _figures(used.take(kept), design.take(kept), asked, list(labels.values()))

    left_out = (
        model_groups(len(models), min(len(models), _MOST_GROUPS)) if len(models) >= _FEWEST_MODELS else []
    )
    made = [figures(kept) for kept in (models, *(np.delete(models, group) for group in left_out))]
    return Population(keys, Replicated(made[0], np.array(made[1:]).reshape(len(left_out), len(keys))))


def one_model_of(signals: Signals, design: Design, asked: Asked, groups: Groups, target: int) -> OneModel:
    """Scores of one target; arguments as in `population_of`."""
    keys = [*asked.leakage_keys(), *asked.accuracy_keys()]
    keys += [
        Key("auc", asked.grouped_attack, None, column, str(label))
        for column, values in groups.items()
        for label in np.unique(values)
    ]
    scores = {name: resolve(name)(signals, design, np.array([target])).values[0] for name in asked.attacks}
    correct = np.asarray(signals.last("correct")[target]) if asked.with_accuracy else None
    return OneModel(tuple(keys), scores, design.in_mask[target], correct, groups)


def _last_checkpoint(signals: Signals, asked: Asked) -> Signals:
    """What the attacks read, in memory once: leaving models out copies it."""
    wanted = {signal for name in asked.attacks for signal in resolve(name).needs}
    wanted |= set(PER_RECORD.needs) if asked.with_records else set()
    wanted |= {"correct"} if asked.with_accuracy else set()
    arrays = {name: np.asarray(signals.last(name))[:, None] for name in sorted(wanted)}
    return Signals(arrays, signals.epochs[-1:], signals.labels)


def _figures(signals: Signals, design: Design, asked: Asked, groups: Sequence[BoolArray]) -> FloatArray:
    """In the order of the keys of `population_of`; float64 (figures,)."""
    names = dict.fromkeys([*asked.attacks, *([PER_RECORD.label] if asked.with_records else [])])
    scores = {name: resolve(name)(signals, design).values for name in names}
    in_mask, budgets = design.in_mask, asked.fpr_budgets
    figures: list[float] = []
    for attack in asked.attacks:
        rows = roc_summaries(scores[attack], in_mask, budgets)
        figures.append(_mean([row.auc for row in rows]))
        if attack not in _YES_OR_NO:
            figures.append(_mean([row.advantage for row in rows]))
            figures += [_mean([row.points[at].tpr for row in rows]) for at in range(len(budgets))]
    if asked.with_records:
        called = scores[PER_RECORD.label] > 0
        rates = rates_by_model(called, in_mask)
        by_target = rates.members - rates.nonmembers
        figures.append(float(by_target.mean()))
    if asked.with_accuracy:
        correct = signals.last("correct")
        accuracy = rates_by_model(correct, in_mask)
        figures += [float(accuracy.members.mean()), float(accuracy.nonmembers.mean())]
    grouped = scores[asked.grouped_attack]
    figures += [_group_auc(grouped[:, own], in_mask[:, own]) for own in groups]
    return np.array(figures)


def _group_auc(scores: FloatArray, in_mask: BoolArray) -> float:
    """Mean AUC over the targets where the group has enough on both sides; NaN where none has."""
    n_in = in_mask.sum(axis=1)
    is_large = np.minimum(n_in, in_mask.shape[1] - n_in) >= _FEWEST_A_SIDE
    rows = roc_summaries(scores[is_large], in_mask[is_large], ())
    return _mean([row.auc for row in rows])


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def _share(k: int, n: int) -> float:
    return k / n if n else float("nan")
