"""`leakscope attacks`: which attacks there are, with their options and what they need."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from leakscope.cli.output import AsJson, print_json, print_list


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
        print_list(*attack_cells(), caption="attack(option=value, ...) sets options")
