"""The results that can settle a claim, and the rules by which a figure does.

The rules:

- A value agrees with a published one if its 95% interval contains it, or if both are equal when rounded as
  published. It is noise if its interval reaches the largest value under permuted memberships.
- A peak entry, a probability, of another size has no direction: it is not reproduced.
- A share agrees with "over 70%" if its interval reaches 70%. It is noise if chance alone reaches it.
- A published ratio is known within the rounding of its two values. Ours agrees if its interval overlaps with
  that range; it has the same direction if its interval lies on the same side of 1. A ratio to or of a value
  that is noise is noise: the floor, and so the ratio, depends on the number of models.
- A correlation is strong from 0.7 and weak below 0.3.
- Several runs of one setting are independent populations. Their mean counts, and its standard error includes
  what they differ by beyond the errors of each (the random effects of DerSimonian and Laird 1986): the errors
  come from a jackknife over models, which misses part of the spread of a maximum over checkpoints.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from leakscope.studies.claims import Outcome
from leakscope.studies.dynamics.results import DynamicsResults, Figure, Number, RunFigures, RunResults
from leakscope.studies.dynamics.settings import Setting

STRONG, WEAK = 0.7, 0.3
_Z = 1.96


class MissingResultsError(Exception):
    """No results say anything about a claim."""


class Interval(NamedTuple):
    """A value with its 95% interval and its noise floor; an end is NaN where it is unknown."""

    value: float
    low: float
    high: float
    floor: float = math.nan
    floor_high: float = math.nan

    @classmethod
    def of(cls, figure: Figure[Number]) -> Interval:
        """The interval of a figure.

        Raises:
            MissingResultsError: the figure is undefined.
        """
        value, error, floor = figure.value, figure.standard_error, figure.floor
        if value is None:
            raise MissingResultsError("the figure is undefined in these results")
        half = math.nan if error is None else _Z * error
        mean, high = (math.nan if end is None else end for end in (floor.mean, floor.high))
        return cls(value, value - half, value + half, mean, high)

    @classmethod
    def of_populations(cls, figures: Sequence[Figure[Number]]) -> Interval:
        """The interval of the mean over independent populations, or of the only one.

        Raises:
            MissingResultsError: a figure is undefined.
        """
        each = [cls.of(figure) for figure in figures]
        n, mean = len(each), sum(one.value for one in each) / len(each)
        if n == 1:
            return each[0]
        of_each = sum(((one.high - one.value) / _Z) ** 2 for one in each) / n
        of_values = sum((one.value - mean) ** 2 for one in each) / (n - 1)
        # NaN where one has no error: max() would hide it.
        half = math.nan if math.isnan(of_each) else _Z * math.sqrt(max(of_each, of_values) / n)
        floor, floor_high = (sum(ends) / n for ends in zip(*(one[3:] for one in each), strict=True))
        return cls(mean, mean - half, mean + half, floor, floor_high)

    @property
    def is_noise(self) -> bool:
        """Whether the value cannot be distinguished from chance; false where the floor is unknown."""
        low = self.value if math.isnan(self.low) else self.low
        return low <= self.floor_high

    def agrees(self, published: float, step: float) -> bool:
        """Whether the interval contains the published value, or rounding to `step` makes both equal."""
        return self.low <= published <= self.high or abs(self.value - published) <= step / 2

    def text(self, scale: float = 1.0, unit: str = "", digits: int = 3) -> str:
        """Value, interval and noise floor."""

        def number(x: float) -> str:
            return f"{scale * x:.{digits}f}"

        interval = "" if math.isnan(self.low) else f" ({number(self.low)} to {number(self.high)})"
        floor = "" if math.isnan(self.floor) else f"; noise floor {number(self.floor)}{unit}"
        return f"{number(self.value)}{unit}{interval}{floor}"


def level_outcome(ours: Interval, published: float, step: float) -> Outcome:
    """The verdict on a published value."""
    if ours.agrees(published, step):
        return Outcome.NOISE if ours.is_noise else Outcome.REPRODUCED
    return Outcome.NOT_REPRODUCED if ours.is_noise else Outcome.SAME_DIRECTION


def ratio(first: Interval, second: Interval) -> Interval:
    """The ratio of two independent values, by the delta method.

    Raises:
        MissingResultsError: one of them is not positive, so their ratio has no meaning.
    """
    if first.value <= 0 or second.value <= 0:
        raise MissingResultsError("a value is not positive, so the ratio has no meaning")
    if math.isnan(first.high) or math.isnan(second.high):
        raise MissingResultsError("a value has no standard error, so the ratio has no interval")
    value = first.value / second.value
    half = value * math.hypot(
        (first.high - first.value) / first.value, (second.high - second.value) / second.value
    )
    return Interval(value, value - half, value + half)


class PublishedRatio(NamedTuple):
    """Two published values, and the unit of the last printed digit of the second, the coarser one."""

    first: float
    second: float
    step: float

    @property
    def range(self) -> tuple[float, float]:
        """Between which the ratio lies, given the rounding of its values."""
        half = self.step / 2
        return (self.first - half) / (self.second + half), (self.first + half) / (self.second - half)


def ratio_outcome(first: Interval, second: Interval, published: PublishedRatio) -> Outcome:
    """The verdict on a published ratio above 1."""
    ours, (low, high) = ratio(first, second), published.range
    n_noise = first.is_noise + second.is_noise
    if ours.low <= high and low <= ours.high:
        return Outcome.NOISE if n_noise else Outcome.REPRODUCED
    if ours.low > 1 and n_noise < 2:
        return Outcome.SAME_DIRECTION
    return Outcome.REFUTED if ours.high < 1 and not n_noise else Outcome.NOT_REPRODUCED


def strength_outcome(r: float, low: float, high: float) -> Outcome:
    """The verdict on "correlates strongly"."""
    if high < 0:
        return Outcome.REFUTED
    if low <= 0:
        return Outcome.NOT_REPRODUCED
    return Outcome.REPRODUCED if r >= STRONG else Outcome.SAME_DIRECTION


class Run(NamedTuple):
    """One run, and the results it belongs to.

    Attributes:
        run: of one population.
        results: to which it belongs.
        number: from 1 on, among the runs of this setting.
        again: other populations of the same setting and size.
    """

    run: RunResults
    results: DynamicsResults
    number: int = 1
    again: tuple[RunResults, ...] = ()

    @property
    def setting(self) -> Setting:
        """What was trained."""
        return self.run.setting

    @property
    def label(self) -> str:
        """The name of the run with what tells it from others of the same setting."""
        number = f", population {self.number}" if self.number > 1 else ""
        size = f"{self.run.population.records:,} records, {self.run.epochs[-1]} epochs"
        return f"{self.setting.name} ({size}{number})"

    @property
    def protocol(self) -> str:
        """What was trained and how it was judged, in words."""
        own, population, epochs = self.setting, self.run.population, self.run.epochs
        every = f", checkpoints every {epochs[1] - epochs[0]}" if len(epochs) > 1 else ""
        each = f"{1 + len(self.again)} populations of " if self.again else ""
        return (
            f"{each}{population.models} models, {own.net}, {own.dataset} ({population.records:,} records), "
            f"{own.optimizer}, {epochs[-1]} epochs{every}"
        )

    def interval(self, figure: Callable[[RunFigures], Figure[Number]]) -> Interval:
        """A figure, over all populations of the setting.

        Raises:
            MissingResultsError: it is undefined.
        """
        return Interval.of_populations([figure(run.figures) for run in (self.run, *self.again)])

    def at_epoch(self, series: Figure[tuple[Number, ...]], epoch: int) -> Interval:
        """A figure at a checkpoint.

        Raises:
            MissingResultsError: there is no checkpoint at this epoch.
        """
        if epoch not in self.run.epochs:
            raise MissingResultsError(f"no checkpoint at epoch {epoch} of {self.run.epochs[-1]}")
        at = self.run.epochs.index(epoch)
        values = (series.value[at], series.standard_error[at], *_floor_at(series, at))
        value, error, mean, high = (math.nan if x is None else x for x in values)
        if math.isnan(value):
            raise MissingResultsError("the figure is undefined in these results")
        return Interval(value, value - _Z * error, value + _Z * error, mean, high)


def _floor_at(series: Figure[tuple[Number, ...]], at: int) -> tuple[Number, Number]:
    return series.floor.mean[at], series.floor.high[at]


class Evidence(NamedTuple):
    """All runs of all results."""

    runs: tuple[Run, ...]

    @classmethod
    def of(cls, all_results: Sequence[DynamicsResults]) -> Evidence:
        """Every run, those of independent populations included."""
        runs: list[Run] = []
        for results in all_results:
            for run in results.runs.values():
                number = 1 + sum(_is_of_setting(own.run, run) for own in runs)
                runs.append(Run(run, results, number))
        return cls(tuple(runs))

    def longest(self, dataset: str, net: str, optimizer: str) -> Run:
        """The run of this setting with the most epochs, then records, then models; with its repetitions.

        Raises:
            MissingResultsError: there is none.
        """
        fitting = self.where(lambda s: (s.dataset, s.net, s.optimizer) == (dataset, net, optimizer))
        if not fitting:
            raise MissingResultsError(f"no results of {net} on {dataset} with {optimizer}")
        sizes = [
            (own.run.epochs[-1], own.run.population.records, own.run.population.models) for own in fitting
        ]
        first, *others = (own for own, size in zip(fitting, sizes, strict=True) if size == max(sizes))
        return first._replace(again=tuple(own.run for own in others if _is_of_setting(own.run, first.run)))

    def complexity(self, dataset: str) -> float | None:
        """A property of the dataset: from the run of it that knows it from the most records."""
        known = [
            (own.run.population.records, own.run.complexity)
            for own in self.where(lambda s: s.dataset == dataset)
            if own.run.complexity is not None
        ]
        return max(known)[1] if known else None

    def where(self, condition: Callable[[Setting], bool]) -> list[Run]:
        """The first populations of the settings that meet a condition."""
        return [own for own in self.runs if not own.setting.population and condition(own.setting)]


def _is_of_setting(one: RunResults, other: RunResults) -> bool:
    """Whether both runs trained alike, on as many records; not whether as much of their models is known."""
    first, second = (
        replace(run.setting, bank="", seed=0, models=4, universe=None, store_logits=True, gradient_models=0)
        for run in (one, other)
    )
    return first == second and (one.epochs, one.population.records) == (
        other.epochs,
        other.population.records,
    )
