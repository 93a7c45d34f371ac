"""`leakscope init`: from a file of records to a config file that runs."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from leakscope.cli.output import Quiet, console, print_lines

if TYPE_CHECKING:
    from leakscope.audits.initial.look import Look
    from leakscope.audits.initial.write import Answers

_MODELS = {
    "classification": ("mlp", "sklearn.ensemble:RandomForestClassifier"),
    "regression": ("mlp", "sklearn.ensemble:RandomForestRegressor"),
}


def init(
    file: Annotated[
        Path,
        typer.Argument(help="Your records: csv, parquet, npz or jsonl, or a folder of images or text files."),
    ],
    label: Annotated[str | None, typer.Option(help="Column of labels (default: guessed).")] = None,
    id_column: Annotated[str | None, typer.Option("--id", help="Column of ids (default: guessed).")] = None,
    unit: Annotated[
        str | None,
        typer.Option(help="Column that says whose record it is, such as patient (default: guessed)."),
    ] = None,
    net: Annotated[
        str | None, typer.Option(help="Network: mlp, cnn, ... or package.module:factory (default: mlp).")
    ] = None,
    estimator: Annotated[
        str | None, typer.Option(help="scikit-learn estimator instead: package.module:Class.")
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(help="For documents: the language model to fine-tune, a folder or a name on the hub."),
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="For documents in jsonl: the field that holds them (default: guessed).")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Config file to write (default: the name of the file, with .toml).")
    ] = None,
    schema: Annotated[
        bool,
        typer.Option(
            "--schema/--no-schema", help="Write the JSON schema for editors beside the config file."
        ),
    ] = True,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing: take every guess.")] = False,
    quiet: Quiet = False,
) -> None:
    """Write a config file for your records, with comments that explain each setting.

    On a terminal, it asks for what the options do not say. It never overwrites a file.
    """
    from leakscope.audits.initial.write import (
        Answers,
        default_out,
        look_at_table,
        refuse_existing,
        write_config,
    )

    out = out or default_out(file)
    refuse_existing(out)
    answers = Answers(label, id_column, net, estimator, schema, unit=unit, base=base, text=text)
    if not yes and not quiet and _may_ask():
        answers = _asked(look_at_table(file), answers)
    written = write_config(file, out, answers)
    if not quiet:
        next_steps = f"Wrote {written.path}. Run `leakscope audit {written.path}`"
        more = "`leakscope plan` with the same file estimates the time first."
        print_lines(console(), [*written.reasons, "", f"{next_steps}; {more}"])


def _may_ask() -> bool:
    """Whether somebody can answer: on a terminal, and not in a pipeline of CI."""
    return _is_terminal(sys.stdin) and _is_terminal(sys.stdout) and not os.environ.get("CI")


def _is_terminal(stream: TextIO) -> bool:
    return stream is not None and stream.isatty()


def _asked(look: Look | None, answers: Answers) -> Answers:
    """The answers, with what the user types in place of what is not given; Enter takes the guess."""
    from leakscope.audits.initial.guess import guess, guess_label, guess_unit
    from leakscope.errors import InputError

    if look is None:
        return answers
    if answers.label is None:
        try:
            likely = guess_label(look, answers.id)[0]
        except InputError:
            likely = look.names[-1]
        typer.echo(f"Columns: {', '.join(look.names)}")
        answers = replace(answers, label=typer.prompt("Which column is the label?", default=likely))
    found = guess(look, answers.label, answers.id)
    if answers.id is None:
        typed = typer.prompt("Which column is the id of a record?", default=found.id or "none")
        is_none = typed == "none" and "none" not in look.names
        answers = replace(answers, id=None if is_none else typed, is_numbered=is_none)
    likely_unit = guess_unit(look, answers.label, answers.id)
    if answers.unit is None and likely_unit is not None:
        typed = typer.prompt("Which column says whose record it is?", default=likely_unit)
        is_none = typed == "none" and "none" not in look.names
        answers = replace(answers, unit=None if is_none else typed, is_by_record=is_none)
    if answers.net is None and answers.estimator is None:
        choices = " or ".join(_MODELS[found.task])
        typed = typer.prompt(f"Which model ({choices}, or your own, package.module:name)?", default="mlp")
        is_estimator = "sklearn" in typed or typed.rpartition(":")[2].endswith(("Classifier", "Regressor"))
        answers = replace(answers, **{"estimator" if is_estimator else "net": typed})
    return answers
