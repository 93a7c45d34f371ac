"""Standard errors of the figures over models: a jackknife, or several independent populations.

Jackknife: the models are split into groups. Each group is left out in turn, as targets and as references, and
attack, decisions and figures are recomputed. With G groups the standard error is
`sqrt((G - 1) / G * sum (figure without g - their mean)^2)` (Quenouille, Tukey). One group per model is the
classical form; fewer groups cost less. The formula is rough for figures that change in jumps, such as the
share of records in a cell when rates are multiples of a tenth. Independent populations are more reliable and
cost more.

The publication requires a coefficient of variation of the advantage below 0.15. It does not say of what, so
two are computed: that of the mean advantage, and that of a single finally vulnerable record's advantage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from leakscope.array_types import FloatArray, IntArray
from leakscope.attacks.base import Attack
from leakscope.dynamics.decisions import decide
from leakscope.dynamics.grid import SIDE, is_vulnerable
from leakscope.dynamics.metrics import Arrays, metrics, over_repeats
from leakscope.dynamics.plane import ENTROPY_CELLS, Trajectories, trajectories
from leakscope.errors import InputError
from leakscope.types import Design, Prose, Signals

PUBLISHED_LIMIT = 0.15
"""The publication requires a smaller coefficient of variation."""


@dataclass(frozen=True)
class AdvantageVariation:
    """How much the advantage at the last checkpoint varies with the models.

    Attributes:
        mean: mean advantage over the records.
        standard_error: of that mean.
        coefficient: coefficient of variation, `standard_error / mean`; undefined unless the mean is positive.
        record_standard_error: standard error of a single record's advantage; the median over records.
        vulnerable_coefficient: coefficient of variation of a single vulnerable record; the median over them.
        reason: why a figure is undefined; empty where none is.
        method: how the standard errors were estimated.
        published_limit: the coefficient of variation must stay below this in the publication's setup.
    """

    mean: float | None
    standard_error: float | None
    coefficient: float | None
    record_standard_error: float | None
    vulnerable_coefficient: float | None
    reason: Prose
    method: Prose
    published_limit: float


class Replicates(NamedTuple):
    """Standard errors of every figure, NaN where it is undefined in any replicate, and of the advantage."""

    standard_error: Arrays
    advantage: AdvantageVariation


def jackknife(
    attack: Attack,
    signals: Signals,
    design: Design,
    fpr: float | None = None,
    *,
    n_groups: int,
    side: int = SIDE,
    entropy_cells: int = ENTROPY_CELLS,
) -> Replicates:
    """Standard error of every figure from leaving out groups of models; `fpr` as in `decide`."""
    groups = model_groups(design.n_models, n_groups)
    needed = Signals(
        {name: signals.arrays[name] for name in attack.reads_from(signals)},
        signals.epochs,
        signals.labels,
    )

    def paths_of(models: IntArray) -> Trajectories:
        own = design.take(models)
        return trajectories(decide(attack, needed.take(models), own, fpr), own.in_mask)

    everyone = np.arange(design.n_models)
    without = [paths_of(np.setdiff1d(everyone, group)) for group in groups]
    n = len(groups)
    method = f"jackknife over {n} groups of {len(everyone)} models"
    return _replicates(method, paths_of(everyone), without, scale=(n - 1) / n, side=side, cells=entropy_cells)


def model_groups(n_models: int, n_groups: int) -> list[IntArray]:
    """Groups whose sizes differ by at most one; model m is in group m modulo the number of groups."""
    if not 2 <= n_groups <= n_models or n_models - -(-n_models // n_groups) < 3:
        raise InputError(
            f"n_groups={n_groups}: must be from 2 to {n_models}, and each group must leave at least 3 models"
        )
    return [np.arange(group, n_models, n_groups) for group in range(n_groups)]


def over_populations(
    populations: Sequence[Trajectories], side: int = SIDE, entropy_cells: int = ENTROPY_CELLS
) -> Replicates:
    """Standard deviation of every figure over independent populations on the same records.

    It is the standard error of one population's figures; the mean of P populations has 1 / sqrt(P) of it.
    """
    n = len(populations)
    mean = Trajectories(populations[0].epochs, np.mean([p.states for p in populations], axis=0))
    return _replicates(
        f"{n} independent populations", mean, populations, scale=1 / (n - 1), side=side, cells=entropy_cells
    )


def _replicates(
    method: str, whole: Trajectories, repeats: Sequence[Trajectories], *, scale: float, side: int, cells: int
) -> Replicates:
    def standard_error(values: FloatArray) -> FloatArray:
        error: FloatArray = np.sqrt(scale * ((values - values.mean(axis=0)) ** 2).sum(axis=0))
        return error

    is_judged = np.logical_and.reduce([p.is_defined for p in (whole, *repeats)])
    if not is_judged.any():
        raise InputError(f"{method}: no record has IN and OUT models in all of them; train more models")
    final = np.stack([p.advantage[-1, is_judged] for p in repeats])  # (replicates, records)
    vulnerable = is_vulnerable(whole.states[-1:, is_judged], side)[0]
    advantage, record_error = whole.advantage[-1, is_judged], standard_error(final)
    mean, mean_error = float(advantage.mean()), float(standard_error(final.mean(axis=1)))
    reasons = [] if mean > 0 else ["the mean advantage is not above 0"]
    reasons += [] if vulnerable.any() else ["no record is vulnerable at the end"]
    variation = AdvantageVariation(
        mean,
        mean_error,
        mean_error / mean if mean > 0 else np.nan,
        float(np.median(record_error)),
        float(np.median(record_error[vulnerable] / advantage[vulnerable])) if vulnerable.any() else np.nan,
        "; ".join(reasons),
        method,
        PUBLISHED_LIMIT,
    )
    return Replicates(over_repeats([metrics(p, side, cells) for p in repeats], standard_error), variation)
