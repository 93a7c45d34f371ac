"""The blocks a report is made of: each renders itself as HTML and as Markdown.

A body is a sequence of blocks; a string in it is a paragraph. Text may come from data: HTML is escaped by
markupsafe and jinja2, Markdown by `plain`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote

from markupsafe import Markup

from leakscope.errors import printable
from leakscope.report.templates import template

_NOTHING = ("", "–", "not measurable", "not resolvable", "undefined")


class Block(Protocol):
    """A part of a report."""

    def html(self) -> Markup:
        """The block on the page."""

    def markdown(self) -> str:
        """The block in report.md; empty where it is left out."""


Body = Sequence[Block | str]


def body_html(body: Body) -> Markup:
    """A body as markup."""
    paragraph = Markup("<p>{}</p>\n")
    return Markup("").join(paragraph.format(b) if isinstance(b, str) else b.html() for b in body)


def body_markdown(body: Body) -> str:
    """A body as Markdown, without the blocks that have no Markdown."""
    return "\n\n".join(filter(None, (plain(b) if isinstance(b, str) else b.markdown() for b in body)))


def plain(text: str) -> str:
    """Text on one line of Markdown that makes no HTML, link or picture and starts no list, heading or fence.

    Backticks and asterisks stay: sentences use them, and all they can do is to set text in another face.
    """
    return re.sub(r"^([#>+=~`|-]|\*(?!\*))", r"\\\1", _inline(text))


def image(name: str, alt: str) -> str:
    """A picture of the folder figures/ in Markdown."""
    return f"![{_inline(alt).replace(']', '&#93;')}](figures/{quote(name)}.png)"


@dataclass(frozen=True)
class Heading:
    """A heading within a section."""

    text: str

    def html(self) -> Markup:
        """An h3 element."""
        return Markup("<h3>{}</h3>\n").format(self.text)

    def markdown(self) -> str:
        """A heading of the third level."""
        return f"### {plain(self.text)}"


@dataclass(frozen=True)
class Absent:
    """A sentence about a missing part."""

    sentence: str

    def html(self) -> Markup:
        """A paragraph, set apart."""
        return Markup('<p class="absent">{}</p>\n').format(self.sentence)

    def markdown(self) -> str:
        """A paragraph."""
        return plain(self.sentence)


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    lines: Sequence[str]

    def html(self) -> Markup:
        """A list element; nothing without lines."""
        items = Markup("").join(Markup("<li>{}</li>\n").format(line) for line in self.lines)
        return Markup("<ul>\n{}</ul>\n").format(items) if items else Markup("")

    def markdown(self) -> str:
        """One line per sentence."""
        return "\n".join(f"- {plain(line)}" for line in self.lines)


@dataclass(frozen=True)
class Definitions:
    """(term, meaning) pairs."""

    pairs: Sequence[tuple[str, str]]

    def html(self) -> Markup:
        """A description list."""
        items = Markup("").join(
            Markup("<div><dt>{}</dt><dd>{}</dd></div>\n").format(*pair) for pair in self.pairs
        )
        return Markup('<dl class="method">\n{}</dl>\n').format(items)

    def markdown(self) -> str:
        """A list with the terms first."""
        return "\n".join(f"- {plain(term)}: {plain(meaning)}" for term, meaning in self.pairs)


@dataclass(frozen=True)
class Code:
    """Lines for a terminal."""

    text: str

    def html(self) -> Markup:
        """A pre element."""
        return Markup("<pre><code>{}</code></pre>\n").format(self.text)

    def markdown(self) -> str:
        """A fenced block, which no text in it can end; an indented one would belong to a list before it."""
        text = printable(self.text)
        fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
        return f"{fence}\n{text}\n{fence}"


@dataclass(frozen=True)
class Table:
    """A table of text; columns of numbers are right-aligned.

    Attributes:
        head: one heading per column.
        rows: cells of text; the first cell of a row names it.
        caption: what the table contains; may be empty where the heading above it says so.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""

    def html(self) -> Markup:
        """A table with row and column headings, for people, screen readers and printers."""
        return template("table.html.j2", table=self, numeric=self._numeric())

    def markdown(self) -> str:
        """The caption and the table."""
        rule = "|" + "".join("---:|" if is_numeric else "---|" for is_numeric in self._numeric())
        lines = [_markdown_row(self.head), rule, *map(_markdown_row, self.rows)]
        return "\n".join([*([plain(self.caption), ""] if self.caption else []), *lines])

    def _numeric(self) -> list[bool]:
        return [k > 0 and _is_numeric([row[k] for row in self.rows]) for k in range(len(self.head))]


@dataclass(frozen=True)
class Picture:
    """A picture of figures/ in report.md, where the page has an interactive part instead.

    Attributes:
        name: name of the file, without suffix.
        alt: a sentence that describes it.
    """

    name: str
    alt: str

    def html(self) -> Markup:
        """Nothing."""
        return Markup("")

    def markdown(self) -> str:
        """The picture."""
        return image(self.name, self.alt)


@dataclass(frozen=True)
class Raw:
    """Markup of an interactive part, and what report.md contains instead."""

    markup: Markup
    instead: Body = ()

    def html(self) -> Markup:
        """The markup."""
        return self.markup

    def markdown(self) -> str:
        """The blocks in its place."""
        return body_markdown(self.instead)


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_inline(cell).replace("|", "\\|") for cell in cells) + " |"


def _inline(text: str) -> str:
    return printable(" ".join(text.split())).replace("\\", "\\\\").replace("<", "&lt;").replace("[", "\\[")


_LONGEST_NUMBER = 40
"""Characters of a number with its interval and unit; a column of longer ones would not wrap."""


def _is_numeric(cells: Sequence[str]) -> bool:
    """True where most cells that are not empty begin like a number, and none of these is a sentence."""
    starts = [cell.lstrip("−-+<≥≤ ")[:1].isdigit() for cell in cells if cell not in _NOTHING]
    sentences = (len(cell) > _LONGEST_NUMBER and cell[0].isdigit() for cell in cells)
    return (2 * sum(starts) > len(starts) or not starts) and not any(sentences)
