"""Ratios between settings next to those published in arXiv 2507.23291.

The publication does not define its units well enough to compare absolute values, so ratios are compared. A
ratio of two noise floors is 1, which pulls the ratios of small figures towards 1; the ratio of the values
minus their noise floors is therefore given as well. Standard errors are the jackknife's, propagated by the
delta method; the settings are independent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import NamedTuple

import numpy as np

from leakscope.studies.dynamics.results import (
    ComparedFigure,
    Figure,
    Number,
    PublishedFigures,
    RatioFigure,
    RunResults,
)
from leakscope.studies.dynamics.settings import Setting


class Finding(NamedTuple):
    """A published pair of values of one figure.

    Attributes:
        figure: name of the figure in `RunFigures`.
        varied: field of `Setting` in which the two settings differ.
        first: value of that field in the numerator.
        second: value of that field in the denominator.
        values: the published numerator and denominator.
        finding: what was published.
    """

    figure: str
    varied: str
    first: str
    second: str
    values: tuple[float, float]
    finding: str


FINDINGS = (
    Finding("net_displacement", "net", "wide_resnet", "cnn", (114, 35), "center of mass, WRN-28-2 / CNN"),
    Finding("path_length", "net", "wide_resnet", "cnn", (114, 35), "the same, along its path"),
    Finding("entropy_change", "net", "wide_resnet", "cnn", (3.47, 0.30), "entropy change, WRN-28-2 / CNN"),
    Finding(
        "net_displacement", "dataset", "cifar10", "mnist", (114, 12.8), "center of mass, CIFAR-10 / MNIST"
    ),
    Finding("path_length", "dataset", "cifar10", "mnist", (114, 12.8), "the same, along its path"),
    Finding(
        "entropy_change", "dataset", "cifar10", "mnist", (3.47, -0.08), "entropy change, CIFAR-10 / MNIST"
    ),
    Finding("peak_entry", "dataset", "cifar10", "mnist", (0.13, 0.04), "peak entry, CIFAR-10 / MNIST"),
    Finding("peak_entry", "optimizer", "sgd", "sam", (0.027, 0.009), "peak entry, SGD / SAM"),
)
PUBLISHED = PublishedFigures(epistemic_r=0.916, early_share=150 / 400)
"""Measured on CIFAR-10: r with a WRN-28; over 70% of the finally vulnerable records by epoch 150 of 400."""


def comparison(runs: Sequence[RunResults]) -> tuple[RatioFigure, ...]:
    """Every published ratio for which two of the runs differ as the published settings do."""
    return tuple(
        _ratio_figure(finding, first, second)
        for finding in FINDINGS
        for first in runs
        for second in runs
        if _differ_as_published(finding, first.setting, second.setting)
    )


def _differ_as_published(finding: Finding, first: Setting, second: Setting) -> bool:
    """Whether two settings are those of a finding and differ in nothing else."""
    is_first = bool(getattr(first, finding.varied) == finding.first)
    return is_first and asdict(second) == {**asdict(first), finding.varied: finding.second}


def _ratio_figure(finding: Finding, first: RunResults, second: RunResults) -> RatioFigure:
    figures: list[Figure[Number]] = [getattr(run.figures, finding.figure) for run in (first, second)]
    rows = np.array([(f.value, f.standard_error, f.floor.mean) for f in figures], dtype=np.float64)
    value, error, floor = rows.T  # each of both runs; NaN where undefined
    ratio, population = _ratio(*value), first.setting.population
    return RatioFigure(
        finding.figure,
        f"{finding.finding} (population {population})" if population else finding.finding,
        ComparedFigure(_name(first.setting), *rows[0]),
        ComparedFigure(_name(second.setting), *rows[1]),
        ratio,
        # Where the ratio is undefined a value may be 0, by which nothing is divided.
        ratio if math.isnan(ratio) else ratio * math.hypot(*(error / value)),
        _ratio(*(value - floor)),
        finding.values,
        _ratio(*finding.values),
    )


def _name(setting: Setting) -> str:
    return f"{setting.dataset}, {setting.net}, {setting.optimizer}"


def _ratio(a: float, b: float) -> float:
    """a / b; NaN unless both are positive, because a ratio across zero has no meaning."""
    return a / b if a > 0 and b > 0 else math.nan
