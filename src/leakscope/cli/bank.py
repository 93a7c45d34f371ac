"""`leakscope bank`: commands for trained models on disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leakscope.cli.app import App
from leakscope.cli.audit import exit_by_outcome, show
from leakscope.cli.output import AsJson, Quiet, Redact, console, print_json

if TYPE_CHECKING:
    from leakscope.audits.merged import MergedRun

app = App(help="Merge banks of trained models.")


@app.callback()
def _root() -> None:
    """Merge banks of trained models."""


@app.command()
def merge(
    parts: Annotated[list[Path], typer.Argument(help="Run folders of audits, or folders of banks.")],
    out: Annotated[Path, typer.Option(help="Folder of the merged run; an interrupted merge in it resumes.")],
    redact: Redact = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Merge banks of different seeds, or copies of one bank with different blocks, into one bank.

    Audits with the same attacks and gate are then evaluated together, with all models.
    """
    from leakscope.audits.merged import merge_runs
    from leakscope.audits.settings import AuditSettings
    from leakscope.disclosure import Disclosure

    merged = merge_runs(parts, out, AuditSettings(disclosure=Disclosure(redacted=redact)))
    if as_json:
        print_json(_as_json(merged))
    elif not quiet:
        screen = console()
        screen.print(_summary(merged), soft_wrap=True)
        if merged.verdict is not None:
            show(merged.verdict, quiet=False, as_json=False)
        screen.print(_next_step(merged), soft_wrap=True)
    if merged.verdict is not None:
        exit_by_outcome(merged.verdict, printed=not (quiet or as_json))


def _summary(merged: MergedRun) -> str:
    n_parts, n_models = len(merged.merge.parts), merged.merge.design.n_models
    records = merged.merge.identity.records
    if not merged.merge.is_of_copies:
        sizes = ", ".join(f"{part.design.n_models} with {_seeds(part.bank.identity.seeds)}"
                          for part in merged.merge.parts)  # fmt: skip
        return (
            f"{n_parts} banks of {records.records:,} {records.name} records became one of {n_models} "
            f"models ({sizes}): {merged.bank.folder}"
        )
    there = n_models - _n_missing(merged)
    return (
        f"The {n_parts} parts are copies of one bank of {n_models} models "
        f"({_seeds(merged.merge.identity.seeds)}); together they hold {there} of them: {merged.bank.folder}"
    )


def _next_step(merged: MergedRun) -> str:
    folder = merged.bank.folder
    if merged.verdict is not None:
        return f"Next: leakscope verify {folder} checks every checksum and number. You can delete the parts."
    command = "the audit's own command" if merged.are_audits else "the command that trains it"
    if n_missing := _n_missing(merged):
        return f"Next: {command} with --out {folder} trains the {n_missing} missing models."
    if merged.are_audits:
        return f"Next: {command} with --out {folder} evaluates it; all models are there."
    return f"Next: open it with leakscope.bank.bank.Bank.open(Path({str(folder)!r})); all models are there."


def _as_json(merged: MergedRun) -> dict[str, Any]:
    from leakscope.bank.results import results_json

    return {
        "out": str(merged.bank.folder),
        "parts": [str(part.bank.folder) for part in merged.merge.parts],
        "copies_of_one_bank": merged.merge.is_of_copies,
        "models": merged.merge.design.n_models,
        "missing_models": _n_missing(merged),
        "results": None if merged.verdict is None else results_json(merged.verdict.results),
    }


def _n_missing(merged: MergedRun) -> int:
    bank = merged.bank
    return 0 if bank.is_complete else sum(len(bank.blocks[block]) for block in bank.pending())


def _seeds(seeds: tuple[int, ...]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
