"""Every defence as a table: for `leakscope defences` and docs/defences.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from leakscope.attacks.table import markdown_table
from leakscope.defences.base import Defence
from leakscope.defences.registry import defence_classes, strengths_of
from leakscope.options import accepted_values, option_text


@dataclass(frozen=True)
class DefenceRow:
    """One defence.

    Attributes:
        name: of the defence.
        summary: one line.
        changes: what it acts on.
        options: name -> default, as text.
        accepts: name -> the values it accepts, in words.
        strengths: the settings that comparisons try, from weak to strong.
        source: the publication.
    """

    name: str
    summary: str
    changes: str
    options: dict[str, str]
    accepts: dict[str, str]
    strengths: tuple[str, ...]
    source: str

    @property
    def options_text(self) -> str:
        """Options with their defaults, as "gamma=0.7, alpha=0.01"."""
        return ", ".join(f"{name}={default}" for name, default in self.options.items())


def defence_rows() -> list[DefenceRow]:
    """One row per defence."""
    return [_row(cls()) for cls in defence_classes().values()]


def defence_cells() -> tuple[tuple[str, ...], Sequence[tuple[str, ...]]]:
    """Head and cells of the table."""
    head = ("defence", "changes", "options and defaults", "source")
    return head, [(row.name, row.changes, row.options_text, row.source) for row in defence_rows()]


def markdown() -> str:
    """The table for docs/defences.md."""
    head, cells = defence_cells()
    rows = [
        (f"`{name}`", changes, f"`{options}`" if options else "", *rest)
        for name, changes, options, *rest in cells
    ]
    return markdown_table(head, rows) + "\n"


def _row(defence: Defence) -> DefenceRow:
    return DefenceRow(
        defence.name,
        (type(defence).__doc__ or "").strip().partition("\n")[0],
        defence.changes,
        {field.name: option_text(field.default) for field in fields(defence)},
        {name: str(accepted) for name, accepted in accepted_values(type(defence)).items()},
        tuple(strength.label for strength in strengths_of(defence.name)),
        defence.source,
    )
