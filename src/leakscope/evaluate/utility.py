"""What a defence may cost: accuracy of classifiers, R² of regressions, on records a model was not trained on.

R² is 1 minus the mean squared error over the variance of the labels: 1 where every prediction is right, 0
where models know no more than the mean of the labels, below 0 where they know less. Both are means over
records, so whatever is computed from one number per record works for both.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from leakscope.array_types import FloatArray, IntArray
from leakscope.errors import InputError
from leakscope.evaluate.figure import GATE_LEVEL, LEVEL, UNDEFINED
from leakscope.evaluate.results import Figure
from leakscope.signals.registry import LANGUAGE, REGRESSION, task_of, task_of_records
from leakscope.stats.estimate import Estimate
from leakscope.stats.two_way import Variance
from leakscope.types import Records, Signals

UtilityName = Literal["accuracy", "R²"]


class Utility(NamedTuple):
    """How well models predict.

    Attributes:
        name: in sentences.
        signal: what it is computed from.
        is_rate: whether it is a share of the records, which is read in percent.
    """

    name: UtilityName
    signal: str
    is_rate: bool

    def level(self, value: float | None) -> str:
        """A value: "95.2%", or "0.812"."""
        if value is None or np.isnan(value):
            return "undefined"
        return f"{value:.1%}" if self.is_rate else f"{value:.3f}"

    def change(self, value: float | None, low: float | None, high: float | None) -> str:
        """A difference with its interval, in percentage points or as it is."""
        numbers = [self._signed(one or 0.0) for one in (value, low, high)]
        return numbers[0] if low is None or high is None else f"{numbers[0]} ({numbers[1]} to {numbers[2]})"

    def loss(self, share: float) -> str:
        """What may be lost: "2 points of accuracy", or "0.02 of R²"."""
        return f"{100 * share:g} points of accuracy" if self.is_rate else f"{share:g} of {self.name}"

    def _signed(self, value: float) -> str:
        return f"{100 * value:+.1f}" if self.is_rate else f"{value:+.3f}"


ACCURACY = Utility("accuracy", "correct", is_rate=True)
R_SQUARED = Utility("R²", "loss", is_rate=False)


def utility_named(name: UtilityName) -> Utility:
    """The utility of this name."""
    return ACCURACY if name == ACCURACY.name else R_SQUARED


def capitalized(name: str) -> str:
    """At the beginning of a sentence."""
    return f"{name[0].upper()}{name[1:]}"


def utility_of(records: Records) -> Utility:
    """What models of these records may lose by a defence.

    Raises:
        InputError: they are documents, or numbers that do not vary.
    """
    task = task_of_records(records)
    if task == LANGUAGE:
        raise InputError(
            f"{records.name}: documents without classes; what a defence costs is measured in accuracy or R², "
            "which language models do not have"
        )
    if task != REGRESSION:
        return ACCURACY
    if not np.ptp(records.labels) > 0:
        raise InputError(f"{records.name}: all labels are equal, so that no model can explain their variance")
    return R_SQUARED


def utility_values(signals: Signals, records: IntArray | None = None) -> FloatArray:
    """One number per model and record, whose mean is the utility; float64 (models, records).

    Args:
        signals: of the models.
        records: those whose labels have the variance that is to be explained; None: all.
    """
    if task_of(signals.labels) != REGRESSION:
        return np.asarray(signals.last(ACCURACY.signal), dtype=np.float64)
    squares = np.asarray(signals.last(R_SQUARED.signal), dtype=np.float64)
    return 1 - squares / _variance_of(signals, records)


def r_squared(error: Figure, signals: Signals) -> Estimate:
    """R² from a root mean squared error, with the interval for these records."""
    variance = _variance_of(signals, None)
    value, low, high = (
        None if end is None or np.isnan(end) else 1 - end**2 / variance
        for end in (error.value, error.these_high, error.these_low)
    )
    return Estimate(value, low, high)


def figure_of_means(values: FloatArray, variance: Variance) -> Figure:
    """The mean over targets with both intervals, of numbers that have no bounds.

    Args:
        values: float64 (targets,), at least two.
        variance: of the mean.
    """
    mean, sd = float(values.mean()), float(values.std(ddof=1))
    if not variance.degrees or not np.isfinite(variance.like_these):
        return replace(UNDEFINED, value=mean, sd=sd)

    def reach(level: float, *, these_records: bool) -> float:
        error = variance.standard_error(these_records=these_records)
        return float(variance.quantile(level, these_records=these_records) * error)

    others, these = (reach(LEVEL, these_records=these) for these in (False, True))
    return Figure(
        mean,
        mean - others,
        mean + others,
        sd,
        mean - these,
        mean + these,
        high_99=mean + reach(GATE_LEVEL, these_records=False),
        these_high_99=mean + reach(GATE_LEVEL, these_records=True),
    )


def _variance_of(signals: Signals, records: IntArray | None) -> float:
    labels = signals.labels if records is None else signals.labels[records]
    return float(np.var(labels, dtype=np.float64))
