"""`leakscope attack`: one given model, public records of known membership, scores for private ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leakscope.cli.output import AsJson, Out, Quiet

if TYPE_CHECKING:
    from rich.table import Table

    from leakscope.models.weights import PixelScaling
    from leakscope.single_model.given_model import TwoPredictions

_File = Path | None


def attack(
    public_predictions: Annotated[
        _File, typer.Option(help="Saved answers about records of known membership: npz, csv, parquet.")
    ] = None,
    private_predictions: Annotated[_File, typer.Option(help="Saved answers about the others.")] = None,
    model: Annotated[_File, typer.Option(help="Instead: weights, safetensors or a torch state dict.")] = None,
    net: Annotated[str | None, typer.Option(help="mlp, cnn, ... or package.module:factory.")] = None,
    net_options: Annotated[str, typer.Option(help="The factory's options as JSON.")] = "{}",
    public: Annotated[_File, typer.Option(help="Records with is_member: csv, parquet, npz.")] = None,
    private: Annotated[_File, typer.Option(help="Records in question.")] = None,
    label: Annotated[str | None, typer.Option(help="Column of labels; by default label.")] = None,
    id_column: Annotated[str | None, typer.Option("--id", help="Column of ids; by default id.")] = None,
    n_classes: Annotated[int | None, typer.Option(help="Outputs of the net; by default one a label.")] = None,
    mean: Annotated[str | None, typer.Option(help="Of pixels over 255, by channel: 0.48,0.45,0.41")] = None,
    std: Annotated[str | None, typer.Option(help="The same for the standard deviation.")] = None,
    attacker: Annotated[str, typer.Option(help="best (of all three), forest, lightgbm or mlp.")] = "best",
    validation_share: Annotated[float, typer.Option(help="Share of public records to judge on.")] = 0.25,
    seed: Annotated[int, typer.Option(help="All randomness derives from it.")] = 0,
    out: Out = Path("runs/attack"),
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Score who was in one given model's training set, learning from records whose membership is known."""
    from leakscope.single_model.attack import attack as run_attack

    saved = {"--public-predictions": public_predictions, "--private-predictions": private_predictions}
    given = {"--model": model, "--net": net, "--public": public, "--private": private}
    _check_mode(saved, given)
    if public_predictions and private_predictions:
        predictions = _read_saved(public_predictions, private_predictions)
    else:
        assert model and net and public and private
        predictions = _ask(model, net, net_options, _scaling(mean, std), public, private,
                           (label, id_column, n_classes))  # fmt: skip
    results = run_attack(*predictions, out, attacker, validation_share, seed)
    show(results, out, quiet, as_json)


def show(results: dict[str, Any], out: Path, quiet: bool, as_json: bool) -> None:
    """The validation table, sentences and where the rest is."""
    from leakscope.cli.output import console, print_json
    from leakscope.single_model.report import HEADINGS, footnotes, validation_rows, words

    if as_json:
        print_json(results)
        return
    if quiet:
        return
    screen = console()
    screen.print()
    for line in words(results):
        screen.print(line, soft_wrap=True)
    screen.print()
    screen.print(text_table("Held-out public records", HEADINGS, validation_rows(results)))
    for line in footnotes(results):
        screen.print(line, style="dim", soft_wrap=True)
    screen.print(f"\nsubmission.csv, results.json, report.md and the figure are in {out}", soft_wrap=True)


def text_table(title: str, headings: Sequence[str], rows: list[list[str]]) -> Table:
    """A table of text, the first column left, the others right."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="right" if index else "left")
    for row in rows:
        table.add_row(*row)
    return table


def _check_mode(saved: dict[str, Any], given: dict[str, Any]) -> None:
    """Either saved predictions or a model with records, and all of it."""
    from leakscope.errors import InputError

    named = [[name for name, value in options.items() if value is not None] for options in (saved, given)]
    if all(named):
        raise InputError(f"{named[0][0]} and {named[1][0]} exclude each other: give predictions or a model")
    wanted = given if named[1] else saved
    missing = [name for name, value in wanted.items() if value is None]
    if missing and not any(named):
        raise InputError(f"give {' and '.join(saved)}, or {', '.join(given)}")
    if missing:
        raise InputError(f"{', '.join(missing)} missing: give {', '.join(wanted)} together")


def _read_saved(public: Path, private: Path) -> TwoPredictions:
    from leakscope.data.predictions import read_predictions
    from leakscope.single_model.given_model import TwoPredictions

    return TwoPredictions(read_predictions(public, "required"), read_predictions(private))


def _ask(
    model: Path,
    net: str,
    net_options: str,
    scaling: PixelScaling | None,
    public: Path,
    private: Path,
    columns: tuple[str | None, str | None, int | None],
) -> TwoPredictions:
    from leakscope.single_model.given_model import GivenModel, ask_given_model

    given = GivenModel(model, net, _json_options(net_options), scaling)
    return ask_given_model(given, public, private, *columns)


def _json_options(text: str) -> dict[str, Any]:
    from leakscope.errors import InputError

    try:
        options = json.loads(text)
    except ValueError as error:
        raise InputError(f"--net-options {text!r} is not JSON ({error}); like '{{\"width\": 64}}'") from error
    if not isinstance(options, dict):
        raise InputError(f"--net-options {text!r} must be a JSON object; like '{{\"width\": 64}}'")
    return options


def _scaling(mean: str | None, std: str | None) -> PixelScaling | None:
    from leakscope.errors import InputError

    if mean is None and std is None:
        return None
    if mean is None or std is None:
        raise InputError("--mean and --std belong together; give both or neither")
    from leakscope.models.weights import PixelScaling

    return PixelScaling(_numbers("--mean", mean), _numbers("--std", std))


def _numbers(option: str, text: str) -> tuple[float, ...]:
    from leakscope.errors import InputError

    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(f"{option} {text!r}: give numbers separated by commas, like 0.48,0.45") from error
