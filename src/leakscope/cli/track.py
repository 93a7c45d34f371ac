"""`leakscope track` and `card`: a finished audit in a tracker, and in a model card."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from leakscope.cli.output import Quiet, RunFolder, console, split_names
from leakscope.errors import LeakscopeError

if TYPE_CHECKING:
    from leakscope.evaluate.verdict import Verdict

Track = Annotated[
    str | None,
    typer.Option(
        "--track",
        metavar="TRACKER",
        help="Log the verdict, figures and report to mlflow, wandb or tensorboard, or to several, separated "
        "by commas.",
    ),
]


def track(
    run: RunFolder,
    tracker: Annotated[str, typer.Argument(help="mlflow, wandb or tensorboard.")],
    into: Annotated[
        str | None,
        typer.Option(help="Experiment (MLflow), project (W&B) or log folder (TensorBoard) of the run."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Log a finished audit to a tracker: figures with intervals, settings, verdict, report.

    If the run is redacted, only the redacted page is sent.
    """
    from leakscope.integrations.tracking import log_run

    where = log_run(run, tracker, into)
    if not quiet:
        console().print(f"logged {run} to {tracker}: {where}", soft_wrap=True)


def card(
    run: RunFolder,
    name: Annotated[str | None, typer.Option(help="Name of the model (default: that of the run).")] = None,
) -> None:
    """Print a finished audit as `model-index` metadata for a model card (YAML)."""
    from leakscope.integrations.model_card import model_card
    from leakscope.runs.run import open_run

    print(model_card(open_run(run).verdict, name or run.resolve().name), end="")


def checked_trackers(text: str | None) -> tuple[str, ...]:
    """The trackers of `--track`; raises before anything is trained where one cannot be used."""
    from leakscope.integrations.tracking import check_tracker

    trackers = split_names(text) or ()
    for tracker in trackers:
        check_tracker(tracker)
    return trackers


def track_finished(verdict: Verdict, trackers: tuple[str, ...], quiet: bool) -> None:
    """Logs an audit that is complete; where a tracker fails, a warning says how to try again."""
    from leakscope.integrations.tracking import log_run

    for tracker in trackers:
        try:
            where = log_run(verdict, tracker)
        except LeakscopeError as error:
            again = f"the audit is complete; try again with: leakscope track {verdict.folder} {tracker}"
            print(f"leakscope: warning: {' '.join(str(error).split())}; {again}", file=sys.stderr)
        else:
            if not quiet:
                print(f"leakscope: logged to {tracker}: {where}", file=sys.stderr)
