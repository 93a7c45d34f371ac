"""`leakscope attacks`: which attacks there are, with their options and what they need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from leakscope.cli.output import AsJson, console, print_json


def attacks(
    as_json: AsJson = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the tables of attacks and signals as Markdown.")
    ] = False,
) -> None:
    """List every attack: options and their defaults, signals, reference models, source."""
    from leakscope.attacks.table import attack_cells, attack_rows, markdown

    if as_json:
        print_json([asdict(row) for row in attack_rows()])
    elif as_markdown:
        print(markdown(), end="")
    else:
        _print_table(*attack_cells())


def _print_table(head: tuple[str, ...], cells: Sequence[tuple[str, ...]]) -> None:
    from rich.table import Table

    output = console()
    if not output.is_terminal:
        print("\n".join("\t".join(line) for line in (head, *cells)))
        return
    table = Table(box=None, caption="attack(option=value, ...) sets options", caption_justify="left")
    for column in head:
        table.add_column(column, overflow="fold")
    for line in cells:
        table.add_row(*line)
    output.print(table)
