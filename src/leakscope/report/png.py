"""Charts as PNG files: what plotly draws on the page, drawn by matplotlib from the same description.

Only what our charts use is understood: lines, markers, areas, error bars, boxes and heatmaps; logarithmic
and categorical axes, and a second vertical axis. All figures share one style, and the same data give the same
bytes.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np

from leakscope.array_types import FloatArray
from leakscope.disk.storage import write_bytes
from leakscope.report.charts import Chart, PlotlyFigure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette, which color-blind readers can tell apart."""
Axes = Any
"""matplotlib's; its methods are called with styles that are read from traces, which no stub can check."""
_STYLE: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "legend.frameon": False,
    "figure.dpi": 120,
    "text.parse_math": False,  # names come from data and may contain dollar signs
}
_NAMED = {"var(--muted)": "#888888", "var(--ink)": "#000000", "var(--paper)": "#ffffff"}
_DASHES = {"solid": "-", "dash": "--", "dot": ":"}
_SYMBOLS = {"diamond": "D", "circle-open": "o"}
_PIXELS_PER_INCH = 95
_BAND = 0.2


@contextmanager
def figure(
    file: Path | io.BytesIO, width: float = 6.4, height: float = 4.2, panels: tuple[int, int] = (1, 1)
) -> Iterator[Any]:
    """Yields axes to draw on (one Axes, or a flat list with several panels) and saves them to `file`."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    content = file if isinstance(file, io.BytesIO) else io.BytesIO()
    with rc_context(_STYLE):
        drawn = Figure(figsize=(width, height), layout="constrained")
        canvas: Any = FigureCanvasAgg(drawn)  # its methods have no types
        axes = list(drawn.subplots(*panels, squeeze=False).flat)
        yield axes[0] if panels == (1, 1) else axes
        # Not `drawn.savefig`, which draws twice: once for the layout, and the same again for the file.
        canvas.print_png(content, metadata={"Software": None})
    if isinstance(file, Path):
        write_bytes(file, content.getvalue())


def draw_png(charts: Sequence[Chart]) -> bytes:
    """One picture with the charts as panels."""
    content = io.BytesIO()
    n_columns = min(math.ceil(math.sqrt(len(charts))), 3)
    n_rows = -(-len(charts) // n_columns)
    width = 6.4 if n_columns == 1 else 5.2 * n_columns
    height = n_rows * max(3.6, max(chart.height for chart in charts) / _PIXELS_PER_INCH)
    with figure(content, width, height, panels=(n_rows, n_columns)) as panels:
        all_axes = panels if isinstance(panels, list) else [panels]
        for axes, chart in zip(all_axes, charts, strict=False):
            _draw(axes, chart)
        for axes in all_axes[len(charts) :]:
            axes.axis("off")
    return content.getvalue()


def _draw(axes: Axes, chart: Chart) -> None:
    layout, traces = chart.figure["layout"], chart.figure["data"]
    categories = {side: _categories(layout, traces, side) for side in ("x", "y")}
    right = axes.twinx() if "yaxis2" in layout else axes
    for trace in traces:
        on = right if trace.get("yaxis") == "y2" else axes
        x, y = (_positions(trace.get(side, ()), categories[side]) for side in ("x", "y"))
        _DRAWN_BY.get(trace.get("type", "scatter"), _scatter)(on, trace, x, y)
    _set_axis(axes, "x", layout["xaxis"], categories["x"])
    _set_axis(axes, "y", layout["yaxis"], categories["y"])
    if right is not axes:
        right.spines["right"].set_visible(True)
        right.grid(False)
        _set_axis(right, "y", layout["yaxis2"], [])
    if chart.title:
        axes.set_title(chart.title)
    if layout.get("showlegend", True):
        _legend(axes, right)


def _legend(axes: Axes, right: Axes) -> None:
    on = dict.fromkeys((axes, right))
    handles, labels = ([part for a in on for part in a.get_legend_handles_labels()[k]] for k in (0, 1))
    if len(labels) > 1:
        right.legend(handles, labels, fontsize=8, loc="best")


def _categories(layout: PlotlyFigure, traces: Sequence[PlotlyFigure], side: str) -> list[str]:
    """The texts along a categorical axis, in order; empty for numbers."""
    if layout[f"{side}axis"].get("type") != "category":
        return []
    return list(dict.fromkeys(text for trace in traces for text in trace.get(side, ())))


def _positions(values: Any, categories: Sequence[str]) -> FloatArray:
    return np.array([categories.index(v) for v in values] if categories else values, dtype=np.float64)


def _fill(axes: Axes, corners: FloatArray, color: Any) -> None:
    """`axes.fill`, which would look for the limits of each edge as if it were a curve, 8 times slower."""
    from matplotlib.patches import Polygon

    axes.add_artist(Polygon(corners, closed=True, color=color, linewidth=0))
    axes.update_datalim(corners)
    axes.autoscale_view()


def _scatter(axes: Axes, trace: PlotlyFigure, x: FloatArray, y: FloatArray) -> None:
    if "fill" in trace:
        _fill(axes, np.column_stack([x, y]), _colour(trace["fillcolor"]))
        return
    mode, stroke, marker = trace.get("mode", ""), trace.get("line", {}), trace.get("marker", {})
    hue = _colour(stroke.get("color") or marker.get("color"))
    symbol = marker.get("symbol", "circle")
    is_shown = trace.get("showlegend", True) and "name" in trace
    style: dict[str, object] = {
        "color": hue,
        "linestyle": _DASHES[stroke.get("dash", "solid")] if "lines" in mode else "none",
        "linewidth": 1.6,
        "marker": _SYMBOLS.get(symbol, "o") if "markers" in mode else None,
        "markersize": 7 if symbol in _SYMBOLS else 3.5,
        "alpha": marker.get("opacity"),
        "drawstyle": "steps-post" if stroke.get("shape") == "hv" else "default",
        "label": unescape(trace["name"]) if is_shown else None,
        **({"mfc": "none"} if symbol == "circle-open" else {}),
    }
    errors = {f"{side}err": _ends(trace[f"error_{side}"]) for side in "xy" if f"error_{side}" in trace}
    if errors:
        axes.errorbar(x, y, **errors, capsize=2, elinewidth=1.2, **style)
    else:
        axes.plot(x, y, **style)
    if isinstance(marker.get("size"), list):  # the last point of a path is larger
        axes.plot(x[-1:], y[-1:], "o", color=hue, markersize=8)


def _ends(error: Mapping[str, Any]) -> list[FloatArray]:
    above = np.asarray(error["array"], dtype=np.float64)
    return [np.asarray(error.get("arrayminus", above), dtype=np.float64), above]


def _box(axes: Axes, trace: PlotlyFigure, x: FloatArray, y: FloatArray) -> None:
    names = {"q1": "q1", "median": "med", "q3": "q3", "lowerfence": "whislo", "upperfence": "whishi"}
    boxes = [{ours: trace[theirs][k] for theirs, ours in names.items()} for k in range(len(x))]
    hue = {"color": _colour(trace["line"]["color"])}
    axes.bxp(boxes, positions=x, widths=0.5, showfliers=False, patch_artist=True, medianprops=hue,
             whiskerprops=hue, capprops=hue, label=trace["name"],
             boxprops={"facecolor": "#d9e8f3", "edgecolor": hue["color"]})  # fmt: skip


def _heatmap(axes: Axes, trace: PlotlyFigure, x: FloatArray, y: FloatArray) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    hues = LinearSegmentedColormap.from_list("scale", [_colour(hue) for _, hue in trace["colorscale"]])
    z = np.array(trace["z"], dtype=np.float64)
    axes.pcolormesh(x, y, z, cmap=hues, vmin=trace.get("zmin"), vmax=trace.get("zmax"))
    axes.grid(False)
    for (i, j), value in np.ndenumerate(z if "text" in trace else np.zeros((0, 0))):
        dark = value > 0.55 * trace["zmax"]
        axes.text(x[j], y[i], trace["text"][i][j], ha="center", va="center", fontsize=8,
                  color="white" if dark else "black")  # fmt: skip


_DRAWN_BY: dict[str, Callable[[Axes, PlotlyFigure, FloatArray, FloatArray], None]] = {
    "box": _box,
    "heatmap": _heatmap,
}


def _set_axis(axes: Axes, side: str, spec: PlotlyFigure, categories: Sequence[str]) -> None:
    of = {"x": axes.xaxis, "y": axes.yaxis}[side]
    set_limits = {"x": axes.set_xlim, "y": axes.set_ylim}[side]
    of.set_label_text(unescape(spec.get("title", {}).get("text", "")))
    is_log = spec.get("type") == "log"
    if is_log:
        axes.set(**{f"{side}scale": "log"})
    if "range" in spec:
        set_limits(*(10.0**end if is_log else end for end in spec["range"]))
    elif spec.get("rangemode") == "tozero":
        low, high = of.get_view_interval()
        set_limits(min(0.0, low), high)
    if "tickvals" in spec or categories:
        texts = spec.get("ticktext", categories)
        of.set_ticks(spec.get("tickvals", range(len(categories))), [unescape(text) for text in texts])
        of.set_ticks([], minor=True)
        axes.tick_params(axis=side, labelsize=8, rotation=40 if side == "x" and len(texts) > 8 else 0)
    elif spec.get("tickformat") == "~%":
        of.set_major_formatter(lambda value, _: f"{100 * value:g}%")
    elif is_log:
        of.set_major_formatter(lambda value, _: f"{value:g}")
    if spec.get("autorange") == "reversed":
        of.set_inverted(True)


def _colour(css: str) -> str | tuple[str, float]:
    """A color of the page for matplotlib."""
    if css in _NAMED:
        return _NAMED[css]
    index, _, is_band = css.removeprefix("var(--c").removesuffix(")").partition("-")
    return (COLOURS[int(index)], _BAND) if is_band else COLOURS[int(index)]
