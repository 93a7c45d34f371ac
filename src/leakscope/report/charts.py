"""Charts described once, as plotly reads them: drawn by the page's script, and as PNG by `png.py`.

Colors are CSS variables of the page ("var(--c0)" to "var(--c6)", Okabe and Ito's palette; "var(--c0-band)",
the same but faint; "var(--muted)", "var(--ink)", "var(--bad)", "var(--good)"), so charts follow the light and
dark themes. The page's script sets axes, fonts and grid; a figure contains only what is specific to it. WebGL
traces (scattergl) do not work: they compile code at run time, which the content security policy forbids.
Heatmaps are drawn as one image and stay fast; draw large point clouds on a canvas.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from leakscope.array_types import FloatArray
from leakscope.bank.run_folder import to_jsonable
from leakscope.report.blocks import Block, Body, Heading, Table, body_html, body_markdown, image
from leakscope.report.templates import template

PlotlyFigure = dict[str, Any]
"""`data` and `layout`, a trace, or an axis, as plotly reads them."""
N_COLOURS = 7
_SYMBOLS = ("circle", "diamond", "circle-open")
_LONGEST_LABEL = 60
_DIGITS = 4


@dataclass(frozen=True, eq=False)
class Chart:
    """A chart with the numbers behind it.

    Attributes:
        id: id of the element; unique on the page.
        figure: `data` and `layout` as in plotly; numpy arrays are allowed, NaN leaves a gap.
        alt: a sentence that describes the chart, for screen readers.
        table: the numbers behind the chart; report.md contains them where there is no PNG.
        height: height in pixels.
        title: heading above the chart.
        png: name of its file in figures/, without suffix; empty where there is none.
    """

    id: str
    figure: PlotlyFigure
    alt: str
    table: Table | None = None
    height: int = 380
    title: str = ""
    png: str = ""

    def html(self) -> Markup:
        """An element that the page's script draws on scrolling."""
        numbers = None if self.table is None else self.table.html()
        drawn = template("chart.html.j2", chart=self, figure=script_json(self.figure), table=numbers)
        return body_html([Heading(self.title)] if self.title else []) + drawn

    def markdown(self) -> str:
        """The PNG, or else the numbers."""
        content = image(self.png, self.alt) if self.png else self.table.markdown() if self.table else ""
        return f"{Heading(self.title).markdown()}\n\n{content}" if content and self.title else content


@dataclass(frozen=True, eq=False)
class Grid:
    """Charts side by side on a wide screen, below each other on a narrow one.

    Attributes:
        charts: the charts.
        png: name of a file in figures/ with all of them; empty where there is none.
    """

    charts: Sequence[Chart]
    png: str = ""

    def html(self) -> Markup:
        """A grid of elements."""
        cells = Markup("").join(Markup("<div>{}</div>\n").format(chart.html()) for chart in self.charts)
        return Markup('<div class="side-by-side">\n{}</div>\n').format(cells)

    def markdown(self) -> str:
        """The PNG with all charts, or else each chart."""
        if not self.png:
            return body_markdown(self.charts)
        return image(self.png, "; ".join(chart.title or chart.alt for chart in self.charts))


def rounded_charts(body: Body) -> Body:
    """The blocks with the numbers of their charts to four digits: more say nothing to the eye, and may
    identify what they were computed from."""
    return [_rounded_chart(block) for block in body]


def _rounded_chart(block: Block | str) -> Block | str:
    if isinstance(block, Grid):
        return replace(block, charts=[_rounded(chart) for chart in block.charts])
    return _rounded(block) if isinstance(block, Chart) else block


def _rounded(chart: Chart) -> Chart:
    return replace(chart, figure=_to_digits(to_jsonable(chart.figure)))


def _to_digits(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _to_digits(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_to_digits(part) for part in value]
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value


def axis(title: str, **settings: Any) -> PlotlyFigure:
    """An axis with its title."""
    return {"title": {"text": title}, **settings}


def rate_axes(smallest: float) -> PlotlyFigure:
    """The logarithmic axes of a ROC curve, from the smallest measurable rate to 1."""
    shared = {"type": "log", "range": [float(np.log10(smallest)), 0.02], "tickformat": "~%", "dtick": 1}
    return {
        "xaxis": axis("false positive rate", **shared),
        "yaxis": axis("true positive rate", **shared),
        "hovermode": "closest",
    }


def line(x: Any, y: Any, name: str, hue: str, dash: str = "solid", **more: Any) -> PlotlyFigure:
    """A line."""
    style = {"color": hue, "width": 2, "dash": dash}
    return {"type": "scatter", "mode": "lines", "x": x, "y": y, "name": label(name), "line": style, **more}


def guessing(low: float, high: float) -> PlotlyFigure:
    """The diagonal of guessing."""
    along = np.geomspace(low, high, 30)
    return line(along, along, "guessing", "var(--muted)", "dash", hoverinfo="skip")


def band(x: npt.ArrayLike, low: FloatArray, high: FloatArray, hue: str, **more: Any) -> list[PlotlyFigure]:
    """The area between two lines, where both are defined."""
    defined = np.isfinite(low) & np.isfinite(high)
    at = np.asarray(x)[defined]
    area = {"type": "scatter", "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip",
            "showlegend": False, "fill": "toself", "fillcolor": hue, "x": np.concatenate([at, at[::-1]]),
            "y": np.concatenate([high[defined], low[defined][::-1]]), **more}  # fmt: skip
    return [area] if len(at) else []


def error_bars(
    values: Sequence[float | None], low: Sequence[float | None], high: Sequence[float | None], hue: str
) -> PlotlyFigure:
    """Bars from `low` to `high` around values; none where an end is undefined."""
    middle, least, most = (np.array(ends, dtype=np.float64) for ends in (values, low, high))
    return {"type": "data", "symmetric": False, "array": np.nan_to_num(np.abs(most - middle)),
            "arrayminus": np.nan_to_num(np.abs(middle - least)), "color": hue, "thickness": 1.6}  # fmt: skip


def colour(index: int, band: bool = False) -> str:
    """A color of the palette as a CSS variable; `band`: its faint variant for areas."""
    return f"var(--c{index % N_COLOURS}{'-band' if band else ''})"


def symbol(index: int) -> str:
    """The marker of a series, which tells those of one color apart."""
    return _SYMBOLS[index // N_COLOURS % len(_SYMBOLS)]


def label(text: str) -> str:
    """Text from data for names, ticks and hover labels, without tags, which plotly would interpret."""
    shown = text if len(text) <= _LONGEST_LABEL else f"{text[: _LONGEST_LABEL - 1]}…"
    return shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def distinct_labels(texts: Sequence[str]) -> list[str]:
    """Labels of categories, numbered where they are the same once shortened: one would hide the other."""
    labels = [label(text) for text in texts]
    return [
        f"{name} ({labels[: at + 1].count(name)})" if labels.count(name) > 1 else name
        for at, name in enumerate(labels)
    ]


def script_json(value: Any) -> Markup:
    """JSON for a script element; no text in it can close the element."""
    text = json.dumps(to_jsonable(value), separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
