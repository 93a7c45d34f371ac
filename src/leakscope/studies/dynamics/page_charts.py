"""The charts of one dynamics run: everything over epochs beside its noise floor, moves, hardness.

From results alone but for hardness, whose cloud is binned here: a chart of 50,000 dots says less than its
density, and costs more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from leakscope.array_types import FloatArray
from leakscope.report.charts import chart, colour
from leakscope.report.tables import Table

Run = dict[str, Any]
FLOOR_BAND, FLOOR_LINE = "var(--c6-band)", "var(--muted)"
_BINS = 36
_MOST_DOTS = 1500
_HEIGHT = 300


class OverTime(NamedTuple):
    """A figure that is drawn over epochs: its name in results, title, axis title and factor."""

    figure: str
    title: str
    axis: str
    scale: float


OVER_TIME = (
    OverTime("advantage", "Mean advantage", "TPR − FPR, mean over records", 1),
    OverTime("vulnerable", "In the vulnerable corner", "records (%)", 100),
    OverTime("entropy", "Spread over the plane", "spatial entropy (bits)", 1),
    OverTime("entry_per_epoch", "Entering the corner", "probability an epoch (%)", 100),
)
EARLY = (
    OverTime("recall", "Of the finally vulnerable, already in the corner", "records (%)", 100),
    OverTime("precision", "Of those in the corner, there at the end", "records (%)", 100),
)


def over_time(id: str, run: Run, what: OverTime) -> Markup:
    """A figure over epochs, with its standard error and the noise floor's range."""
    found, n = run["figures"][what.figure], run["population"]["judged_records"]
    epochs = run["epochs"][-len(found["value"]) :]
    value, error = (_scaled(found[part], what.scale) for part in ("value", "standard_error"))
    mean, low, high = (_scaled(found["floor"][end], what.scale) for end in ("mean", "low", "high"))
    data = [
        *band(epochs, low, high, FLOOR_BAND),
        line(epochs, mean, "noise floor", FLOOR_LINE, dash="dot"),
        *band(epochs, value - error, value + error, colour(0, band=True)),
        {**line(epochs, value, "measured", colour(0)), "mode": "lines+markers"},
    ]
    layout = layout_of("epoch", what.axis, legend=1.12)
    layout["yaxis"]["rangemode"] = "tozero"
    rows = [
        [str(epoch), *map(shown, cells)]
        for epoch, *cells in zip(epochs, value, error, mean, low, high, strict=True)
    ]
    head = ("epoch", "measured", "± standard error", "noise floor", "lowest", "highest")
    alt = f"{what.title}, {len(epochs)} checkpoints, {n:,} records; bands: standard error, range of chance."
    return chart(id, {"data": data, "layout": layout}, alt, Table(head, rows), _HEIGHT)


def centre(id: str, runs: Sequence[tuple[str, Run]]) -> Markup:
    """The way of the centre of mass of each run and of its noise floor."""
    data: list[dict[str, Any]] = []
    for k, (name, run) in enumerate(runs):
        found = run["figures"]["centre"]
        for points, label, hue, dash in (
            (found["floor"]["mean"], "noise floor", FLOOR_LINE if len(runs) == 1 else colour(k), "dot"),
            (found["value"], name if len(runs) > 1 else "measured", colour(k), "solid"),
        ):
            fpr, tpr = np.array(points, dtype=np.float64).T
            text = [f"epoch {epoch}" for epoch in run["epochs"]]
            size = [5] * (len(text) - 1) + [11]
            data.append({**line(fpr, tpr, label, hue, dash), "mode": "lines+markers", "text": text,
                         "marker": {"size": size, "color": hue},
                         "showlegend": dash == "solid" or len(runs) == 1, "hovertemplate":
                         "%{text}: FPR %{x:.3f}, TPR %{y:.3f}<extra></extra>"})  # fmt: skip
    layout = layout_of("mean FPR", "mean TPR", legend=1.12)
    rows = [
        [f"{name}, epoch {epoch}", f"{x:.3f}", f"{y:.3f}"]
        for name, run in runs
        for epoch, (x, y) in zip(run["epochs"], run["figures"]["centre"]["value"], strict=True)
    ]
    alt = "The way of the centre of mass; the large dot is the last checkpoint, dotted is the noise floor."
    return chart(
        id,
        {"data": data, "layout": layout},
        alt,
        Table(("checkpoint", "mean FPR", "mean TPR"), rows),
        _HEIGHT,
    )


def compared(id: str, runs: Sequence[tuple[str, Run]], what: OverTime) -> Markup:
    """One figure of all runs over epochs; dotted: noise floors."""
    data: list[dict[str, Any]] = []
    for k, (name, run) in enumerate(runs):
        found = run["figures"][what.figure]
        floor = line(run["epochs"], _scaled(found["floor"]["mean"], what.scale), name, colour(k), "dot")
        value = line(run["epochs"], _scaled(found["value"], what.scale), name, colour(k))
        data += [{**floor, "showlegend": False}, {**value, "mode": "lines+markers"}]
    layout = layout_of("epoch", what.axis, legend=1.2)
    layout["yaxis"]["rangemode"] = "tozero"
    alt = f"{what.title} over epochs, one line a run; dotted: noise floors."
    return chart(id, {"data": data, "layout": layout}, alt, None, 340)


def transitions(id: str, run: Run) -> Markup:
    """Where the records of each cell are at the next checkpoint."""
    moves = run["transitions"]
    shares = 100 * np.array(moves["overall"], dtype=np.float64)  # null becomes NaN
    started = np.array(moves["counts"]).sum(axis=(0, 2))
    names = [cell.replace("FPR ", "").replace(", TPR ", " / ") for cell in moves["cells"]]
    text = [["" if math.isnan(value) or value < 0.5 else f"{value:.0f}" for value in row] for row in shares]
    data = [{"type": "heatmap", "z": shares, "x": names, "y": names, "text": text, "texttemplate": "%{text}",
             "zmin": 0, "zmax": 100, "colorscale": [[0, "var(--paper)"], [1, colour(0)]], "xgap": 1,
             "ygap": 1, "colorbar": {"title": {"text": "% of row"}, "thickness": 12},
             "hovertemplate": "from %{y}<br>to %{x}: %{z:.1f}%<extra></extra>"}]  # fmt: skip
    layout = layout_of("at the next checkpoint: FPR / TPR", "at a checkpoint: FPR / TPR")
    layout["xaxis"]["type"] = layout["yaxis"]["type"] = "category"
    layout["yaxis"]["autorange"] = "reversed"
    rows = [
        [f"{cell} ({n:,} records)", *map(shown, row)]
        for cell, n, row in zip(moves["cells"], started, shares, strict=True)
    ]
    alt = (f"Moves between cells over all of training, % of a row's records. The vulnerable corner is "
           f"{names[math.isqrt(len(names)) - 1]}.")  # fmt: skip
    return chart(id, {"data": data, "layout": layout}, alt, Table(("from", *moves["cells"]), rows), 520)


def hardness(id: str, name: str, values: FloatArray, advantage: FloatArray, found: dict[str, Any]) -> Markup:
    """One measure of hardness against the advantage at the end: dots for few records, density for many."""
    kept = np.isfinite(values) & np.isfinite(advantage)
    x, y = values[kept], advantage[kept]
    r = found["pearson"]
    words = (
        f"undefined: {r['reason']}"
        if r["r"] is None
        else f"r = {r['r']:.3f} ({r['low']:.2f} to {r['high']:.2f})"
    )
    title = name.replace("_", " ")
    layout = {**layout_of(title, "advantage at the end"), "margin": {"l": 52, "r": 8, "t": 8, "b": 44}}
    data = [_dots(x, y) if len(x) <= _MOST_DOTS else _density(x, y)]
    alt = f"{title.capitalize()} against advantage: {words}, {len(x):,} records."
    return chart(id, {"data": data, "layout": layout}, alt, None, 280)


def _dots(x: FloatArray, y: FloatArray) -> dict[str, Any]:
    # Rates are shares of a few models: dots are drawn a little apart, the same way every time.
    apart = np.random.default_rng(0).uniform(-0.02, 0.02, len(y))
    return {"type": "scatter", "mode": "markers", "x": x, "y": y + apart, "hoverinfo": "skip",
            "marker": {"color": colour(0), "size": 4, "opacity": 0.5}}  # fmt: skip


def _density(x: FloatArray, y: FloatArray) -> dict[str, Any]:
    """Counts over bins, on a log scale; the outermost half percent of hardness lies in the end bins."""
    low, high = np.quantile(x, [0.005, 0.995])
    if not high > low:
        low, high = low - 0.5, low + 0.5
    counts, across, up = np.histogram2d(
        np.clip(x, low, high), y, bins=_BINS, range=[[low, high], [-1.03, 1.03]]
    )
    counts = counts.T  # rows go up
    with np.errstate(divide="ignore"):
        z = np.where(counts > 0, np.log10(counts), np.nan)
    middle = [(edges[1:] + edges[:-1]) / 2 for edges in (across, up)]
    return {"type": "heatmap", "x": middle[0].round(5), "y": middle[1].round(4), "z": z.round(3),
            "showscale": False, "colorscale": [[0, colour(0, band=True)], [1, colour(0)]],
            "customdata": counts.astype(int), "hovertemplate": "%{customdata} records<extra></extra>",
            "hoverongaps": False}  # fmt: skip


def line(x: Any, y: Any, name: str, hue: str, dash: str = "solid") -> dict[str, Any]:
    """A line."""
    return {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": y,
        "name": name,
        "line": {"color": hue, "width": 2, "dash": dash},
    }


def band(x: Sequence[float], low: FloatArray, high: FloatArray, hue: str) -> list[dict[str, Any]]:
    """An area between two lines, where both are defined."""
    kept = np.isfinite(low) & np.isfinite(high)
    if not kept.any():
        return []
    at = np.asarray(x)[kept]
    edge = {
        "type": "scatter",
        "mode": "lines",
        "line": {"width": 0},
        "hoverinfo": "skip",
        "showlegend": False,
        "x": at,
    }
    return [{**edge, "y": low[kept]}, {**edge, "y": high[kept], "fill": "tonexty", "fillcolor": hue}]


def shown(value: float) -> str:
    """A number of a table, or what is missing."""
    return "undefined" if math.isnan(value) else f"{value:.3g}"


def layout_of(x: str, y: str, legend: float | None = None) -> dict[str, Any]:
    """Axis titles, and a legend above the chart at this height."""
    above = {} if legend is None else {"legend": {"orientation": "h", "y": legend}}
    return {"xaxis": {"title": {"text": x}}, "yaxis": {"title": {"text": y}}, **above}


def _scaled(values: Any, scale: float) -> FloatArray:
    return scale * np.array(values, dtype=np.float64)
