"""`leakscope verify RUN`: recompute every checksum and every number of a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leakscope.cli.output import AsJson, Quiet


def verify(
    run: Annotated[Path, typer.Argument(help="A run folder.")], quiet: Quiet = False, as_json: AsJson = False
) -> None:
    """Check a run folder: files against their checksums, results.json against the signals."""
    from leakscope.cli.output import console, print_json
    from leakscope.errors import CorruptBankError
    from leakscope.runs.verification import verify_run

    found = verify_run(run)
    if as_json:
        print_json({"run": str(run), "checked": found.checked, "problems": found.problems})
    if found.problems:
        remedy = "run the same command again: it repairs damaged blocks and writes the results again"
        raise CorruptBankError(f"{run}: {'; '.join(found.problems)} ({remedy})")
    if not (quiet or as_json):
        console().print(f"{run}: all good ({', '.join(found.checked)})", soft_wrap=True)
