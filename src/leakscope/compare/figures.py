"""The figures of one audit, and their differences from another audit's.

An audit of a population and an audit of one given model vary for different reasons:

- Population: the models vary. Groups of models are left out in turn, as targets and as reference models, and
  every figure is computed again from the bank's signals (a jackknife, see `stats/differences.py`).
- One given model: the records vary. Both models were queried about the same records.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.compare.spec import FEWEST_PER_SIDE, ComparisonSpec, FigureKey, Groups
from leakscope.dynamics.jackknife import model_groups
from leakscope.evaluate.attacked import without_models
from leakscope.stats.differences import (
    Difference,
    Replicated,
    advantage_difference,
    auc_difference,
    rate_difference,
    tpr_difference,
)
from leakscope.stats.intervals import Interval
from leakscope.stats.parts import advantage_parts, advantage_thresholds
from leakscope.stats.rates import rates_by_model
from leakscope.stats.roc import auc_of_split, split_scores
from leakscope.stats.roc_summary import tpr_at_expected_fpr
from leakscope.types import Design, Signals

_MOST_GROUPS = 16
_FEWEST_MODELS = 4


@dataclass(frozen=True, eq=False)
class OneModelFigures:
    """Scores of one target; where members are units, these are the records.

    Attributes:
        scores: label of each attack -> float64 (records,).
        is_member: bool (records,).
        accuracies: on members and on non-members; None where accuracy is not compared.
        groups: the groups of the records.
    """

    scores: Mapping[str, FloatArray]
    is_member: BoolArray
    accuracies: tuple[float, float] | None
    groups: Groups

    def value(self, key: FigureKey) -> float:
        """One figure; NaN for a group that is too small."""
        subset = self._subset(key)
        return float("nan") if subset is None else subset._value(key)

    def difference(self, other: OneModelFigures, key: FigureKey, level: float) -> Difference:
        """`other` minus this, with an interval over records, which always pair."""
        first, second = self._subset(key), other._subset(key)
        if first is None or second is None:
            reason = f"undefined: fewer than {FEWEST_PER_SIDE} members or non-members"
            return Difference(np.nan, Interval(np.nan, np.nan, level, reason))
        if key.attack is None:
            return rate_difference(first._correct_counts(key), second._correct_counts(key), level)
        if key.measure == "advantage":
            values = first._value(key), second._value(key)
            return advantage_difference(values, first._sizes, second._sizes, level)
        scores = first.scores[key.attack], second.scores[key.attack]
        if key.fpr is None:
            return auc_difference(*scores, first.is_member, second.is_member, level)
        return tpr_difference(*scores, first.is_member, second.is_member, key.fpr, level)

    def _value(self, key: FigureKey) -> float:
        """A figure over all records of this subset."""
        if key.attack is None:
            return self._accuracy(key)[0]
        return _curve_figure(self.scores[key.attack][None], self.is_member[None], key)

    def _subset(self, key: FigureKey) -> OneModelFigures | None:
        """The records a figure is about; None where they are too few."""
        if key.column is None:
            return self
        in_group = self.groups[key.column] == key.group
        subset = replace(
            self,
            scores={label: values[in_group] for label, values in self.scores.items()},
            is_member=self.is_member[in_group],
            accuracies=None,
            groups={},
        )
        return subset if min(subset._sizes) >= FEWEST_PER_SIDE else None

    @property
    def _sizes(self) -> tuple[int, int]:
        """Number of members and of non-members."""
        n_members = int(self.is_member.sum())
        return n_members, len(self.is_member) - n_members

    def _accuracy(self, key: FigureKey) -> tuple[float, int]:
        """The accuracy on members or on non-members, and their number."""
        assert self.accuracies is not None, "accuracy is compared only where it is known"
        side = 0 if key.measure == "accuracy_members" else 1
        return self.accuracies[side], self._sizes[side]

    def _correct_counts(self, key: FigureKey) -> tuple[int, int]:
        """Number of correct predictions, and of all; a unit counts once, however many records it has."""
        rate, n = self._accuracy(key)
        return round(rate * n) if n else 0, n


Signs = Mapping[str, int]
"""Label of each attack -> -1 where its audit found the lower scores to be those of members, else 1."""


def one_model_figures(
    signals: Signals, design: Design, spec: ComparisonSpec, groups: Groups, target: int, signs: Signs
) -> OneModelFigures:
    """Scores of one target."""
    targets = np.array([target])
    return OneModelFigures(
        scores={
            attack.label: signs[attack.label] * attack(signals, design, targets).values[0]
            for attack in spec.attacks
        },
        is_member=design.of_units.in_mask[target],
        accuracies=_accuracies(signals, design, targets) if spec.with_accuracy else None,
        groups=groups,
    )


def _accuracies(signals: Signals, design: Design, targets: IntArray) -> tuple[float, float]:
    rates = rates_by_model(signals.last("correct")[targets], design.in_mask[targets])
    return float(rates.members[0]), float(rates.nonmembers[0])


def population_figures(
    signals: Signals,
    design: Design,
    spec: ComparisonSpec,
    groups: Groups,
    diverged: Collection[int],
    signs: Signs,
) -> Replicated:
    """Figures of the models that converged, and the same without each of at most 16 groups of them."""
    keys = spec.keys(groups)
    in_group = {key: groups[key.column] == key.group for key in keys if key.column is not None}
    stored, design = without_models(_last_checkpoint(signals, spec), design, diverged)
    models = np.arange(design.n_models)
    n_groups = min(len(models), _MOST_GROUPS) if len(models) >= _FEWEST_MODELS else 0
    left_out = model_groups(len(models), n_groups) if n_groups else []
    samples = [models, *(np.delete(models, group) for group in left_out)]

    def scores(own: Signals, models: Design) -> dict[str, FloatArray]:
        scored = {label: attack(own, models).values for label, attack in spec.scored_attacks.items()}
        return {label: signs.get(label, 1) * values for label, values in scored.items()}

    def figures(models: IntArray) -> list[float]:
        own, trained_on = stored.take(models), design.take(models)
        return _mean_figures(own, trained_on, scores(own, trained_on), keys, in_group)

    whole, *without = map(figures, samples)
    return Replicated(np.array(whole), np.array(without).reshape(len(without), len(whole)))


def _last_checkpoint(signals: Signals, spec: ComparisonSpec) -> Signals:
    """The signals that are read, in memory: every replicate copies them."""
    names = {signal for attack in spec.scored_attacks.values() for signal in attack.reads_from(signals)}
    names |= {"correct"} if spec.with_accuracy else set()
    arrays = {name: np.asarray(signals.last(name))[:, None] for name in sorted(names)}
    return Signals(arrays, signals.epochs[-1:], signals.labels)


def _mean_figures(
    signals: Signals,
    design: Design,
    scores: Mapping[str, FloatArray],
    keys: Sequence[FigureKey],
    in_group: Mapping[FigureKey, BoolArray],
) -> list[float]:
    """Means over targets, one per key."""
    in_mask = design.of_units.in_mask
    needs_accuracy = any(key.attack is None for key in keys)
    accuracy = rates_by_model(signals.last("correct"), design.in_mask) if needs_accuracy else None

    def figure(key: FigureKey) -> float:
        if accuracy is not None and key.attack is None:
            rates = accuracy.members if key.measure == "accuracy_members" else accuracy.nonmembers
            return float(rates.mean())
        assert key.attack is not None
        if key.column is not None:
            records = in_group[key]
            return _group_auc(scores[key.attack][:, records], in_mask[:, records])
        if key.measure == "record_advantage":
            calls = rates_by_model(scores[key.attack] > 0, in_mask)
            return float((calls.members - calls.nonmembers).mean())
        return _curve_figure(scores[key.attack], in_mask, key)

    return [figure(key) for key in keys]


def _curve_figure(scores: FloatArray, in_mask: BoolArray, key: FigureKey) -> float:
    """A mean over targets, as in an audit; scores and in_mask are (targets, records)."""
    if key.measure == "advantage":
        return max(float(advantage_parts(scores, in_mask, advantage_thresholds(scores, in_mask)).sum()), 0.0)
    rows = [split_scores(*row) for row in zip(scores, in_mask, strict=True)]
    if key.fpr is not None:
        return float(np.mean([tpr_at_expected_fpr(row, key.fpr) for row in rows]))
    return float(np.mean([auc_of_split(row) for row in rows])) if rows else float("nan")


def _group_auc(scores: FloatArray, in_mask: BoolArray) -> float:
    """Mean AUC over the targets with enough members and non-members in the group; NaN without any."""
    n_in = in_mask.sum(axis=1)
    is_large = np.minimum(n_in, in_mask.shape[1] - n_in) >= FEWEST_PER_SIDE
    return _curve_figure(scores[is_large], in_mask[is_large], FigureKey("auc", None))
