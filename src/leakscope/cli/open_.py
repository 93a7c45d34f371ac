"""`leakscope open RUN`: show a run's report in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leakscope.errors import InputError


def open_(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    print_only: Annotated[bool, typer.Option("--print-only", help="Only print the path.")] = False,
) -> None:
    """Open a run's report.html in the browser, and print its path."""
    import webbrowser

    from leakscope.bank.run_folder import read_run
    from leakscope.cli.output import console
    from leakscope.report.page import PAGE

    read_run(run)  # raises where this is no run folder
    page = run / PAGE
    if not page.exists():
        raise InputError(f"{page} is missing; write it with: leakscope report {run}")
    console().print(str(page.resolve()), soft_wrap=True)
    if not print_only:
        webbrowser.open(page.resolve().as_uri())
