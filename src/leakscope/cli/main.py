"""`leakscope`: registers the commands, and turns errors into one line and an exit code."""

from __future__ import annotations

import sys
import traceback
from typing import Annotated

import typer

from leakscope import __version__
from leakscope.cli import attack, audit, bank, data, plan, runs, study
from leakscope.errors import LeakscopeError

_INTERRUPTED = 130

app = typer.Typer(
    help="Measure what a trained model reveals about who was in its training set.",
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
    """Entry point: 0 fine, 1 the gate failed, 2 the input is wrong, 3 the run failed."""
    try:
        app()
    except LeakscopeError as error:
        print(f"leakscope: {' '.join(str(error).splitlines())}", file=sys.stderr)
        sys.exit(error.exit_code)
    except Exception:  # a bug: Python's own exit code would be 1, which says that the gate failed
        traceback.print_exc()
        sys.exit(3)
    except SystemExit as end:
        if end.code == _INTERRUPTED:  # how typer ends after Ctrl-C
            print("leakscope: interrupted; run the same command again to resume", file=sys.stderr)
        raise
