"""ROC curves of an attack on one given model, on log axes: validation records, and private ones if known."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from leakscope.array_types import AnyArray
from leakscope.bank.run_folder import stored_array
from leakscope.report.charts import chart, colour
from leakscope.report.study_page import absent
from leakscope.report.tables import Table
from leakscope.stats.intervals import clopper_pearson
from leakscope.stats.roc import Roc, operating_point, roc

VALIDATION, PRIVATE, TRUTH = "validation", "private", "private_truth.npy"
_MOST_POINTS = 400
_FPRS = (0.1, 0.05, 0.01, 0.001)


class Scored(NamedTuple):
    """Scores of one attacker on records whose membership is known: of the validation part, or private."""

    name: str
    part: str
    scores: AnyArray
    is_member: AnyArray


def scored(results: dict[str, Any], folder: Path) -> list[Scored]:
    """Every attacker's scores that lie in the folder with the truth beside them."""
    found = []
    for part, truth in ((VALIDATION, folder / VALIDATION / "is_member.npy"), (PRIVATE, folder / TRUTH)):
        for name in results["attackers"]:
            path = folder / part / f"{name}.npy"
            if truth.exists() and path.exists():
                values = stored_array(path)
                scores = values[0] if values.ndim == 2 else values  # validation keeps the calibrated ones too
                found.append(Scored(name, part, scores, stored_array(truth)))
    return found


def roc_chart(results: dict[str, Any], folder: Path) -> Markup:
    """Every attacker's curve, and the TPR at four FPRs as a table behind it."""
    curves = [(found, roc(found.scores, found.is_member)) for found in scored(results, folder)]
    if not curves:
        return absent("The scores are not in the folder, so no curve can be drawn.")
    names = list(results["attackers"])
    smallest = 1 / max(curve.n_nonmembers for _, curve in curves)
    data = [_line(found, curve, names.index(found.name), smallest) for found, curve in curves]
    data.append({"type": "scatter", "mode": "lines", "x": [smallest, 1], "y": [smallest, 1],
                 "name": "guessing",
                 "line": {"color": "var(--muted)", "dash": "dot", "width": 1.5}})  # fmt: skip
    ends = [float(np.log10(smallest)), 0.02]
    axis = {"type": "log", "range": ends, "dtick": 1, "tickformat": "~%"}
    layout = {"xaxis": {"title": {"text": "false positive rate"}, **axis},
              "yaxis": {"title": {"text": "true positive rate"}, **axis},
              "legend": {"orientation": "h", "y": -0.2}}  # fmt: skip
    sizes = {found.part: len(found.scores) for found, _ in curves}
    counts = ", ".join(f"{n:,} {part}" for part, n in sizes.items())
    alt = f"ROC of every attacker on log axes ({counts} records). Solid: validation, dashed: private."
    head = ("attacker, records", *(f"TPR at {100 * fpr:g}% FPR" for fpr in _FPRS))
    rows = [[f"{found.name}, {found.part}", *(_tpr(curve, fpr) for fpr in _FPRS)] for found, curve in curves]
    body = chart("roc-chart", {"data": data, "layout": layout}, alt, Table(head, rows), 520)
    return (
        body
        if PRIVATE in sizes
        else body
        + absent(
            "Who among the private records is a member is not known here, so there is no curve for them."
        )
    )


def _line(found: Scored, curve: Roc, k: int, smallest: float) -> dict[str, Any]:
    """A curve thinned evenly on the log axis; what it leaves out is narrower than a pixel."""
    wanted = np.geomspace(smallest, 1, _MOST_POINTS)
    at = np.unique(np.searchsorted(curve.fpr, wanted, side="right") - 1)
    dash = "solid" if found.part == VALIDATION else "dash"
    return {"type": "scatter", "mode": "lines", "x": curve.fpr[at], "y": curve.tpr[at],
            "name": f"{found.name}, {found.part}", "hovertemplate": "FPR %{x:.2%}, TPR %{y:.2%}",
            "line": {"color": colour(k), "width": 2, "shape": "hv", "dash": dash}}  # fmt: skip


def _tpr(curve: Roc, fpr: float) -> str:
    point = operating_point(curve, fpr)
    if point.reason:
        return "not resolvable"
    ends = clopper_pearson(round(point.tpr * curve.n_members), curve.n_members)
    return f"{100 * point.tpr:.2f}% ({100 * ends.low:.2f} to {100 * ends.high:.2f})"
