"""Plotly charts from plain dicts, drawn on scrolling, in the page's colors, with a table of the numbers.

Colors are CSS variables of the page ("var(--c0)" to "var(--c6)", Okabe and Ito's palette; "var(--c0-band)",
the same but faint; "var(--muted)", "var(--ink)", "var(--bad)", "var(--good)"), so charts follow the light and
dark themes. The page's script sets axes, fonts and grid; a figure contains only what is specific to it. WebGL
traces (scattergl) do not work: they compile code at run time, which the content security policy forbids.
Heatmaps are drawn as one image and stay fast; draw large point clouds on a canvas.
"""

from __future__ import annotations

import json
from typing import Any

from markupsafe import Markup

from leakscope.bank.run_folder import to_jsonable
from leakscope.report.tables import Table, table
from leakscope.report.templates import template

N_COLOURS = 7
_LONGEST_LABEL = 60


def chart(id: str, figure: dict[str, Any], alt: str, table: Table | None = None, height: int = 380) -> Markup:
    """A chart.

    Args:
        id: id of the element; unique on the page.
        figure: `data` and `layout` as in plotly; numpy arrays are allowed, NaN leaves a gap.
        alt: a sentence that describes the chart, for screen readers.
        table: the numbers behind the chart.
        height: height in pixels.
    """
    return template(
        "chart.html.j2",
        id=id,
        figure=script_json(figure),
        alt=alt,
        table=None if table is None else _rendered(table),
        height=height,
    )


def colour(index: int, band: bool = False) -> str:
    """A color of the palette as a CSS variable; `band`: its faint variant for areas."""
    return f"var(--c{index % N_COLOURS}{'-band' if band else ''})"


def label(text: str) -> str:
    """Text from data for names, ticks and hover labels, without tags, which plotly would interpret."""
    shown = text if len(text) <= _LONGEST_LABEL else f"{text[: _LONGEST_LABEL - 1]}…"
    return shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def script_json(value: Any) -> Markup:
    """JSON for a script element; no text in it can close the element."""
    text = json.dumps(to_jsonable(value), separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _rendered(numbers: Table) -> Markup:
    return table(numbers.head, numbers.rows, numbers.caption)
