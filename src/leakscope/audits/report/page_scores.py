"""The section on scores: histograms of members and non-members, one attack at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.disk.scratch import evict_pages, over_blocks
from leakscope.evaluate.judge import Attacked
from leakscope.evaluate.results import AuditResults
from leakscope.report.blocks import Raw
from leakscope.report.charts import Chart, axis, colour
from leakscope.report.page import Section
from leakscope.report.templates import template

_BINS = 80
_TAIL = 0.02
_SAMPLED = 2_000_000  # scores that set the range of the histogram


def scores_section(results: AuditResults, attacked: Attacked) -> Section:
    """How the scores of members and non-members are distributed."""
    strongest, scores = results.strongest_attack, attacked.scores
    labels = [strongest, *(label for label in results.attacks if label != strongest)]
    traces = [
        trace
        for label in labels
        for trace in _histogram(
            label, scores[label].values, attacked.design.rows(scores[label].targets), label == strongest
        )
    ]
    figure = {
        "data": traces,
        "layout": {
            "xaxis": axis("score (higher means member)"),
            "yaxis": axis("share of records", tickformat=".1%", rangemode="tozero"),
            "hovermode": "x",
        },
    }
    alt = (
        f"Scores of members and of non-members ({scores[strongest].values.size:,} scores). The outermost "
        "bars contain the most extreme 2% at each end."
    )
    choice = Raw(template("choice.html.j2", chart_id="scores-chart", names=labels))
    note = "Where the two distributions overlap, an attacker can only guess."
    return Section("scores", "Scores", [choice, Chart("scores-chart", figure, alt)], note)


def _histogram(label: str, values: FloatArray, in_mask: BoolArray, is_visible: bool) -> list[dict[str, Any]]:
    """The traces of one attack."""
    edges = _edges(values)
    middles = (edges[1:] + edges[:-1]) / 2

    def counts(columns: slice) -> IntArray:
        clipped, mask = np.clip(values[:, columns], edges[0], edges[-1]), in_mask[:, columns]
        return np.stack([np.histogram(clipped[side], edges)[0] for side in (mask, ~mask)])

    both = np.sum(over_blocks(values.shape[1], counts, values, in_mask), axis=0)  # (2, bins)
    traces = []
    for k, (side, counted) in enumerate(zip(("members", "non-members"), both, strict=True)):
        share = (counted / max(int(counted.sum()), 1)).round(6)
        traces.append(
            {"x": middles.round(4), "y": share, "name": side, "mode": "lines",
             "line": {"shape": "hvh", "color": colour(k), "width": 1.6}, "fill": "tozeroy",
             "fillcolor": colour(k, band=True), "meta": label, "visible": is_visible,
             "hovertemplate": "%{y:.2%}<extra>" + side + "</extra>"}
        )  # fmt: skip
    return traces


def _edges(values: FloatArray) -> FloatArray:
    """Edges of the bins, from a sample of the scores."""
    sample = np.array(values[:, :: max(1, values.size // _SAMPLED)])
    evict_pages(values)
    low, high = np.quantile(sample, [_TAIL, 1 - _TAIL])
    if not np.isfinite([low, high]).all() or low == high:
        finite = sample[np.isfinite(sample)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    return np.linspace(low, high if high > low else low + 1, _BINS + 1)
