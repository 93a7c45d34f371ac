"""Results in a notebook: small pictures as inline SVG, with all text escaped.

Displaying them takes no file, no script and no network request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import numpy.typing as npt

from leakscope.array_types import FloatArray
from leakscope.stats.roc import Roc, advantage

SIDE = 220  # pixels of a picture's plot area
_ROC_POINTS = 300
_LEFT, _TOP, _BOTTOM, _RIGHT = 52, 24, 44, 12
_INK, _GRID, _LINE = "#444444", "#dddddd", "#0072B2"


class Html(str):
    """HTML that a notebook displays."""

    def _repr_html_(self) -> str:
        return str(self)


@dataclass(frozen=True)
class Axis:
    """An axis of a picture.

    Attributes:
        label: its title, with the unit.
        low: value at the left or at the bottom.
        high: value at the right or at the top.
        ticks: values with a tick mark.
        is_log: whether it is logarithmic.
    """

    label: str
    low: float = 0.0
    high: float = 1.0
    ticks: tuple[float, ...] = (0.0, 0.5, 1.0)
    is_log: bool = False

    def share(self, values: npt.ArrayLike) -> FloatArray:
        """Position of values between the ends, in [0, 1]; values outside are clipped."""
        shown = np.clip(np.asarray(values, dtype=np.float64), self.low, self.high)
        if self.is_log:
            share = np.log(shown / self.low) / np.log(self.high / self.low)
        else:
            share = (shown - self.low) / (self.high - self.low)
        return np.asarray(share, dtype=np.float64)


def log_axis(label: str, low: float) -> Axis:
    """A logarithmic axis of a rate, from `low` up to 1."""
    ticks = tuple(10.0**-k for k in range(int(np.floor(-np.log10(low) + 1e-9)), -1, -1))
    return Axis(label, low, 1.0, ticks, is_log=True)


def picture(title: str, x: Axis, y: Axis, marks: Sequence[str], alt: str) -> str:
    """A plot with two axes as inline SVG.

    Args:
        title: text above the plot.
        x: horizontal axis.
        y: vertical axis.
        marks: elements made by `line` and `cells`.
        alt: a description for screen readers.
    """
    width, height = _LEFT + SIDE + _RIGHT, _TOP + SIDE + _BOTTOM
    parts = [
        f'<svg role="img" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="11" fill="{_INK}">',
        f"<title>{escape(alt)}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="15" font-size="12">{escape(title)}</text>',
        *(_tick(x, tick, along_x=True) for tick in x.ticks),
        *(_tick(y, tick, along_x=False) for tick in y.ticks),
        *marks,
        f'<text x="{_LEFT + SIDE / 2}" y="{height - 8}" text-anchor="middle">{escape(x.label)}</text>',
        f'<text transform="translate(12 {_TOP + SIDE / 2}) rotate(-90)" text-anchor="middle">'
        f"{escape(y.label)}</text>",
        "</svg>",
    ]
    return "".join(parts)


def line(
    x: Axis, y: Axis, xs: npt.ArrayLike, ys: npt.ArrayLike, colour: str = _LINE, dashes: str = ""
) -> str:
    """A line through points, as an SVG element."""
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(_right(x, xs), _down(y, ys), strict=True))
    style = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.8"{style}/>'


def cells(counts: FloatArray, colour: str = _LINE) -> str:
    """A histogram over the unit square; cells are darker where counts are higher.

    Args:
        counts: (x, y), both in ascending order.
        colour: color of the fullest cell.
    """
    n = len(counts)
    size, fullest = SIDE / n, counts.max(initial=0)
    squares = []
    for i, j in np.argwhere(counts > 0):
        shade = 0.08 + 0.92 * np.sqrt(counts[i, j] / fullest)  # a root, so that single records stay visible
        left, top = _LEFT + i * size, _TOP + SIDE - (j + 1) * size
        squares.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{size:.1f}" height="{size:.1f}" fill="{colour}" '
            f'fill-opacity="{shade:.2f}"/>'
        )
    return "".join(squares)


def side_by_side(pictures: Sequence[str]) -> str:
    """Pictures in a row that wraps."""
    return '<div style="display:flex;flex-wrap:wrap;gap:8px">' + "".join(pictures) + "</div>"


def summary_and_table(lines: Sequence[str], head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Sentences, then a table; everything is escaped."""
    paragraphs = "".join(f"<p>{escape(line)}</p>" for line in lines)
    headings = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<div>{paragraphs}<table><thead><tr>{headings}</tr></thead><tbody>{body}</tbody></table></div>"


def roc_picture(curve: Roc) -> Html:
    """A ROC curve on logarithmic axes, drawn at a few hundred false positive rates."""
    if not curve.n_members or not curve.n_nonmembers:
        return Html("<p>No ROC: there are no members, or no non-members.</p>")
    least = min(1 / curve.n_nonmembers, 0.1)
    x, y = log_axis("false positive rate", least), log_axis("true positive rate", least)
    fpr = np.geomspace(least, 1, _ROC_POINTS)
    # Just above each FPR, so that a rounded rate k/n gets its own point.
    tpr = curve.tpr[np.searchsorted(curve.fpr, fpr * (1 + 1e-12), side="right") - 1]
    title = f"ROC, advantage {advantage(curve):.3f}"
    sizes = f"{curve.n_members:,} members and {curve.n_nonmembers:,} non-members"
    marks = [line(x, y, fpr, fpr, "#888888", "4 3"), line(x, y, fpr, tpr)]
    alt = f"{title}; {sizes}; both axes are logarithmic, the diagonal is guessing"
    return Html(picture(title, x, y, marks, alt))


def _right(axis: Axis, values: npt.ArrayLike) -> FloatArray:
    return _LEFT + SIDE * axis.share(values)


def _down(axis: Axis, values: npt.ArrayLike) -> FloatArray:
    return _TOP + SIDE * (1 - axis.share(values))


def _tick(axis: Axis, at: float, along_x: bool) -> str:
    text = escape(f"{at:g}")
    if along_x:
        place = float(_right(axis, at))
        return (
            f'<path d="M{place:.1f} {_TOP}V{_TOP + SIDE}" stroke="{_GRID}"/>'
            f'<text x="{place:.1f}" y="{_TOP + SIDE + 14}" text-anchor="middle">{text}</text>'
        )
    place = float(_down(axis, at))
    return (
        f'<path d="M{_LEFT} {place:.1f}H{_LEFT + SIDE}" stroke="{_GRID}"/>'
        f'<text x="{_LEFT - 5}" y="{place + 4:.1f}" text-anchor="end">{text}</text>'
    )
