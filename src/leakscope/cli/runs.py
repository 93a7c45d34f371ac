"""Commands about run folders: `leakscope report`, `open`, `verify`, `compare` and `schema`."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leakscope.cli.output import (
    AsJson,
    Quiet,
    Redact,
    RunFolder,
    WithMembership,
    console,
    print_json,
    print_lines,
    show_results,
    text_table,
)
from leakscope.cli.pipeline import Junit, Summary, check_files, write_verification
from leakscope.errors import CorruptBankError, InputError, OtherVersionError, printable

if TYPE_CHECKING:
    from rich.console import Console

    from leakscope.compare.compare import Comparison


def report(
    run: RunFolder, redact: Redact = None, with_membership: WithMembership = False, quiet: Quiet = False
) -> None:
    """Write the report of a run again, or its redacted page; nothing is trained."""
    from leakscope.disclosure import Disclosure
    from leakscope.runs.kinds import rebuild_report

    page = rebuild_report(run, Disclosure(redact, with_membership))
    if not quiet:
        console().print(str(page), soft_wrap=True)


def open_(
    run: RunFolder,
    print_only: Annotated[bool, typer.Option("--print-only", help="Only print the path.")] = False,
) -> None:
    """Open a run's report in the browser, and print its path."""
    import webbrowser

    from leakscope.bank.run_folder import read_run
    from leakscope.report.page import page_path

    read_run(run)  # raises where this is no run folder
    page = page_path(run)
    if not page.exists():
        raise InputError(f"{page} is missing; write it with: leakscope report {run}")
    console().print(str(page.resolve()), soft_wrap=True)
    if not print_only:
        webbrowser.open(page.resolve().as_uri())


def verify(
    run: RunFolder,
    junit: Junit = None,
    summary: Summary = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Check a run folder: compare its files with their checksums, and recompute what they say.

    Numbers are recomputed from the stored signals; tables and pages of audits are written again and compared.
    The output names the files that were only compared with their checksums.
    """
    from leakscope.runs.verification import verify_run

    check_files(junit, summary)
    checked, problems, undecided, notes = verification = verify_run(run)
    write_verification(run, verification, junit, summary)
    if as_json:
        found = {"problems": problems, "undecided": list(undecided), "notes": list(notes)}
        print_json({"run": str(run), "checked": checked, **found})
    if problems:
        remedy = "run the command that made it again, which repairs damaged blocks and writes the results"
        raise CorruptBankError(f"{run}: {'; '.join(problems)} ({remedy})")
    if undecided:
        why, *differing = undecided
        raise OtherVersionError(f"{run}: the files are undamaged, but {why}. {'; '.join(differing)}")
    if not (quiet or as_json):
        print_lines(console(), [f"{run}: all good ({', '.join(checked)})", *notes])


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run folders of audits, the baseline first.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder of the comparison (default: next to the baseline).")
    ] = None,
    redact: Redact = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Compare audits of the same records with the first one: what leaks less or more, and at what cost.

    The exit code is 1 when a run leaks significantly more than the baseline, 4 when a check failed.
    """
    from leakscope.compare.compare import compare as compare_runs
    from leakscope.compare.sentences import is_alarm
    from leakscope.disclosure import Disclosure

    comparison = compare_runs(runs, out or _default_folder(runs), Disclosure(redact))
    show_results(comparison.results, partial(_show_comparison, comparison), quiet, as_json)
    if comparison.exit_code:
        if quiet or as_json:
            for line in filter(is_alarm, dict.fromkeys(comparison.summary())):
                print(f"leakscope: {printable(line)}", file=sys.stderr)
        raise typer.Exit(comparison.exit_code)


def _default_folder(runs: list[Path]) -> Path:
    """Next to the baseline, named after all runs; at most 100 characters."""
    names = [run.resolve().name for run in runs]
    return runs[0].parent / f"compare-{'-'.join(names)}"[:100]


def _show_comparison(comparison: Comparison, screen: Console) -> None:
    """The comparison on the screen: sentences and one table per run, and where the rest is."""
    from leakscope.compare.sentences import is_alarm, run_summary
    from leakscope.compare.tables import leakage_table
    from leakscope.report.page import page_path

    results = comparison.results
    for run in results.comparisons:
        screen.print()
        for line in run_summary(results, run):
            screen.print(line, style="bold red" if is_alarm(line) else None)
        screen.print()
        figures = leakage_table(run)
        screen.print(text_table(f"{run.run} minus {results.baseline.name}", figures.head, figures.rows))
    where = f"\nEvery number and the figure are in {comparison.folder}"
    print_lines(screen, [where, f"Open {page_path(comparison.folder)} for the whole report"])


def schema(
    kind: Annotated[
        list[str] | None, typer.Argument(help="audit, advise, attack, compare, or study and its name.")
    ] = None,
) -> None:
    """Print the JSON schema of results.json for a kind of run; without a kind, list the kinds."""
    from leakscope.runs.kinds import KINDS
    from leakscope.runs.kinds import schema as schema_of

    if kind:
        print(json.dumps(schema_of(" ".join(kind)), indent=2, ensure_ascii=False))
    else:
        print("\n".join(KINDS))
