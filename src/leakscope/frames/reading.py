"""How the columns of a table were read, in words that a user can check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ColumnKind = Literal["number", "yes or no", "text", "category", "free text", "date", "duration", "object"]
_MOST_LISTED = 30
_FEWEST_GROUPED, _NAMED = 5, 3  # columns of plain numbers that are summed up, and those named of them


@dataclass(frozen=True)
class ColumnReading:
    """How one column was read.

    Attributes:
        name: of the column.
        kind: what its values are.
        values: number of different values; 0 for numbers, where it says little.
        missing: rows without a value.
        encoding: what a network gets; empty: the number itself.
        note: how texts were turned into numbers; empty: nothing to say.
        is_text: it is stored as text; an estimator that gets the table as it is gets texts.
    """

    name: str
    kind: ColumnKind
    values: int = 0
    missing: int = 0
    encoding: str = ""
    note: str = ""
    is_text: bool = False

    @property
    def is_plain_number(self) -> bool:
        """True where there is nothing to say but that these are numbers."""
        return self == ColumnReading(self.name, "number")

    def text(self, encoded: bool) -> str:
        """The reading in a few words; `encoded`: with what becomes of it for a network."""
        as_given = self.is_text and not encoded
        parts = [f"{self.name or '(no name)'} {f'text that holds a {self.kind}' if as_given else self.kind}"]
        if self.values:
            parts.append(f"{self.values:,} value{'s' if self.values > 1 else ''}")
        parts += [self.note] if self.note else []
        parts += [self.encoding] if encoded and self.encoding else []
        parts += [f"{self.missing:,} missing"] if self.missing else []
        return ", ".join(parts)


@dataclass(frozen=True)
class TableReading:
    """How a table was read.

    Attributes:
        columns: of the features, in order.
        warnings: likely mistakes, one sentence each.
        problems: what keeps a network from being trained on the table, one phrase per column.
    """

    columns: tuple[ColumnReading, ...]
    warnings: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    def summary(self, encoded: bool) -> str:
        """ "3 features: age number; city text, 12 values, one-hot; member yes or no"."""
        n, plain = len(self.columns), [column for column in self.columns if column.is_plain_number]
        others = [column for column in self.columns if not column.is_plain_number]
        head, shown = f"{n:,} feature{'s' if n > 1 else ''}", []
        if n > _MOST_LISTED and not others:
            return f"{head}, all numbers"
        if len(plain) < _FEWEST_GROUPED:
            others = list(self.columns)
        else:
            named = ", ".join(column.name or "(no name)" for column in plain[:_NAMED])
            shown.append(f"{len(plain):,} numbers ({named} and {len(plain) - _NAMED:,} more)")
        shown += [column.text(encoded) for column in others[:_MOST_LISTED]]
        more = f"; and {len(others) - _MOST_LISTED:,} more" if len(others) > _MOST_LISTED else ""
        return f"{head}: {'; '.join(shown)}{more}"

    def lines(self, encoded: bool) -> list[str]:
        """The summary, and a line for each likely mistake."""
        return [self.summary(encoded), *(f"Check: {warning}" for warning in self.warnings)]

    def __str__(self) -> str:
        return "\n".join(self.lines(encoded=True))
