"""Leakage as a regularizer: ridge weights chosen to minimize squared error plus a multiple of the leakage.

Farokhi and Kaafar (2020) propose it as future work. A regression with one ridge weight per parameter is
trained in closed form like any other, so the leakage of the *training algorithm* is a function of these
weights, and its estimate can be minimized together with the error. The weights are chosen on records of their
own, with draws of their own; `linear` then measures leakage and error on the chosen records. The question is
whether they leak less than ridge *of the same error*. Weights may be better merely because there is one per
parameter, so there are two kinds of ridge to compare with: plain ridge, and weights chosen for the error
alone, all multiplied by one factor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import optimize

from leakscope.array_types import FloatArray
from leakscope.leakage.bias import crossed
from leakscope.leakage.experiment import Experiment
from leakscope.leakage.gaussian import fit
from leakscope.leakage.regressions import moment_sums
from leakscope.studies.leakage.config import REGULARIZER, LeakageConfig, Setting
from leakscope.studies.leakage.linear import (
    Draws,
    Prepared,
    draws_of,
    linear_experiments,
    population_error,
    prepared,
    trained_pair,
)
from leakscope.studies.leakage.universe import Universe, chosen_records

SIZE = 20
"""Training records: at 10, the leakage of a few records dominates the mean."""
RIDGE_WEIGHTS = tuple(0.125 * 2.0**k for k in range(10))
"""Weights of plain ridge, 0.125 to 64, fine enough to interpolate between."""
FACTORS = tuple(2.0**k for k in range(9))
"""Multiples of the weights that are chosen for the error alone."""
STRENGTHS = (0.01, 0.03, 0.1, 0.3)
"""Multiples of the leakage, in units of squared error per nat."""
_MOST_RECORDS, _MOST_TRIALS = 12, 150
_LOWEST, _HIGHEST = 1e-4, 1e3
"""Range of a weight."""


class _Tuning(NamedTuple):
    """What the weights are chosen on: one entry per record.

    Attributes:
        records: all records.
        chosen: indices of the records.
        draws: their draws.
        shared: moments of the training records that both sides have.
    """

    records: Prepared
    chosen: list[int]
    draws: list[Draws]
    shared: list[FloatArray]


def regularizer_experiments(
    config: LeakageConfig, universe: Universe, log: Callable[[str], None]
) -> list[Experiment]:
    """One experiment per weight of plain ridge, per factor, and per strength of the leakage penalty."""
    tuning, chosen = _tuning(config, universe), []
    for strength in (0.0, *STRENGTHS):
        log(f"regularizer: leakage times {strength:g}, {config.regularizer_steps} evaluations")
        chosen.append(_chosen_weights(tuning, strength, config))
    plain = [Setting(weight, SIZE, weight) for weight in RIDGE_WEIGHTS]
    scaled = [Setting(f, SIZE, tuple(f * weight for weight in chosen[0])) for f in FACTORS]
    penalized = [Setting(k, SIZE, weights) for k, weights in zip(STRENGTHS, chosen[1:], strict=True)]
    return linear_experiments(config, universe, REGULARIZER, (*plain, *scaled, *penalized), log)


def _tuning(config: LeakageConfig, universe: Universe) -> _Tuning:
    """Records after the chosen ones, so that nothing is tuned on what is measured."""
    n_more = min(_MOST_RECORDS, config.records)
    more = universe._replace(
        chosen=chosen_records(len(universe.targets), config.records + n_more, config.seed)
    )
    points = (Setting(0.0, SIZE),)
    records, ranks = prepared(universe, points), range(config.records, config.records + n_more)
    every = [draws_of(config, more, rank, points) for rank in ranks]
    n_draws = 2 * min(config.trials, _MOST_TRIALS)
    draws = [Draws(one.others[:n_draws], one.noise[:n_draws], one.is_swapped[:n_draws]) for one in every]
    shared = [moment_sums(records.table, one.others[:, : SIZE - 1]) for one in draws]
    return _Tuning(records, [int(more.chosen[rank]) for rank in ranks], draws, shared)


def _chosen_weights(tuning: _Tuning, strength: float, config: LeakageConfig) -> tuple[float, ...]:
    """The weights that minimize error plus `strength` times leakage, by the simplex method on logarithms."""

    def objective(logs: FloatArray) -> float:
        return _objective(tuning, np.exp(np.clip(logs, np.log(_LOWEST), np.log(_HIGHEST))), strength)

    n_parameters = tuning.records.inputs.shape[1]
    start = min(RIDGE_WEIGHTS[::3], key=lambda weight: objective(np.full(n_parameters, np.log(weight))))
    first = np.full(n_parameters, np.log(start))
    simplex = np.vstack([first, first + np.eye(n_parameters)])
    allowed = {"maxfev": config.regularizer_steps, "initial_simplex": simplex, "xatol": 1e-2, "fatol": 1e-6}
    best = optimize.minimize(objective, first, method="Nelder-Mead", options=allowed)
    return tuple(np.exp(np.clip(best.x, np.log(_LOWEST), np.log(_HIGHEST))).tolist())


def _objective(tuning: _Tuning, weights: FloatArray, strength: float) -> float:
    """Mean over records of squared error and corrected leakage; infinite leakage counts as 1,000 nats."""
    point, values = Setting(0.0, SIZE, tuple(weights.tolist())), []
    for record, draws, shared in zip(tuning.chosen, tuning.draws, tuning.shared, strict=True):
        pair = trained_pair(tuning.records.table, shared, record, draws, point)
        halves = (2, len(draws.others) // 2, len(weights))
        leakage = crossed(fit(pair.inside.reshape(halves)), fit(pair.outside.reshape(halves))).corrected
        error = population_error(tuning.records.table, pair.outside[:25]).mean()
        values.append(error + strength * min(float(leakage), 1000.0))
    return float(np.mean(values))
