"""The trainings of the linear figures: crossed, in closed form, record by record.

Each record has 2 K draws of other records, which are nested: a training set of size n is the first n of a
draw (OUT), or the first n - 1 and the record (IN). The points of a figure share their draws, so their moments
are sums that grow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.leakage.experiment import Experiment, Release, Utility, experiment, stacked
from leakscope.leakage.regressions import (
    draw_others,
    mean_square_inputs,
    moment_sums,
    moment_table,
    ridge,
    training_loss,
)
from leakscope.leakage.sensitivity import clipped
from leakscope.randomness import Purpose, generator
from leakscope.studies.leakage.config import (
    CONTROL,
    FIGURES,
    HALF_RANGE,
    LeakageConfig,
    Setting,
    part_name,
)
from leakscope.studies.leakage.universe import Universe

_WITH_NEIGHBOURS = 10
"""Records whose output leakage is also estimated by nearest neighbors, which is slow."""
_TESTED_MODELS, _TEST_RECORDS = 50, 2000
"""Models per record, and records outside their training sets, on which accuracy is measured."""


class Prepared(NamedTuple):
    """All records as the regressions see them.

    Attributes:
        inputs: float64 (records, p), (1, x), clipped where a setting says so.
        targets: float64 (records,).
        table: float64 (records, entries), their second moments.
    """

    inputs: FloatArray
    targets: FloatArray
    table: FloatArray


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


class Pair(NamedTuple):
    """Regressions of one record at one point.

    Attributes:
        inside: float64 (2 K, p), parameters with the record.
        outside: float64 (2 K, p), parameters without it.
        mean_loss: of the released models on their training sets.
    """

    inside: FloatArray
    outside: FloatArray
    mean_loss: float


def linear_experiments(
    config: LeakageConfig,
    universe: Universe,
    figure: int,
    points: tuple[Setting, ...],
    log: Callable[[str], None],
) -> list[Experiment]:
    """One experiment per point, with all chosen records."""
    log(f"{part_name(figure)}: {4 * config.trials * config.records * len(points):,} regressions")
    if len({point.clip for point in points}) > 1:  # each point has its own inputs
        return [_experiments(config, universe, figure, (point,))[0] for point in points]
    return _experiments(config, universe, figure, points)


def prepared(universe: Universe, points: tuple[Setting, ...]) -> Prepared:
    """The records with as many features as the points need, clipped alike at all of them."""
    n_features, clip = max(point.n_features for point in points), points[0].clip
    x, y = universe.features[:, :n_features], universe.targets
    inputs = np.column_stack([np.ones(len(x)), x])
    if clip:
        inputs, y = clipped(inputs, clip), y - HALF_RANGE
    return Prepared(inputs, y, moment_table(inputs[:, 1:], y, inputs[:, 0]))


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


def _experiments(
    config: LeakageConfig, universe: Universe, figure: int, points: tuple[Setting, ...]
) -> list[Experiment]:
    records = prepared(universe, points)
    by_record = [
        _one_record(config, universe, records, figure, points, rank) for rank in range(config.records)
    ]
    return [stacked([record[i] for record in by_record]) for i in range(len(points))]


def _one_record(
    config: LeakageConfig,
    universe: Universe,
    records: Prepared,
    figure: int,
    points: tuple[Setting, ...],
    rank: int,
) -> list[Experiment]:
    record = int(universe.chosen[rank])
    draws = draws_of(config, universe, rank, points, figure == CONTROL)
    experiments, sums, n_summed = [], np.zeros((len(draws.others), records.table.shape[1])), 0
    for point in points:  # sizes never fall
        sums = sums + moment_sums(records.table, draws.others[:, n_summed : point.size - 1])
        n_summed = point.size - 1
        pair = trained_pair(records.table, sums, record, draws, point)
        halves, n_parameters = (2, config.trials, -1), point.n_features + 1
        noise = draws.noise[:, :n_parameters].reshape(halves) if point.noise_sd else None
        experiments.append(
            experiment(
                pair.inside.reshape(halves),
                pair.outside.reshape(halves),
                records.inputs[record, :n_parameters],
                float(records.targets[record]),
                pair.mean_loss,
                Release(point.noise_sd, noise, point.grid),
                with_neighbours=rank < _WITH_NEIGHBOURS and figure in FIGURES,
                utility=_utility(records, draws.others[:, : point.size], pair.outside, point),
            )
        )
    return experiments


def trained_pair(table: FloatArray, shared: FloatArray, record: int, draws: Draws, point: Setting) -> Pair:
    """The regressions with and without the record.

    `shared` (2 K, entries) holds the moments of the n - 1 other records that both have.
    """
    replacement = draws.others[:, point.size - 1]
    sums = [shared + table[record], shared + table[replacement]]
    theta = [ridge(side, point.size, np.asarray(point.weight), point.n_features) for side in sums]
    losses = [
        training_loss(side, point.size, parameters)
        + point.noise_sd**2 * mean_square_inputs(side, point.size, point.n_features)
        for side, parameters in zip(sums, theta, strict=True)
    ]
    swapped = draws.is_swapped[:, None]
    inside, outside = np.where(swapped, theta[1], theta[0]), np.where(swapped, theta[0], theta[1])
    return Pair(inside, outside, float(np.mean(losses)))


def population_error(table: FloatArray, theta: FloatArray) -> FloatArray:
    """Mean squared error of models (models, p) over all records; float64 (models,)."""
    everyone = np.broadcast_to(table.sum(axis=0), (len(theta), table.shape[1]))
    return training_loss(everyone, len(table), theta)


def _utility(records: Prepared, members: IntArray, theta: FloatArray, point: Setting) -> Utility:
    """Of models trained without the record, on other records; noise enters in closed form."""
    n_parameters = point.n_features + 1
    penalty = np.broadcast_to(np.asarray(point.weight, dtype=np.float64), n_parameters).copy()
    models = slice(0, min(_TESTED_MODELS, len(theta)))
    noise = point.noise_sd**2 * float((records.inputs[:, :n_parameters] ** 2).sum(axis=1).mean())
    error = float(population_error(records.table, theta[models]).mean()) + noise
    accuracy, constant = _accuracies(records, members[models], theta[models], point.noise_sd)
    return Utility(accuracy, constant, error, penalty)


def _accuracies(
    records: Prepared, members: IntArray, theta: FloatArray, noise_sd: float
) -> tuple[float, float]:
    """Share of non-members on the right side of the middle of the targets: of models, and of a constant."""
    n_records, n_parameters = len(records.targets), theta.shape[1]
    tested = np.random.default_rng(0).permutation(n_records)[:_TEST_RECORDS]
    middle = (records.targets.min() + records.targets.max()) / 2
    inputs, is_above = records.inputs[tested, :n_parameters], records.targets[tested] > middle
    margin = (theta @ inputs.T - middle) * np.where(is_above, 1.0, -1.0)  # (models, tested)
    spread = noise_sd * np.linalg.norm(inputs, axis=1)
    is_right = scipy.special.ndtr(margin / spread) if noise_sd else np.asarray(margin > 0, dtype=np.float64)
    position = np.full(n_records, -1)
    position[tested] = np.arange(len(tested))
    is_outside = np.ones(margin.shape, dtype=np.bool_)
    at = position[members]
    model, column = np.nonzero(at >= 0)
    is_outside[model, at[model, column]] = False
    share = float(np.broadcast_to(is_above, margin.shape)[is_outside].mean())
    return float(is_right[is_outside].mean()), max(share, 1 - share)
