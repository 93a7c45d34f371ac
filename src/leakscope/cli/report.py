"""`leakscope report RUN`: write report.html, report.md and figures again, from the run folder alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leakscope.cli.output import Quiet, Redact, WithMembership


def report(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    redact: Redact = False,
    with_membership: WithMembership = False,
    quiet: Quiet = False,
) -> None:
    """Write a run's report.html, report.md and figures again; nothing is trained."""
    from leakscope.cli.output import console
    from leakscope.disclosure import Disclosure
    from leakscope.runs.rebuild import rebuild_report

    page = rebuild_report(run, Disclosure(redact, with_membership))
    if not quiet:
        console().print(str(page), soft_wrap=True)
