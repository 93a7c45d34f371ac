"""The picture of a rating: each figure with its interval on one scale of levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from leakscope.report.templates import template


@dataclass(frozen=True)
class LeveledFigure:
    """A figure on the scale of levels.

    Attributes:
        name: the figure in words that need no explanation.
        shown: its value and interval as text.
        level: the level it reaches.
        value: its place on the scale; 0 to the number of levels, where level k covers k to k + 1.
        low: place of the lower end of its interval.
        high: place of the upper end of its interval.
    """

    name: str
    shown: str
    level: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Levels:
    """The figures that a rating rests on.

    Attributes:
        levels: names of the levels, from the lowest to the highest.
        figures: one row per figure.
        caption: how to read the picture.
    """

    levels: Sequence[str]
    figures: Sequence[LeveledFigure]
    caption: str

    def html(self) -> Markup:
        """Rows of text with a scale each; nothing in it depends on color alone, and it needs no script."""
        return template("levels.html.j2", picture=self, at=self._place)

    def markdown(self) -> str:
        """Nothing: the table of the rating has the same figures."""
        return ""

    def _place(self, place: float) -> str:
        """A place on the scale in percent of its length."""
        return f"{100 * min(max(place / len(self.levels), 0.0), 1.0):.2f}"
