"""Tables a person, a screen reader and a printer can read; every cell is text and is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from leakscope.report.templates import template

_NOTHING = ("", "–", "not resolvable", "undefined")


@dataclass(frozen=True)
class Table:
    """Text in rows.

    Attributes:
        head: one heading a column.
        rows: cells of text, one row a line; the first cell of a row names it.
        caption: what the table shows; may be empty where the heading above says it.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


def table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> Markup:
    """A table with row and column headings; columns of numbers stand to the right.

    Args:
        head: one heading a column.
        rows: cells of text; the first cell of a row names it.
        caption: what the table shows.
    """
    numeric = [_is_numeric([row[column] for row in rows]) for column in range(len(head))]
    return template("table.html.j2", head=head, rows=rows, caption=caption, numeric=numeric)


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table, first column left, the others right."""
    return [
        "| " + " | ".join(headings) + " |",
        "|---|" + "---:|" * (len(headings) - 1),
        *("| " + " | ".join(row) + " |" for row in rows),
    ]


def _is_numeric(cells: Sequence[str]) -> bool:
    """True where most cells that say something begin like a number."""
    starts = [cell.lstrip("−-+<≥≤ ")[:1].isdigit() for cell in cells if cell not in _NOTHING]
    return 2 * sum(starts) > len(starts) or not starts
