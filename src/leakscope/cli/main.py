"""`leakscope`: registers the commands, and turns errors into one line and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Annotated, NoReturn

import typer

from leakscope import __version__
from leakscope.cli import attack, audit, bank, data, plan, runs, study
from leakscope.errors import ExitCode, LeakscopeError

_EXIT_CODES = "\n\n".join(["Exit codes:", *(f"{code.value:3}  {code.meaning}" for code in ExitCode)])

app = typer.Typer(
    help="Measure what a trained model reveals about who was in its training set.",
    epilog=_EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(audit.demo)
app.command("audit")(audit.audit)
app.command("plan")(plan.plan)
app.command("judge")(audit.judge)
app.command("attack")(attack.attack)
app.command("attacks")(attack.attacks)
app.add_typer(study.app, name="study")
app.command("report")(runs.report)
app.command("open")(runs.open_)
app.command("verify")(runs.verify)
app.command("compare")(runs.compare)
app.command("schema")(runs.schema)
app.add_typer(bank.app, name="bank")
app.add_typer(data.app, name="data")


def _show_version(value: bool) -> None:
    if value:
        print(f"leakscope {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Measure what a trained model reveals about who was in its training set."""


def main() -> None:
    """Entry point; ends with an `ExitCode`."""
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # here, where a closed pipe can still be handled
    except LeakscopeError as error:
        print(f"leakscope: {' '.join(str(error).splitlines())}", file=sys.stderr)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        _end_with_closed_output()
    except Exception:  # a bug: Python's own exit code would be 1, which says that the gate failed
        traceback.print_exc()
        sys.exit(ExitCode.RUN_FAILED)
    except SystemExit as end:
        if end.code == ExitCode.INTERRUPTED:  # how typer ends after Ctrl-C
            print("leakscope: interrupted; run the same command again to resume", file=sys.stderr)
        if end.code == ExitCode.GATE_FAILED and not isinstance(end.__context__, typer.Exit):
            _end_without_verdict(end)
        raise


def _end_without_verdict(end: SystemExit) -> None:
    """Ends a command that a closed pipe or a user's function ended with 1, the code of a broken gate."""
    if isinstance(end.__context__, BrokenPipeError):
        _end_with_closed_output()
    print("leakscope: the run was ended from within, by sys.exit or the end of an input", file=sys.stderr)
    sys.exit(ExitCode.RUN_FAILED)


def _end_with_closed_output() -> NoReturn:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is buffered must go somewhere
    sys.exit(ExitCode.OUTPUT_CLOSED)
