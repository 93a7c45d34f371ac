"""Tables for the terminal, within its width and without breaking a word.

rich folds words where a table is too wide: "undefi ned", or a URL that nobody can copy. Here, a table loses
its lines first, and then becomes a list with one paragraph per row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table

_GAP = 2  # spaces between the columns of a table without lines
_INDENT = 2  # of a paragraph, after the first cell of its row


@dataclass(frozen=True)
class FittedTable:
    """A table that rich prints at the width of the terminal.

    Attributes:
        head: headings.
        rows: cells, as text.
        title: above the table.
        caption: below it.
        justify: "left" or "right", of all columns but the first.
        has_lines: whether it has lines where they fit.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    caption: str = ""
    justify: str = "right"
    has_lines: bool = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        n_columns = len(self.head)
        around = ([3 * n_columns + 1] if self.has_lines else []) + [_GAP * (n_columns - 1)]
        for taken in around:
            widths = column_widths([self.head, *self.rows], options.max_width - taken)
            if widths is not None:
                yield self._table(widths, self.has_lines and taken == around[0])
                return
        yield from self._paragraphs()

    def _table(self, widths: Sequence[int], has_lines: bool) -> Table:
        from rich.table import Column, Table

        columns = [
            Column(heading, justify="right" if index and self.justify == "right" else "left", width=width)
            for index, (heading, width) in enumerate(zip(self.head, widths, strict=True))
        ]
        table = Table(
            *columns,
            title=self.title or None,
            title_justify="left",
            caption=self.caption or None,
            caption_justify="left",
        )
        if not has_lines:
            table.box, table.pad_edge, table.padding = None, False, (0, _GAP, 0, 0)
        for row in self.rows:
            table.add_row(*row)
        return table

    def _paragraphs(self) -> Iterator[RenderableType]:
        from rich.padding import Padding
        from rich.text import Text

        if self.title:
            yield Text(self.title, style="italic")
        for first, *others in self.rows:
            cells = zip(self.head[1:], others, strict=True)
            yield Text(first, style="bold")
            yield Padding(
                Text("; ".join(f"{heading}: {cell}" for heading, cell in cells if cell)), (0, 0, 0, _INDENT)
            )
        if self.caption:
            yield Text(self.caption, style="dim")


def column_widths(rows: Sequence[Sequence[str]], available: int) -> list[int] | None:
    """Characters for each column, between its longest word and its longest line; None: words do not fit.

    Args:
        rows: cells, the headings first.
        available: characters for all columns together.
    """
    columns = list(zip(*rows, strict=True))
    words = [max(_longest(cell.split()) for cell in column) for column in columns]
    lines = [max(_longest(cell.splitlines()) for cell in column) for column in columns]
    if sum(lines) <= available:
        return lines
    spare = available - sum(words)
    if spare < 0:
        return None
    wanted = [line - word for line, word in zip(lines, words, strict=True)]
    return [word + spare * want // sum(wanted) for word, want in zip(words, wanted, strict=True)]


def _longest(texts: Sequence[str]) -> int:
    from rich.cells import cell_len

    return max(map(cell_len, texts), default=0)
