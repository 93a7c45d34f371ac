"""The linear figures' trainings: crossed, in closed form, one record after the other.

For each record 2 K draws of others, nested: a training set of n is the first n of a draw (OUT), or the first
n - 1 and the record (IN). Points of a figure share the draws, so their moments are sums that grow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.leakage.experiment import Experiment, Release, experiment, stacked
from leakscope.leakage.regressions import (
    MomentTable,
    draw_others,
    mean_square_inputs,
    moment_sums,
    moment_table,
    ridge,
    training_loss,
)
from leakscope.randomness import Purpose, generator
from leakscope.studies.leakage.study import CONTROL, LeakageConfig, Setting
from leakscope.studies.leakage.universe import Universe

_WITH_NEIGHBOURS = 10
"""Records whose answers' leakage is also estimated by nearest neighbours, which is slow."""


class Draws(NamedTuple):
    """One record's randomness, the same at every point of a figure.

    Attributes:
        others: int64 (2 K, largest size), record numbers.
        noise: float64 (2 K, most parameters), unit noise on the parameters.
        is_swapped: bool (2 K,), whether IN and OUT trade places; all false except in the control.
    """

    others: IntArray
    noise: FloatArray
    is_swapped: BoolArray


class Trained(NamedTuple):
    """Crossed trainings of one record at one point; theta (2 K, p)."""

    inside: FloatArray
    outside: FloatArray
    mean_loss: float


def linear_experiments(
    config: LeakageConfig,
    everyone: Universe,
    figure: int,
    points: tuple[Setting, ...],
    say: Callable[[str], None],
) -> list[Experiment]:
    """One experiment a point, all chosen records in it."""
    most = max(point.n_features for point in points)
    table = moment_table(everyone.features[:, :most], everyone.targets)
    name = f"figure {figure}" if figure else "shuffled presence"
    say(f"{name}: {4 * config.trials * config.records * len(points):,} regressions")
    by_record = [_one_record(config, everyone, table, figure, points, rank) for rank in range(config.records)]
    return [stacked([record[i] for record in by_record]) for i in range(len(points))]


def draws_of(
    config: LeakageConfig, everyone: Universe, rank: int, points: tuple[Setting, ...], shuffled: bool = False
) -> Draws:
    """The draws of the `rank`-th chosen record."""
    rng = generator(config.seed, 1 + rank, Purpose.DESIGN)
    n_draws, record = 2 * config.trials, int(everyone.chosen[rank])
    size = max(point.size for point in points)
    others = draw_others(rng, len(everyone.targets), record, n_draws, size)
    noise = rng.standard_normal((n_draws, 1 + max(point.n_features for point in points)))
    is_swapped = rng.random(n_draws) < 0.5 if shuffled else np.zeros(n_draws, dtype=np.bool_)
    return Draws(others, noise, is_swapped)


def _one_record(
    config: LeakageConfig,
    everyone: Universe,
    table: MomentTable,
    figure: int,
    points: tuple[Setting, ...],
    rank: int,
) -> list[Experiment]:
    record = int(everyone.chosen[rank])
    draws = draws_of(config, everyone, rank, points, figure == CONTROL)
    found, so_far, n_so_far = [], np.zeros((len(draws.others), table.entries.shape[1])), 0
    for point in points:  # sizes rise or stay
        so_far = so_far + moment_sums(table, draws.others[:, n_so_far : point.size - 1])
        n_so_far = point.size - 1
        trained = train_crossed(table, so_far, record, draws, point)
        halves = (2, config.trials, -1)
        noise = draws.noise[:, : point.n_features + 1].reshape(halves) if point.noise_sd else None
        found.append(
            experiment(
                trained.inside.reshape(halves),
                trained.outside.reshape(halves),
                np.concatenate([[1.0], everyone.features[record, : point.n_features]]),
                float(everyone.targets[record]),
                trained.mean_loss,
                Release(point.noise_sd, noise),
                with_neighbours=rank < _WITH_NEIGHBOURS,
            )
        )
    return found


def train_crossed(
    table: MomentTable, shared: FloatArray, record: int, draws: Draws, point: Setting
) -> Trained:
    """Both regressions of each draw, and the mean loss of the released models on their training sets.

    Args:
        table: moments of all records.
        shared: float64 (2 K, entries), moments of the n - 1 others that both have.
        record: the record in question.
        draws: its draws.
        point: size, weight, features and noise.
    """
    replacement = draws.others[:, point.size - 1]
    sums = [shared + table.entries[record], shared + table.entries[replacement]]
    theta = [ridge(side, point.size, point.weight, point.n_features) for side in sums]
    losses = [
        training_loss(side, point.size, parameters)
        + point.noise_sd**2 * mean_square_inputs(side, point.size, point.n_features)
        for side, parameters in zip(sums, theta, strict=True)
    ]
    swapped = draws.is_swapped[:, None]
    inside, outside = np.where(swapped, theta[1], theta[0]), np.where(swapped, theta[0], theta[1])
    return Trained(inside, outside, float(np.mean(losses)))
