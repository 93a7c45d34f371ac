"""Results in a notebook, with all text escaped; nothing to load and no script to run."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from leakscope.report.blocks import Table, body_html
from leakscope.report.charts import Chart, colour, guessing, line, rate_axes
from leakscope.stats.roc import Roc, advantage

_ROC_POINTS = 300


def picture(charts: Sequence[Chart]) -> str:
    """Charts as one embedded picture."""
    from leakscope.report.png import draw_png

    content = draw_png(charts)
    element = Markup('<img style="max-width:100%" alt="{}" src="data:image/png;base64,{}">')
    return element.format("; ".join(c.alt for c in charts), base64.b64encode(content).decode())


def summary_and_table(lines: Sequence[str], head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Sentences, then a table."""
    return body_html([*lines, Table(head, rows)])


def roc_picture(curve: Roc) -> str:
    """A ROC curve on logarithmic axes."""
    if not curve.n_members or not curve.n_nonmembers:
        return "<p>No ROC: there are no members, or no non-members.</p>"
    return picture([roc_chart(curve)])


def roc_chart(curve: Roc) -> Chart:
    """The curve at a few hundred false positive rates, and the diagonal of guessing."""
    least = min(1 / curve.n_nonmembers, 0.1)
    fpr = np.geomspace(least, 1, _ROC_POINTS)
    # Just above each FPR, so that a rounded rate k/n gets its own point.
    tpr = curve.tpr[np.searchsorted(curve.fpr, fpr * (1 + 1e-12), side="right") - 1]
    title = f"ROC, advantage {advantage(curve):.3f}"
    sizes = f"{curve.n_members:,} members and {curve.n_nonmembers:,} non-members"
    alt = f"{title}; {sizes}; both axes are logarithmic, the diagonal is guessing"
    data = [guessing(least, 1), line(fpr, tpr, "ROC", colour(0))]
    return Chart("roc", {"data": data, "layout": {**rate_axes(least), "showlegend": False}}, alt, title=title)
