"""The strongest attack, without the luck of having been chosen.

The largest of several AUCs exceeds what its attack achieves. So the attack that is strongest on one half of
the records is measured on the other half, and the other way round.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import NamedTuple

import numpy as np

from leakscope.array_types import BoolArray, FloatArray
from leakscope.disk.scratch import evict_pages
from leakscope.evaluate.attack_figures import Scored
from leakscope.evaluate.curve_variances import of_one_target
from leakscope.evaluate.figure import figure_of_targets
from leakscope.evaluate.results import Figure
from leakscope.evaluate.uncertainty import LeftOut, half_auc_parts
from leakscope.stats.intervals import clopper_pearson
from leakscope.stats.parts import halves
from leakscope.stats.roc import auc_of_split, split_scores
from leakscope.stats.two_way import NoLeakage, Variance, two_way_variance


class HalfAucs(NamedTuple):
    """The AUC of one attack within each half of the records.

    Attributes:
        of_targets: float64 (2, targets).
        parts: float64 (2, sampled records), of the mean over targets.
        without: float64 (groups, 2, sampled records), the same without each group of models.
        sizes: numbers of members and of non-members of the first target.
    """

    of_targets: FloatArray
    parts: FloatArray
    without: FloatArray
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
    return HalfAucs(of_targets, parts, parts_without, (n_members, n_records - n_members))


def strongest(aucs: Mapping[str, HalfAucs], left_out: LeftOut, n_records: int) -> tuple[str, Figure]:
    """The strongest attack of several, and its AUC.

    Args:
        aucs: label -> AUCs of each attack.
        left_out: how models were left out.
        n_records: number of records of the audit.
    """
    means = {label: np.nan_to_num(one.of_targets.mean(axis=1)) for label, one in aucs.items()}
    chosen = [max(means, key=lambda label: float(means[label][1 - half])) for half in (0, 1)]
    of_targets = np.mean([aucs[label].of_targets[half] for half, label in enumerate(chosen)], axis=0)
    best = max(means, key=lambda label: float(means[label].mean()))

    def variance_of(first: HalfAucs, second: HalfAucs) -> Variance:
        without = first.without[:, 0] + second.without[:, 1]
        return two_way_variance(
            (first.parts[0] + second.parts[1]) / 2,
            without / 2 if len(without) else None,
            left_out.n_in,
            n_records,
            left_out.n_models,
            no_leakage=NoLeakage(0.5),
        )

    own = variance_of(aucs[best], aucs[best]).standard_error(these_records=False)
    reach = float(means[best].mean()) - 2 * own
    within = [aucs[label] for label in means if label in (best, *chosen) or means[label].mean() >= reach]
    # Another sample may choose any attacks within reach, so the least certain choice counts. Halves with one
    # attack can cancel each other's deviations, where models have equally many members; with two they do not.
    variance = max(
        (variance_of(first, second) for first, second in product(within, repeat=2)),
        key=lambda one: one.standard_error(these_records=False),
    )
    if len(of_targets) == 1:
        variance = of_one_target(variance, *aucs[best].sizes)
    n_pairs = max(n_records // 4, 1)
    figure = figure_of_targets(
        of_targets, variance, lambda auc, level: clopper_pearson(round(auc * n_pairs), n_pairs, level)
    )
    return best, figure


def _auc(scores: FloatArray, is_member: BoolArray, records: BoolArray) -> float:
    sides = split_scores(scores[records], is_member[records])
    return auc_of_split(sides) if min(map(len, sides)) else float("nan")
