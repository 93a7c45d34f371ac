"""`leakscope defences`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from leakscope.cli.output import AsJson, print_json, print_list


def defences(
    as_json: AsJson = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print the table as Markdown.")] = False,
) -> None:
    """List every defence: what it changes, options and their defaults, source."""
    from leakscope.defences.table import defence_cells, defence_rows, markdown

    if as_json:
        print_json([asdict(row) for row in defence_rows()])
    elif as_markdown:
        print(markdown(), end="")
    else:
        print_list(*defence_cells(), caption="defence(option=value, ...) sets options")
