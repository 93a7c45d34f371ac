"""Extremely randomized trees (Geurts et al. 2006), many trees at once, level by level.

scikit-learn has them, too, but takes longer to import than these take to grow. A node draws candidates, each
a feature and a threshold between its lowest and its highest value, and takes the one that leaves members and
non-members purest (Gini). A node that no candidate divides draws again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray

_LEAST_IN_LEAF = 5
_MOST_DRAWS = 12
"""Of a node that no candidate divides; then it is a leaf."""
_ENTRIES_AT_ONCE = 1 << 16  # records of all trees that grow at once: few enough for the cache
_MEMBER = 1 << 16  # one sum counts records and members; a tree has fewer records

Fold = tuple[IntArray, IntArray]
"""Records to fit on, and records to score."""


class _Task(NamedTuple):
    """What trees are fitted to.

    Attributes:
        values: float32 (records * features,).
        n_features: number of features.
        weights: int32 (records,), 1 for a record, and `_MEMBER` more for a member.
        rng: draws the candidates.
    """

    values: AnyArray
    n_features: int
    weights: AnyArray
    rng: np.random.Generator

    def values_of(self, records: IntArray, features: IntArray) -> AnyArray:
        values: AnyArray = self.values[records * self.n_features + features]
        return values


class _Nodes(NamedTuple):
    """Nodes of all trees that may be divided.

    Attributes:
        records: int64, the records that trees are fitted to, node after node.
        sizes: int64 (nodes,), how many of them are in each node.
        members: int64 (nodes,), and how many of these are members.
        draws: int64 (nodes,), how often candidates were drawn in vain.
        scored: int64, the records to score.
        at: int64, the node where each of them is.
    """

    records: IntArray
    sizes: IntArray
    members: IntArray
    draws: IntArray
    scored: IntArray
    at: IntArray


class _Divisions(NamedTuple):
    """The best candidate of each node; values above the threshold go to the right.

    Where no candidate divides a node, all go to the left.
    """

    features: IntArray
    thresholds: AnyArray
    sizes: IntArray
    members: IntArray
    purities: FloatArray


def forest_probabilities(
    x: AnyArray, is_member: BoolArray, folds: Sequence[Fold], seed: int, n_trees: int
) -> FloatArray:
    """The probability that each record is a member, by the trees of the fold that scores it.

    Args:
        x: float32 (records, features).
        is_member: bool (records,).
        folds: each record is scored in one of them.
        seed: of the candidates.
        n_trees: number of trees of a fold.
    """
    weights = np.where(is_member, _MEMBER + 1, 1).astype(np.int32)
    values = np.ascontiguousarray(x, dtype=np.float32).ravel()
    task, totals = _Task(values, x.shape[1], weights, np.random.default_rng(seed)), np.zeros(len(x))
    for fitted, scored in folds:
        at_once = max(1, _ENTRIES_AT_ONCE // len(fitted))
        for start in range(0, n_trees, at_once):
            nodes = _roots(task, fitted, scored, min(at_once, n_trees - start))
            while len(nodes.sizes):
                nodes = _without_leaves(_divided(task, nodes, _best(task, nodes)), totals)
    return totals / n_trees


def _roots(task: _Task, fitted: IntArray, scored: IntArray, n_trees: int) -> _Nodes:
    sizes, n_members = np.full(n_trees, len(fitted)), int(task.weights[fitted].sum(dtype=np.int64)) // _MEMBER
    at = np.repeat(np.arange(n_trees), len(scored))
    members, draws = np.full(n_trees, n_members), np.zeros(n_trees, np.int64)
    return _Nodes(np.tile(fitted, n_trees), sizes, members, draws, np.tile(scored, n_trees), at)


def _best(task: _Task, nodes: _Nodes) -> _Divisions:
    """The best of as many candidates as the square root of the number of features."""
    n_nodes, starts = len(nodes.sizes), np.cumsum(nodes.sizes) - nodes.sizes
    weights, best = task.weights[nodes.records], _undivided(nodes)
    # Every node begins somewhere else in one order of the features: its candidates have different ones.
    order, begin = task.rng.permutation(task.n_features), task.rng.integers(task.n_features, size=n_nodes)
    for candidate in range(max(1, int(task.n_features**0.5))):
        features = order[(begin + candidate) % task.n_features]
        values = task.values_of(nodes.records, np.repeat(features, nodes.sizes))
        low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
        drawn = low + task.rng.random(n_nodes) * (high.astype(np.float64) - low)
        thresholds = np.where(drawn.astype(np.float32) < high, drawn.astype(np.float32), low)
        is_right = values > np.repeat(thresholds, nodes.sizes)
        counts = np.add.reduceat(np.where(is_right, np.int32(0), weights), starts).astype(np.int64)
        sizes, members = counts % _MEMBER, counts // _MEMBER
        purities = _purities(nodes, sizes, members)
        candidates = _Divisions(features, thresholds, sizes, members, purities)
        is_better = purities > best.purities
        best = _Divisions(*(np.where(is_better, *pair) for pair in zip(candidates, best, strict=True)))
    return best


def _undivided(nodes: _Nodes) -> _Divisions:
    n_nodes = len(nodes.sizes)
    nowhere = np.full(n_nodes, np.inf, np.float32)
    return _Divisions(np.zeros(n_nodes, np.int64), nowhere, nodes.sizes, nodes.members, np.zeros(n_nodes))


def _purities(nodes: _Nodes, sizes: IntArray, members: IntArray) -> FloatArray:
    """What is largest where the Gini impurity of both sides is least; 0 where one is too small."""
    others, members_of_others = nodes.sizes - sizes, nodes.members - members
    is_large = np.minimum(sizes, others) >= _LEAST_IN_LEAF
    left = (members**2 + (sizes - members) ** 2) / np.maximum(sizes, 1)
    right = (members_of_others**2 + (others - members_of_others) ** 2) / np.maximum(others, 1)
    return np.where(is_large, left + right, 0.0)


def _divided(task: _Task, nodes: _Nodes, best: _Divisions) -> _Nodes:
    """Both sides of every node, the left one first."""
    is_right = task.values_of(nodes.records, np.repeat(best.features, nodes.sizes)) > np.repeat(
        best.thresholds, nodes.sizes
    )
    # Stable: within a node, those on the left come first.
    side = 2 * np.repeat(np.arange(len(nodes.sizes)), nodes.sizes) + is_right
    in_order = nodes.records[np.argsort(side, kind="stable")]
    goes_right = task.values_of(nodes.scored, best.features[nodes.at]) > best.thresholds[nodes.at]
    draws = np.where(best.purities > 0, 0, nodes.draws + 1)
    return _Nodes(
        in_order,
        _alternating(best.sizes, nodes.sizes - best.sizes),
        _alternating(best.members, nodes.members - best.members),
        np.repeat(draws, 2),
        nodes.scored,
        2 * nodes.at + goes_right,
    )


def _alternating(left: IntArray, right: IntArray) -> IntArray:
    return np.stack([left, right], axis=1).ravel()


def _without_leaves(nodes: _Nodes, totals: FloatArray) -> _Nodes:
    """The nodes that may be divided; the shares of members in leaves are added to `totals`."""
    is_mixed = (nodes.members > 0) & (nodes.members < nodes.sizes)
    is_open = is_mixed & (nodes.sizes >= 2 * _LEAST_IN_LEAF) & (nodes.draws < _MOST_DRAWS)
    goes_on, shares = is_open[nodes.at], nodes.members / np.maximum(nodes.sizes, 1)
    arrived = ~goes_on
    totals += np.bincount(nodes.scored[arrived], shares[nodes.at[arrived]], len(totals))
    numbers = np.cumsum(is_open) - 1
    return _Nodes(
        nodes.records[np.repeat(is_open, nodes.sizes)],
        nodes.sizes[is_open],
        nodes.members[is_open],
        nodes.draws[is_open],
        nodes.scored[goes_on],
        numbers[nodes.at[goes_on]],
    )
