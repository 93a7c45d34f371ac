"""Tables for people, screen readers and printers; every cell is text and is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from leakscope.report.templates import template

_NOTHING = ("", "–", "not measurable", "not resolvable", "undefined")


@dataclass(frozen=True)
class Table:
    """A table of text.

    Attributes:
        head: one heading per column.
        rows: cells of text; the first cell of a row names it.
        caption: what the table contains; may be empty where the heading above it says so.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


def table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> Markup:
    """A table with row and column headings; columns of numbers are right-aligned.

    Args:
        head: one heading per column.
        rows: cells of text; the first cell of a row names it.
        caption: what the table contains.
    """
    numeric = [_is_numeric([row[column] for row in rows]) for column in range(len(head))]
    return template("table.html.j2", head=head, rows=rows, caption=caption, numeric=numeric)


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table; columns of numbers are right-aligned, but for the first."""
    numeric = [column > 0 and _is_numeric([row[column] for row in rows]) for column in range(len(headings))]
    rule = "|" + "".join("---:|" if is_numeric else "---|" for is_numeric in numeric)
    return [_markdown_row(headings), rule, *map(_markdown_row, rows)]


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _is_numeric(cells: Sequence[str]) -> bool:
    """True where most cells that are not empty begin like a number."""
    starts = [cell.lstrip("−-+<≥≤ ")[:1].isdigit() for cell in cells if cell not in _NOTHING]
    return 2 * sum(starts) > len(starts) or not starts
