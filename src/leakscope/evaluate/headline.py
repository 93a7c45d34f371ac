"""The strongest attack, without the luck of having been chosen.

The largest of several AUCs exceeds what its attack achieves. So the attack that is strongest on one half of
the records and one half of the models is measured on the other halves. Records alone would not do: what
models differ in is common to all records, so among attacks of nearly equal strength, the one that these
models favor would be chosen on both halves of the records.

A choice that depends on chance also varies:

- Two attacks of equal strength are chosen on two halves by the signs of their differences there. Each half is
  measured at the other's choice, so both gain, or both lose, E|difference| / 2. That adds up to
  Var(difference) / (2 pi) to the variance, and of more attacks at most 0.18 Var(difference).
- The choice may miss the strongest attack, and then the figure is too low. No attack is stronger than the
  strongest, so the upper end is the highest of all attacks that may be it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, product
from typing import NamedTuple

import numpy as np

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.disk.scratch import evict_pages
from leakscope.evaluate.attack_figures import Scored
from leakscope.evaluate.curve_variances import of_one_target
from leakscope.evaluate.figure import figure_of_targets, with_highest_ends
from leakscope.evaluate.results import Figure
from leakscope.evaluate.uncertainty import LeftOut, half_auc_parts
from leakscope.stats.intervals import clopper_pearson
from leakscope.stats.parts import halves
from leakscope.stats.roc import auc_of_split, split_scores
from leakscope.stats.two_way import NoLeakage, Variance, two_way_variance

_SHARE_OF_CHOICE = 0.18
"""Of the variance of the largest difference between attacks, what the choice between them adds at most. With
k equally strong attacks, E(largest of k normals)^2 / (2 (k - 1)): 0.159, 0.179 and 0.177 for k = 2, 3 and 4.
"""


class HalfAucs(NamedTuple):
    """The AUC of one attack within each half of the records.

    Attributes:
        of_targets: float64 (2, targets).
        parts: float64 (2, sampled records), of the mean over targets.
        without: float64 (groups, 2, sampled records), the same without each group of models.
        model_half: int64 (targets,), the half of the models that each target is in; 0 for all where models
            are too few.
        sizes: numbers of members and of non-members of the first target.
    """

    of_targets: FloatArray
    parts: FloatArray
    without: FloatArray
    model_half: IntArray
    sizes: tuple[int, int]


def half_aucs(scored: Scored) -> HalfAucs:
    """AUCs within halves; one target's scores are in memory at a time."""
    fold = halves(scored.scores.shape[1])
    of_targets = np.empty((2, len(scored.scores)))
    for row, (scores, members) in enumerate(zip(scored.scores, scored.in_mask, strict=True)):
        of_targets[:, row] = [_auc(scores, members, fold == half) for half in (0, 1)]
        evict_pages(scored.scores, scored.in_mask)
    parts, *without = half_auc_parts(scored.replicates)
    n_members, n_records = int(scored.in_mask[0].sum()), scored.in_mask.shape[1]
    parts_without = np.array(without).reshape(len(without), *parts.shape)
    sizes = n_members, n_records - n_members
    return HalfAucs(of_targets, parts, parts_without, scored.replicates.model_half, sizes)


def strongest(aucs: Mapping[str, HalfAucs], left_out: LeftOut, n_records: int) -> tuple[str, Figure]:
    """The strongest attack of several, and its AUC.

    Args:
        aucs: label -> AUCs of each attack.
        left_out: how models were left out.
        n_records: number of records of the audit.
    """
    labels, of_targets = list(aucs), np.stack([one.of_targets for one in aucs.values()])
    means = dict(zip(labels, _mean_of_defined(of_targets.mean(axis=1)).tolist(), strict=True))
    best = max(means, key=lambda label: means[label])
    chosen = chosen_elsewhere(aucs)
    values = np.take_along_axis(of_targets, chosen[None], 0)[0].mean(axis=0)
    variances = _Variances(left_out, n_records)

    def figure(values: FloatArray, variance: Variance) -> Figure:
        if len(values) == 1:
            variance = of_one_target(variance, *aucs[best].sizes)
        n_pairs = max(n_records // 4, 1)
        return figure_of_targets(
            values, variance, lambda auc, level: clopper_pearson(round(auc * n_pairs), n_pairs, level)
        )

    own = variances.of_halves(aucs[best], aucs[best]).standard_error(these_records=False)
    reach = means[best] - 2 * own
    is_chosen = {labels[at] for at in np.unique(chosen)}
    within = [aucs[label] for label in labels if label == best or label in is_chosen or means[label] >= reach]
    highest = [figure(one.of_targets.mean(axis=0), variances.of_halves(one, one)) for one in within]
    return best, with_highest_ends(figure(values, variances.of_choice(within)), highest)


class _Variances(NamedTuple):
    """Variances of AUCs whose halves of the records may come from two attacks."""

    left_out: LeftOut
    n_records: int

    def of_halves(self, first: HalfAucs, second: HalfAucs) -> Variance:
        """Of the mean of one attack on the first half and another on the second."""
        without = first.without[:, 0] + second.without[:, 1]
        return self._of_parts((first.parts[0] + second.parts[1]) / 2, without / 2)

    def of_difference(self, first: HalfAucs, second: HalfAucs) -> Variance:
        """Of the difference of two attacks."""
        parts, without = first.parts - second.parts, first.without - second.without
        return self._of_parts(parts.sum(axis=0) / 2, without.sum(axis=1) / 2)

    def of_choice(self, within: Sequence[HalfAucs]) -> Variance:
        """Of the AUC of whichever attack is chosen.

        Another sample may choose any attacks within reach, so the least certain choice counts. Halves with
        one attack can cancel each other's deviations, where models have equally many members; with two they
        do not.
        """
        variance = _largest(self.of_halves(*pair) for pair in product(within, repeat=2))
        if len(within) == 1:
            return variance
        by_choice = _largest(self.of_difference(*pair) for pair in combinations(within, 2))
        return variance.with_share_of(by_choice, _SHARE_OF_CHOICE)

    def _of_parts(self, parts: FloatArray, without: FloatArray) -> Variance:
        return two_way_variance(
            parts,
            without if len(without) else None,
            self.left_out.n_in,
            self.n_records,
            self.left_out.n_models,
            no_leakage=NoLeakage(0.5),
        )


def chosen_elsewhere(aucs: Mapping[str, HalfAucs]) -> IntArray:
    """Which attack, by its place, is strongest on the other records and models; int64 (2, targets)."""
    of_targets = np.stack([one.of_targets for one in aucs.values()])
    model_half = next(iter(aucs.values())).model_half
    chosen = np.empty(of_targets.shape[1:], dtype=np.int64)
    for half, side in product((0, 1), np.unique(model_half)):
        others = model_half != side
        judges = others if others.any() else ~others
        means = _mean_of_defined(of_targets[:, 1 - half, judges])
        chosen[half, model_half == side] = int(np.argmax(means))
    return chosen


def _mean_of_defined(aucs: FloatArray) -> FloatArray:
    """Over the targets with members and non-members; 0.5 without any. (attacks, targets) -> (attacks,)."""
    is_defined = ~np.isnan(aucs)
    n_defined = is_defined.sum(axis=1)
    total = np.where(is_defined, aucs, 0.0).sum(axis=1)
    means: FloatArray = np.divide(total, n_defined, out=np.full(len(aucs), 0.5), where=n_defined > 0)
    return means


def _largest(variances: Iterable[Variance]) -> Variance:
    return max(variances, key=lambda one: one.standard_error(these_records=False))


def _auc(scores: FloatArray, is_member: BoolArray, records: BoolArray) -> float:
    sides = split_scores(scores[records], is_member[records])
    return auc_of_split(sides) if min(map(len, sides)) else float("nan")
