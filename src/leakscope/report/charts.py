"""Plotly charts from plain dicts: drawn when scrolled to, in the page's colours, a table behind each.

Colours are written as CSS variables of the page ("var(--c0)" to "var(--c6)", Okabe and Ito's palette;
"var(--c0-band)" the same, faint; "var(--muted)", "var(--ink)", "var(--bad)", "var(--good)"), so that a
chart follows light and dark. The page's script fills in axes, fonts and grid; a figure says only what is
its own. WebGL traces (scattergl) cannot be used: their code is made at run time, which the page's content
security policy forbids. Heatmaps are painted as one picture and stay fast; for a cloud of many points use
a canvas of your own.
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
        id: of the element; unique on the page.
        figure: `data` and `layout` as plotly has them; arrays may be numpy's, NaN leaves a gap.
        alt: what the chart shows, in a sentence, for those who cannot see it.
        table: the numbers behind it.
        height: in pixels.
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
    """The palette's colour as a CSS variable; `band` for a faint area of it."""
    return f"var(--c{index % N_COLOURS}{'-band' if band else ''})"


def label(text: str) -> str:
    """Text from data for a figure's names, ticks and hover: plotly reads tags in them, so none is left."""
    shown = text if len(text) <= _LONGEST_LABEL else f"{text[: _LONGEST_LABEL - 1]}…"
    return shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def script_json(value: Any) -> Markup:
    """JSON that is safe inside a script element: no text in it can end the element."""
    text = json.dumps(to_jsonable(value), separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _rendered(numbers: Table) -> Markup:
    return table(numbers.head, numbers.rows, numbers.caption)
