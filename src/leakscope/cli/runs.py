"""Commands about run folders: `leakscope report`, `open`, `verify` and `schema`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from leakscope.cli.output import AsJson, Quiet, Redact, RunFolder, WithMembership, console, print_json
from leakscope.errors import CorruptBankError, InputError


def report(
    run: RunFolder, redact: Redact = False, with_membership: WithMembership = False, quiet: Quiet = False
) -> None:
    """Write a run's report.html, report.md and figures again; nothing is trained."""
    from leakscope.disclosure import Disclosure
    from leakscope.runs.kinds import rebuild_report

    page = rebuild_report(run, Disclosure(redact, with_membership))
    if not quiet:
        console().print(str(page), soft_wrap=True)


def open_(
    run: RunFolder,
    print_only: Annotated[bool, typer.Option("--print-only", help="Only print the path.")] = False,
) -> None:
    """Open a run's report.html in the browser, and print its path."""
    import webbrowser

    from leakscope.bank.run_folder import read_run
    from leakscope.report.page import PAGE

    read_run(run)  # raises where this is no run folder
    page = run / PAGE
    if not page.exists():
        raise InputError(f"{page} is missing; write it with: leakscope report {run}")
    console().print(str(page.resolve()), soft_wrap=True)
    if not print_only:
        webbrowser.open(page.resolve().as_uri())


def verify(run: RunFolder, quiet: Quiet = False, as_json: AsJson = False) -> None:
    """Check a run folder: files against their checksums, results.json against the signals."""
    from leakscope.runs.verification import verify_run

    checked, problems = verify_run(run)
    if as_json:
        print_json({"run": str(run), "checked": checked, "problems": problems})
    if problems:
        remedy = "run the same command again: it repairs damaged blocks and writes the results again"
        raise CorruptBankError(f"{run}: {'; '.join(problems)} ({remedy})")
    if not (quiet or as_json):
        console().print(f"{run}: all good ({', '.join(checked)})", soft_wrap=True)


def schema(
    kind: Annotated[
        list[str] | None, typer.Argument(help="audit, attack, compare, or study and its name.")
    ] = None,
) -> None:
    """Print the JSON schema of a kind of run's results.json; without a kind, list them."""
    from leakscope.runs.kinds import KINDS
    from leakscope.runs.kinds import schema as schema_of

    if kind:
        print(json.dumps(schema_of(" ".join(kind)), indent=2, ensure_ascii=False))
    else:
        print("\n".join(KINDS))
