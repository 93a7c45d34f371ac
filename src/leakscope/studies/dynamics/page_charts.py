"""The charts of the dynamics study's page: figures over epochs with noise floors, moves, hardness.

Hardness is drawn for every record: as dots for a few, as a density for many, which is clearer and smaller.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from leakscope.array_types import FloatArray
from leakscope.hardness.correlations import HardnessFigures
from leakscope.hardness.registry import measure_label
from leakscope.report.blocks import Table
from leakscope.report.charts import Chart, PlotlyFigure, axis, band, colour, line
from leakscope.studies.dynamics.plane_figures import numbers
from leakscope.studies.dynamics.results import (
    Figure,
    Points,
    RunResults,
    Series,
    Transitions,
)

FLOOR_BAND, FLOOR_LINE = "var(--c6-band)", "var(--muted)"
_BINS = 36
_MOST_DOTS = 1500
_MOST_MEASURES = 8
_HEIGHT = 300


class OverTime(NamedTuple):
    """A figure that is drawn over epochs: its name in `RunFigures`, title, axis title and factor."""

    figure: str
    title: str
    axis: str
    scale: float

    def series(self, run: RunResults) -> Figure[Series]:
        """The figure of a run."""
        series: Figure[Series] = getattr(run.figures, self.figure)
        return series


OVER_TIME = (
    OverTime("advantage", "Mean advantage", "TPR − FPR, mean over records", 1),
    OverTime("vulnerable", "In the vulnerable corner", "records (%)", 100),
    OverTime("entropy", "Spread over the plane", "spatial entropy (bits)", 1),
    OverTime("entry_per_epoch", "Entering the corner", "probability per epoch (%)", 100),
)
EARLY = (
    OverTime("recall", "Recall: share of the finally vulnerable already in the corner", "records (%)", 100),
    OverTime("precision", "Precision: share of the corner still vulnerable at the end", "records (%)", 100),
    OverTime("ever_recall", "Recall of all that were ever in the corner", "records (%)", 100),
    OverTime("ever_precision", "Precision of all that were ever in the corner", "records (%)", 100),
)


def over_time(id: str, run: RunResults, what: OverTime) -> Chart:
    """A figure over epochs, with its standard error and the range of its noise floor."""
    series, n = what.series(run), run.population.judged_records
    floor, epochs = series.floor, run.epochs[-len(series.value) :]
    value, error, mean, low, high = (
        what.scale * numbers(part)
        for part in (series.value, series.standard_error, floor.mean, floor.low, floor.high)
    )
    data = [
        *band(epochs, low, high, FLOOR_BAND),
        line(epochs, mean, "noise floor", FLOOR_LINE, dash="dot"),
        *band(epochs, value - error, value + error, colour(0, band=True)),
        {**line(epochs, value, "measured", colour(0)), "mode": "lines+markers"},
    ]
    layout = layout_of("epoch", what.axis, legend=True)
    layout["yaxis"]["rangemode"] = "tozero"
    rows = [
        [str(epoch), *map(shown, cells)]
        for epoch, *cells in zip(epochs, value, error, mean, low, high, strict=True)
    ]
    head = ("epoch", "measured", "± standard error", "noise floor", "lowest", "highest")
    span = f"epochs {epochs[0]} to {epochs[-1]}, {n:,} records"
    alt = f"{what.title}, {span}; bands: standard error, and range of the noise floor."
    return Chart(id, {"data": data, "layout": layout}, alt, Table(head, rows), _HEIGHT, what.title)


def centre(id: str, runs: Mapping[str, RunResults], png: str = "") -> Chart:
    """The path of the center of mass of each run and of its noise floor."""
    data: list[PlotlyFigure] = []
    is_single = len(runs) == 1
    for k, (name, run) in enumerate(runs.items()):
        path = run.figures.centre
        floor = line([], [], "noise floor", FLOOR_LINE if is_single else colour(k), "dot")
        data.append({**_path(run.epochs, path.floor.mean, floor), "showlegend": is_single})
        data.append(_path(run.epochs, path.value, line([], [], name, colour(k))))
    rows = [
        [f"{name}, epoch {epoch}", f"{x:.3f}", f"{y:.3f}"]
        for name, run in runs.items()
        for epoch, (x, y) in zip(run.epochs, run.figures.centre.value, strict=True)
    ]
    alt = "Path of the center of mass; the large dot is the last checkpoint, the noise floor is dotted."
    spec = {"data": data, "layout": layout_of("mean FPR", "mean TPR", legend=True)}
    points = Table(("checkpoint", "mean FPR", "mean TPR"), rows)
    return Chart(id, spec, alt, points, _HEIGHT, "Center of mass", png)


def _path(epochs: Sequence[int], points: Points, trace: PlotlyFigure) -> PlotlyFigure:
    """A line through points of the plane, with a large dot at the last."""
    fpr, tpr = numbers(points).T
    size = [5] * (len(epochs) - 1) + [11]
    return {**trace, "x": fpr, "y": tpr, "mode": "lines+markers",
            "text": [f"epoch {epoch}" for epoch in epochs],
            "marker": {"size": size, "color": trace["line"]["color"]},
            "hovertemplate": "%{text}: FPR %{x:.3f}, TPR %{y:.3f}<extra></extra>"}  # fmt: skip


def compared(id: str, runs: Mapping[str, RunResults], what: OverTime) -> Chart:
    """One figure of all runs over epochs; noise floors are dotted."""
    data: list[PlotlyFigure] = []
    for k, (name, run) in enumerate(runs.items()):
        series = what.series(run)
        floor = line(run.epochs, what.scale * numbers(series.floor.mean), name, colour(k), "dot")
        value = line(run.epochs, what.scale * numbers(series.value), name, colour(k))
        data += [{**floor, "showlegend": False}, {**value, "mode": "lines+markers"}]
    layout = layout_of("epoch", what.axis, legend=True)
    layout["yaxis"]["rangemode"] = "tozero"
    alt = f"{what.title} over epochs, one line per run; noise floors are dotted."
    return Chart(id, {"data": data, "layout": layout}, alt, None, 340, what.title)


def transitions(id: str, moves: Transitions, png: str) -> Chart:
    """Where the records of each cell are at the next checkpoint."""
    shares = 100 * numbers(moves.overall)
    started = np.array(moves.counts).sum(axis=(0, 2))
    names = [cell.replace("FPR ", "").replace(", TPR ", " / ") for cell in moves.cells]
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
        for cell, n, row in zip(moves.cells, started, shares, strict=True)
    ]
    alt = (f"Moves between cells over all of training, % of each row's records. The vulnerable corner is "
           f"{names[math.isqrt(len(names)) - 1]}.")  # fmt: skip
    counted = Table(("from", *moves.cells), rows)
    return Chart(id, {"data": data, "layout": layout}, alt, counted, 520, png=png)


def hardness(
    id: str, name: str, values: FloatArray, advantage: FloatArray, correlations: HardnessFigures
) -> Chart:
    """One measure of hardness against the advantage at the end: dots for few records, density for many."""
    defined = np.isfinite(values) & np.isfinite(advantage)
    x, y = values[defined], advantage[defined]
    title = measure_label(name)
    layout = {**layout_of(title, "advantage at the end"), "margin": {"l": 52, "r": 8, "t": 8, "b": 44}}
    data = [_dots(x, y) if len(x) <= _MOST_DOTS else _density(x, y)]
    alt = f"{title[0].upper()}{title[1:]} against advantage: r = {correlations.pearson}, {len(x):,} records."
    return Chart(id, {"data": data, "layout": layout}, alt, None, 280)


def drawn_measures(measures: Iterable[str]) -> list[str]:
    """At most eight measures to draw.

    Omits the predictive entropy, and the own-class form of a measure that is there over all classes.
    """
    names = list(measures)
    return [
        name
        for name in names
        if not name.startswith("predictive_entropy")
        and (name.removesuffix("_own_class") == name or name.removesuffix("_own_class") not in names)
    ][:_MOST_MEASURES]


def _dots(x: FloatArray, y: FloatArray) -> PlotlyFigure:
    # Rates are shares of a few models, so many dots coincide; a fixed jitter separates them.
    jitter = np.random.default_rng(0).uniform(-0.02, 0.02, len(y))
    return {"type": "scatter", "mode": "markers", "x": x, "y": y + jitter, "hoverinfo": "skip",
            "marker": {"color": colour(0), "size": 4, "opacity": 0.5}}  # fmt: skip


def _density(x: FloatArray, y: FloatArray) -> PlotlyFigure:
    """Counts per bin on a log scale; the outer half percent of hardness is in the first and last bins."""
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


def shown(value: float) -> str:
    """A number in a table."""
    return "undefined" if math.isnan(value) else f"{value:.3g}"


def layout_of(x: str, y: str, legend: bool = False) -> PlotlyFigure:
    """Axis titles, and a legend above the chart, which grows upwards with the number of runs."""
    above = {"legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom"}} if legend else {}
    return {"xaxis": axis(x), "yaxis": axis(y), **above}
