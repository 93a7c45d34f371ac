"""The trainings of the linear figures: crossed, in closed form, record by record.

Each record has 2 K draws of other records, which are nested: a training set of size n is the first n of a
draw (OUT), or the first n - 1 and the record (IN). The points of a figure share their draws, so their moments
are sums that grow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.leakage.experiment import Experiment, Release, experiment, stacked
from leakscope.leakage.regressions import (
    draw_others,
    mean_square_inputs,
    moment_sums,
    moment_table,
    ridge,
    training_loss,
)
from leakscope.randomness import Purpose, generator
from leakscope.studies.leakage.config import CONTROL, LeakageConfig, Setting
from leakscope.studies.leakage.universe import Universe

_WITH_NEIGHBOURS = 10
"""Records whose output leakage is also estimated by nearest neighbors, which is slow."""


class Draws(NamedTuple):
    """The random draws of one record, the same at every point of a figure.

    Attributes:
        others: int64 (2 K, largest size), indices of other records.
        noise: float64 (2 K, largest number of parameters), unit noise on the parameters.
        is_swapped: bool (2 K,), whether IN and OUT are exchanged; all false except in the control.
    """

    others: IntArray
    noise: FloatArray
    is_swapped: BoolArray


def linear_experiments(
    config: LeakageConfig,
    universe: Universe,
    figure: int,
    points: tuple[Setting, ...],
    log: Callable[[str], None],
) -> list[Experiment]:
    """One experiment per point, with all chosen records."""
    n_features = max(point.n_features for point in points)
    table = moment_table(universe.features[:, :n_features], universe.targets)
    name = f"figure {figure}" if figure else "shuffled presence"
    log(f"{name}: {4 * config.trials * config.records * len(points):,} regressions")
    by_record = [_one_record(config, universe, table, figure, points, rank) for rank in range(config.records)]
    return [stacked([record[i] for record in by_record]) for i in range(len(points))]


def draws_of(
    config: LeakageConfig, universe: Universe, rank: int, points: tuple[Setting, ...], shuffled: bool = False
) -> Draws:
    """The draws of the `rank`-th chosen record."""
    rng = generator(config.seed, 1 + rank, Purpose.DESIGN)
    n_draws, record = 2 * config.trials, int(universe.chosen[rank])
    size = max(point.size for point in points)
    others = draw_others(rng, len(universe.targets), record, n_draws, size)
    noise = rng.standard_normal((n_draws, 1 + max(point.n_features for point in points)))
    is_swapped = rng.random(n_draws) < 0.5 if shuffled else np.zeros(n_draws, dtype=np.bool_)
    return Draws(others, noise, is_swapped)


def _one_record(
    config: LeakageConfig,
    universe: Universe,
    table: FloatArray,
    figure: int,
    points: tuple[Setting, ...],
    rank: int,
) -> list[Experiment]:
    record = int(universe.chosen[rank])
    draws = draws_of(config, universe, rank, points, figure == CONTROL)
    experiments, sums, n_summed = [], np.zeros((len(draws.others), table.shape[1])), 0
    for point in points:  # sizes never fall
        sums = sums + moment_sums(table, draws.others[:, n_summed : point.size - 1])
        n_summed = point.size - 1
        inside, outside, mean_loss = _train_crossed(table, sums, record, draws, point)
        halves = (2, config.trials, -1)
        noise = draws.noise[:, : point.n_features + 1].reshape(halves) if point.noise_sd else None
        experiments.append(
            experiment(
                inside.reshape(halves),
                outside.reshape(halves),
                np.concatenate([[1.0], universe.features[record, : point.n_features]]),
                float(universe.targets[record]),
                mean_loss,
                Release(point.noise_sd, noise),
                with_neighbours=rank < _WITH_NEIGHBOURS,
            )
        )
    return experiments


def _train_crossed(
    table: FloatArray, shared: FloatArray, record: int, draws: Draws, point: Setting
) -> tuple[FloatArray, FloatArray, float]:
    """Parameters (2 K, p) with and without the record, and the released models' mean loss on training sets.

    `shared` (2 K, entries) holds the moments of the n - 1 other records that both have.
    """
    replacement = draws.others[:, point.size - 1]
    sums = [shared + table[record], shared + table[replacement]]
    theta = [ridge(side, point.size, point.weight, point.n_features) for side in sums]
    losses = [
        training_loss(side, point.size, parameters)
        + point.noise_sd**2 * mean_square_inputs(side, point.size, point.n_features)
        for side, parameters in zip(sums, theta, strict=True)
    ]
    swapped = draws.is_swapped[:, None]
    inside, outside = np.where(swapped, theta[1], theta[0]), np.where(swapped, theta[0], theta[1])
    return inside, outside, float(np.mean(losses))
