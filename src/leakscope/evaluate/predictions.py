"""How well the targets predict the records they were trained on, and the others."""

from __future__ import annotations

from functools import partial

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.disk.scratch import over_blocks
from leakscope.evaluate.figure import figure_of_targets
from leakscope.evaluate.results import AccuracyFigures, ErrorFigures, Figure
from leakscope.evaluate.uncertainty import Replicates, Sample, accuracy_parts
from leakscope.signals.registry import REGRESSION, task_of
from leakscope.stats.intervals import clopper_pearson
from leakscope.stats.rates import rates_by_model
from leakscope.stats.two_way import Variance
from leakscope.types import Design, Signals

_LEVEL = 0.95


def accuracy_figures(signals: Signals, design: Design, sample: Sample) -> AccuracyFigures | None:
    """Accuracy on members and non-members; None where it was not stored, or the task has none."""
    if "correct" not in signals.arrays:
        return None
    rates, targets = rates_by_model(signals.last("correct"), design.in_mask), sample.targets
    correct = sample.replicates_of(sample.signals.last("correct")[targets].astype(np.float64))
    variances = _variances(correct, design, sample)
    # Of one target, the units count as observations: records of one unit may be right or wrong together.
    n_members = design.of_units.in_mask[targets].sum(axis=1)
    n_others = design.of_units.n_records - n_members
    return AccuracyFigures(
        _rate_figure(rates.members[targets], n_members, variances[0]),
        _rate_figure(rates.nonmembers[targets], n_others, variances[1]),
    )


def error_figures(signals: Signals, design: Design, sample: Sample) -> ErrorFigures | None:
    """Root mean squared errors on members and non-members; None for classifiers."""
    if task_of(signals.labels) != REGRESSION or "loss" not in signals.arrays:
        return None
    members, nonmembers = _mean_squares(signals.last("loss"), design.in_mask)[:, sample.targets]
    squares = sample.replicates_of(sample.signals.last("loss")[sample.targets].astype(np.float64))
    variances = _variances(squares, design, sample)
    return ErrorFigures(_error_figure(members, variances[0]), _error_figure(nonmembers, variances[1]))


def _variances(values: Replicates, design: Design, sample: Sample) -> list[Variance]:
    """Of means over members and over non-members; a unit with several records is one observation."""
    units = sample.design.units
    own = values.variances(partial(accuracy_parts, units=units), design.of_units.n_records)
    return own if units is None or not values.without else [variance.of_plain_mean() for variance in own]


def _rate_figure(rates: FloatArray, n_records: IntArray, variance: Variance) -> Figure:
    n = int(n_records[0])
    return figure_of_targets(rates, variance, lambda rate, level: clopper_pearson(round(rate * n), n, level))


def _mean_squares(loss: AnyArray, in_mask: BoolArray) -> FloatArray:
    """Mean squared error of each model on its members and on the others; float64 (2, models)."""

    def sums(columns: slice) -> FloatArray:
        squares, mask = loss[:, columns].astype(np.float64), in_mask[:, columns]
        of_members = np.where(mask, squares, 0.0).sum(axis=1)
        return np.stack([of_members, squares.sum(axis=1) - of_members])

    totals = np.sum(over_blocks(in_mask.shape[1], sums, loss, in_mask), axis=0)
    n_members = in_mask.sum(axis=1)
    means: FloatArray = totals / np.maximum(np.stack([n_members, in_mask.shape[1] - n_members]), 1)
    return means


def _error_figure(mean_squares: FloatArray, variance: Variance) -> Figure:
    """The root of the mean square over targets, with the roots of its interval's ends."""
    mean, several = float(mean_squares.mean()), len(mean_squares) > 1
    sd = float(np.sqrt(mean_squares).std(ddof=1)) if several else None
    if (several and not variance.degrees) or not np.isfinite(variance.like_these):
        return Figure(float(np.sqrt(mean)), float("nan"), float("nan"), sd)

    def ends(*, these_records: bool) -> tuple[float, float]:
        error = variance.standard_error(these_records=these_records)
        reach = variance.quantile(_LEVEL, these_records=these_records) * error
        return float(np.sqrt(max(mean - reach, 0.0))), float(np.sqrt(mean + reach))

    return Figure(
        float(np.sqrt(mean)), *ends(these_records=False), sd, *(ends(these_records=True) if several else ())
    )
