"""What the dynamics study found beside what was published: ratios between settings.

The document's units are not defined well enough to match its values, so only ratios are compared. A ratio of
noise is 1, which pulls ratios of small figures towards 1; so the ratio of what stands above the noise
floors is given as well. Standard errors are the jackknife's, by the delta method, settings taken as
independent.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

Run = dict[str, Any]


class Finding(NamedTuple):
    """A published pair of values of one figure.

    Attributes:
        figure: name in `Metrics`.
        varied: field of `Setting` in which the two settings differ.
        first: its value there, of the numerator.
        second: of the denominator.
        values: published values of the two.
        says: what was published, in words.
    """

    figure: str
    varied: str
    first: str
    second: str
    values: tuple[float, float]
    says: str


PUBLISHED = (
    Finding("net_displacement", "net", "wide_resnet", "cnn", (114, 35), "centre of mass, WRN28-2 / CNN"),
    Finding("path_length", "net", "wide_resnet", "cnn", (114, 35), "the same, if along the path"),
    Finding("entropy_change", "net", "wide_resnet", "cnn", (3.47, 0.30), "entropy change, WRN28-2 / CNN"),
    Finding(
        "net_displacement", "dataset", "cifar10", "mnist", (114, 12.8), "centre of mass, CIFAR-10 / MNIST"
    ),
    Finding("path_length", "dataset", "cifar10", "mnist", (114, 12.8), "the same, if along the path"),
    Finding(
        "entropy_change", "dataset", "cifar10", "mnist", (3.47, -0.08), "entropy change, CIFAR-10 / MNIST"
    ),
    Finding("peak_entry", "dataset", "cifar10", "mnist", (0.13, 0.04), "peak entry, CIFAR-10 / MNIST"),
    Finding("peak_entry", "optimizer", "sgd", "sam", (0.027, 0.009), "peak entry, SGD / SAM"),
)
EPISTEMIC_R = 0.916
"""Pearson r of epistemic uncertainty with vulnerability among the vulnerable, WRN-28 on CIFAR-10."""
EARLY_SHARE = 150 / 400
"""Share of training after which over 70% of the finally vulnerable were vulnerable."""


def comparison(runs: list[Run]) -> list[dict[str, Any]]:
    """One row a published ratio that two of the runs can answer."""
    rows = []
    for finding in PUBLISHED:
        for first in runs:
            for second in runs:
                if _answers(finding, first["setting"], second["setting"]):
                    rows.append(_row(finding, first, second))
    return rows


def _answers(finding: Finding, first: dict[str, Any], second: dict[str, Any]) -> bool:
    """True when the two settings are the finding's and differ in nothing else."""
    wanted = {**first, finding.varied: finding.second}
    return bool(first[finding.varied] == finding.first and second == wanted)


def _row(finding: Finding, first: Run, second: Run) -> dict[str, Any]:
    a, b = (_value(run, finding.figure) for run in (first, second))
    return {
        "figure": finding.figure,
        "says": finding.says,
        "first": {"run": _name(first), **a._asdict()},
        "second": {"run": _name(second), **b._asdict()},
        "ratio": _ratio(a.value, b.value),
        "ratio_standard_error": _ratio_error(a, b),
        "ratio_above_floor": _ratio(a.value - a.floor, b.value - b.floor),
        "published_values": list(finding.values),
        "published_ratio": _ratio(*finding.values),
    }


class _Value(NamedTuple):
    value: float
    standard_error: float
    floor: float


def _value(run: Run, figure: str) -> _Value:
    found = run["figures"][figure]
    parts = (found["value"], found["standard_error"], found["floor"]["mean"])
    return _Value(*(math.nan if part is None else float(part) for part in parts))


def _name(run: Run) -> str:
    setting = run["setting"]
    return f"{setting['dataset']}, {setting['net']}, {setting['optimizer']}"


def _ratio(a: float, b: float) -> float:
    """a / b; NaN unless both are above zero, since a ratio across zero says nothing."""
    return a / b if a > 0 and b > 0 else math.nan


def _ratio_error(a: _Value, b: _Value) -> float:
    ratio = _ratio(a.value, b.value)
    if math.isnan(ratio):
        return math.nan
    return ratio * math.hypot(a.standard_error / a.value, b.standard_error / b.value)
