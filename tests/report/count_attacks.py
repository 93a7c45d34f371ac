"""A reader who solves a page for numbers of members, and these for the membership of a record outside groups.

Rates are whole numbers divided by numbers of members or non-members, and AUCs by twice their product. The
reader knows how many records there are and how many are in each group, takes every number at the full
precision of the page, and learns how it was rounded from the numbers themselves: the code is public.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np

from leakscope.array_types import BoolArray, FloatArray
from tests.report.page_attacks import traces

_EXACT = 1e-9
_STEPS = [factor * 10.0**power for power in range(0, -7, -1) for factor in (5, 2, 1)]
_ACCURACY = re.compile(r"Accuracy: ([\d.]+)% on members, ([\d.]+)% on non-members")
_MEMBERS = re.compile(r"(about )?([\d,]+) of them members")


def group_aucs(page: str, names: Iterable[str]) -> dict[str, float]:
    """The AUC of each of these groups, from the chart."""
    shown = {
        str(name): float(auc)
        for trace in traces(page)
        if trace.get("mode") == "markers" and isinstance(trace.get("y"), list)
        for name, auc in zip(trace["y"], trace["x"], strict=True)
    }
    return {name: shown[name] for name in names if name in shown}


def tolerance(values: Iterable[float]) -> float:
    """Half of the widest step that all of these values are multiples of; hardly anything if there is none."""
    numbers = np.array([value for value in values if 0 < value < 1])
    for step in _STEPS:
        if len(numbers) and np.abs(numbers / step - np.rint(numbers / step)).max() < _EXACT:
            return step / 2 + _EXACT
    return _EXACT


def fits(values: Iterable[float], divisors: FloatArray, within: float) -> BoolArray:
    """Which divisors every value may be a fraction of; bool, of the shape of the divisors."""
    possible = np.ones(divisors.shape, dtype=np.bool_)
    for value in values:
        possible &= np.abs(value * divisors - np.rint(value * divisors)) <= within * divisors
    return possible


def members_of_group(auc: float, n_records: int, within: float) -> list[int]:
    """How many members a group may have, by its AUC."""
    numbers = np.arange(1.0, n_records)
    possible = fits([auc], 2 * numbers * (n_records - numbers), within)
    return [int(number) for number in numbers[possible]]


def rates_of_sides(page: str) -> tuple[list[float], list[float]]:
    """Rates of members and of non-members: the points of the ROC curves, and the accuracies."""
    of_members = [y for trace in traces(page) if "AUC" in str(trace.get("name")) for y in trace["y"]]
    points = [trace for trace in traces(page) if len(trace["x"]) == 1]
    of_others = [x for trace in points for x in trace["x"]]
    return [float(y) for y in of_members if 0 < y < 1], [float(x) for x in of_others if 0 < x < 1]


def members_by_rates(page: str, n_records: int, n_correct: int) -> list[int]:
    """How many members the model may have, by every rate on the page and by its number of right predictions.

    Args:
        page: report.html as text.
        n_records: number of records.
        n_correct: how many the target predicts correctly, which the reader can query.
    """
    numbers = np.arange(1.0, n_records)
    of_members, of_others = rates_of_sides(page)
    within = tolerance([*of_members, *of_others])
    possible = fits(of_members, numbers, within) & fits(of_others, n_records - numbers, within)
    found = _ACCURACY.search(page)
    if found:
        members, others = (float(share) / 100 for share in found.groups())
        half = max(tolerance([members, others]), 0.0005)
        total = members * numbers + others * (n_records - numbers)
        possible &= np.abs(total - n_correct) <= half * n_records
    return [int(number) for number in numbers[possible]]


def members_as_stated(page: str, n_records: int) -> list[int]:
    """How many members the page says there are; "about" a round number is whatever rounds to it."""
    found = _MEMBERS.search(page)
    if found is None:
        return list(range(n_records + 1))
    number = int(found[2].replace(",", ""))
    if not found[1]:
        return [number]
    digits = len(str(number)) - len(str(number).rstrip("0"))
    half = 10**digits // 4  # narrower than the rounding is, which errs in favor of the reader
    return list(range(number - half, number + half + 1))


def members_outside(total: Iterable[int], groups: Mapping[str, Iterable[int]], n_outside: int) -> set[int]:
    """How many of the records outside the groups may be members."""
    inside = {0}
    for numbers in groups.values():
        inside = {one + number for one in inside for number in numbers}
    return {one - other for one in total for other in inside if 0 <= one - other <= n_outside}


def states(text: str, number: int) -> bool:
    """Whether a text has this whole number, outside of hashes, sizes in pixels and longer numbers."""
    return re.search(rf"(?<![\w.,#-]){number}(?![\w.,%-]|px)", _readable(text)) is not None


def fine_numbers(text: str) -> list[float]:
    """Numbers with more digits than a rounded figure has."""
    return [float(number) for number in re.findall(r"(?<![\w.])0\.\d{6,}(?![\w.])", _readable(text))]


def _readable(text: str) -> str:
    """A page without style, program and drawings; the data of charts stay."""
    code = r"<style.*?</style>|<svg.*?</svg>|<head.*?</head>"
    program = r'<script(?! type="application/json" class="figure").*?</script>'
    return re.sub(f"{code}|{program}", " ", text, flags=re.DOTALL)
