"""ROC curves of an attack on one given model, on log axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from leakscope.array_types import AnyArray
from leakscope.bank.run_folder import stored_array
from leakscope.report.blocks import Absent, Body, Table
from leakscope.report.charts import Chart, PlotlyFigure, colour, guessing, line, rate_axes
from leakscope.single_model.attack import IS_MEMBER, PRIVATE, VALIDATION
from leakscope.stats.intervals import clopper_pearson
from leakscope.stats.roc import Roc, operating_point, roc

PRIVATE_TRUTH = "private_truth.npy"
"""The membership of the private records, in the run folder of a study that knows it."""
_MOST_POINTS = 400
_FPRS = (0.1, 0.05, 0.01, 0.001)


class Scored(NamedTuple):
    """An attacker's scores for records of known membership."""

    attacker: str
    part: str  # VALIDATION or PRIVATE
    scores: AnyArray
    is_member: AnyArray


def scored(attackers: Sequence[str], folder: Path, truth_known: bool) -> Iterator[Scored]:
    """Every attacker's scores in the folder: for the validation records, and for private ones if known."""
    truths = {VALIDATION: folder / VALIDATION / IS_MEMBER}
    if truth_known:
        truths[PRIVATE] = folder / PRIVATE_TRUTH
    for part, truth in truths.items():
        for name in attackers:
            path = folder / part / f"{name}.npy"
            if truth.exists() and path.exists():
                stored = stored_array(path)
                scores = stored[0] if part == VALIDATION else stored  # the other rows: before ties are broken
                yield Scored(name, part, scores, stored_array(truth))


def roc_body(attackers: Sequence[str], folder: Path, truth_known: bool) -> Body:
    """Every attacker's curve, with the TPR at four FPRs as a table behind it."""
    curves = [(one, roc(one.scores, one.is_member)) for one in scored(attackers, folder, truth_known)]
    if not curves:
        return [Absent("The run folder no longer holds the scores, so no curve can be drawn.")]
    unknown = Absent("The membership of the private records is unknown, so they have no curve.")
    figure, numbers = _figure(curves, attackers), _rates(curves)
    drawn = Chart("roc-chart", figure, _alt(curves), numbers, 520, png="roc")
    return [drawn] if truth_known else [drawn, unknown]


def _figure(curves: Sequence[tuple[Scored, Roc]], attackers: Sequence[str]) -> PlotlyFigure:
    smallest = 1 / max(curve.n_nonmembers for _, curve in curves)
    data = [_line(one, curve, attackers.index(one.attacker), smallest) for one, curve in curves]
    layout = {**rate_axes(smallest), "legend": {"orientation": "h", "y": -0.2}}
    return {"data": [*data, guessing(smallest, 1)], "layout": layout}


def _alt(curves: Sequence[tuple[Scored, Roc]]) -> str:
    sizes = {one.part: len(one.scores) for one, _ in curves}
    counts = " and ".join(f"{n:,} {part} records" for part, n in sizes.items())
    styles = " Solid lines: validation. Dashed lines: private." if PRIVATE in sizes else ""
    return f"ROC curve of every attacker on {counts}, on log axes.{styles}"


def _rates(curves: Sequence[tuple[Scored, Roc]]) -> Table:
    head = ("attacker, records", *(f"TPR at {100 * fpr:g}% FPR" for fpr in _FPRS))
    rows = [[f"{one.attacker}, {one.part}", *(_tpr(curve, fpr) for fpr in _FPRS)] for one, curve in curves]
    return Table(head, rows)


def _line(one: Scored, curve: Roc, k: int, smallest: float) -> PlotlyFigure:
    """A curve thinned evenly on the log axis; what is left out is narrower than a pixel."""
    wanted = np.geomspace(smallest, 1, _MOST_POINTS)
    at = np.unique(np.searchsorted(curve.fpr, wanted, side="right") - 1)
    stroke = {"color": colour(k), "width": 2, "shape": "hv",
              "dash": "solid" if one.part == VALIDATION else "dash"}  # fmt: skip
    return line(curve.fpr[at], curve.tpr[at], f"{one.attacker}, {one.part}", colour(k), line=stroke,
                hovertemplate="FPR %{x:.2%}, TPR %{y:.2%}")  # fmt: skip


def _tpr(curve: Roc, fpr: float) -> str:
    point = operating_point(curve, fpr)
    if point.reason:
        return "not resolvable"
    ends = clopper_pearson(round(point.tpr * curve.n_members), curve.n_members)
    return f"{100 * point.tpr:.2f}% ({100 * ends.low:.2f} to {100 * ends.high:.2f})"
