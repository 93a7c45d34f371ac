"""`leakscope attack`: one given model, public records of known membership, scores for private ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leakscope.cli.output import AsJson, Out, Quiet

if TYPE_CHECKING:
    from rich.table import Table

    from leakscope.models.given import GivenModel
    from leakscope.recipe import Option
    from leakscope.single_model.results import AttackResults

    Floats = tuple[float, ...]

_File = Path | None


def attack(
    public_predictions: Annotated[
        _File, typer.Option(help="Saved outputs on records of known membership: npz, csv or parquet.")
    ] = None,
    private_predictions: Annotated[_File, typer.Option(help="Saved outputs on the records to score.")] = None,
    model: Annotated[
        _File,
        typer.Option(help="Weights (.safetensors, .pt, ...) or an estimator (.skops, .joblib, .pkl)."),
    ] = None,
    predict: Annotated[
        str | None, typer.Option(help="Function that returns a model's outputs: package.module:function.")
    ] = None,
    net: Annotated[
        str | None, typer.Option(help="Network the weights fit: mlp, cnn, ... or package.module:factory.")
    ] = None,
    net_options: Annotated[str, typer.Option(help="Options of the network, as JSON.")] = "{}",
    pixel_mean: Annotated[
        str | None, typer.Option(help="Mean of pixels / 255 per channel, for networks: 0.48,0.45,0.41.")
    ] = None,
    pixel_std: Annotated[str | None, typer.Option(help="Their standard deviation per channel.")] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Load an estimator even if its file may run code.")
    ] = False,
    device: Annotated[str, typer.Option(help="Where a network runs: auto, cpu or cuda.")] = "auto",
    public: Annotated[_File, typer.Option(help="Records with is_member: csv, parquet or npz.")] = None,
    private: Annotated[_File, typer.Option(help="Records to score: csv, parquet or npz.")] = None,
    label: Annotated[str | None, typer.Option(help="Column of labels (default: label).")] = None,
    id_column: Annotated[str | None, typer.Option("--id", help="Column of ids (default: id).")] = None,
    n_classes: Annotated[
        int | None, typer.Option(help="Number of outputs of the model (default: one per label).")
    ] = None,
    attacker: Annotated[str, typer.Option(help="best (of all three), forest, lightgbm or mlp.")] = "best",
    validation_share: Annotated[
        float, typer.Option(help="Share of the public records held out for validation.")
    ] = 0.25,
    seed: Annotated[int, typer.Option(help="Seed of all randomness.")] = 0,
    out: Out = Path("runs/attack"),
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Score who was in a given model's training set, by learning from records of known membership."""
    from leakscope.data.predictions import read_predictions
    from leakscope.single_model.attack import attack as run_attack
    from leakscope.single_model.query import RecordFiles, TwoPredictions, query_model
    from leakscope.single_model.results import AttackSettings

    saved = {"--public-predictions": public_predictions, "--private-predictions": private_predictions}
    records = {"--public": public, "--private": private}
    _check_inputs(saved, {"--model": model, "--predict": predict}, records)
    settings = AttackSettings(attacker, validation_share, seed)
    if public_predictions is not None and private_predictions is not None:
        predictions = TwoPredictions(
            read_predictions(public_predictions, "required"), read_predictions(private_predictions)
        )
        results = run_attack(*predictions, out, settings)
    else:
        assert public is not None and private is not None
        pixels = _pixel_scaling(pixel_mean, pixel_std)
        given = _given_model(model, predict, net, _json_options(net_options), pixels, trust, device)
        files = RecordFiles(public, private, label, id_column, n_classes)
        results = run_attack(*query_model(given, files), out, settings, given.describe())
    if not quiet:
        _print(results, out, as_json)


def _print(results: AttackResults, out: Path, as_json: bool) -> None:
    from leakscope.bank.results import results_json
    from leakscope.cli.output import console, print_json
    from leakscope.single_model.report import DEFINITIONS, HEADINGS, notes, summary, validation_rows

    if as_json:
        print_json(results_json(results))
        return
    screen = console()
    screen.print()
    for line in summary(results):
        screen.print(line, soft_wrap=True)
    screen.print()
    screen.print(text_table("Held-out public records", HEADINGS, validation_rows(results)))
    for line in (*DEFINITIONS, *notes(results)):
        screen.print(line, style="dim", soft_wrap=True)
    screen.print(f"\nsubmission.csv, results.json and report.html are in {out}", soft_wrap=True)


def text_table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table for the terminal; the first column is left-aligned, the others are right-aligned."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="right" if index else "left")
    for row in rows:
        table.add_row(*row)
    return table


def _check_inputs(
    saved: Mapping[str, object], models: Mapping[str, object], records: Mapping[str, object]
) -> None:
    """Raises InputError unless there are saved predictions, or one model with records."""
    from leakscope.errors import InputError

    given_saved, given_models, given_records = (
        [name for name, value in options.items() if value is not None] for options in (saved, models, records)
    )
    queried = [*given_models, *given_records]
    if given_saved and queried:
        raise InputError(f"{given_saved[0]} and {queried[0]} exclude each other: give predictions or a model")
    if len(given_models) > 1:
        raise InputError(f"{' and '.join(given_models)} exclude each other: give one model")
    if not given_saved and not queried:
        raise InputError(f"give {' and '.join(saved)}, or {' or '.join(models)} with {' and '.join(records)}")
    needed = saved if given_saved else {" or ".join(models): given_models or None, **records}
    missing = [name for name, value in needed.items() if value is None]
    if missing:
        raise InputError(f"{', '.join(missing)} missing: give {', '.join(needed)} together")


def _given_model(
    model: Path | None,
    predict: str | None,
    net: str | None,
    net_options: Mapping[str, Option],
    pixels: tuple[Floats | None, Floats | None],
    trust: bool,
    device: str,
) -> GivenModel:
    from leakscope.models.given import PredictFunction, model_from_file

    if predict is not None:
        return PredictFunction(predict)
    assert model is not None
    return model_from_file(model, net, net_options, *pixels, trust=trust, device=device)


def _json_options(text: str) -> dict[str, Option]:
    from leakscope.errors import InputError

    try:
        options = json.loads(text)
    except ValueError as error:
        raise InputError(f"--net-options {text!r} is not JSON ({error}); like '{{\"width\": 64}}'") from error
    if not isinstance(options, dict):
        raise InputError(f"--net-options {text!r} must be a JSON object; like '{{\"width\": 64}}'")
    return options


def _pixel_scaling(mean: str | None, std: str | None) -> tuple[Floats | None, Floats | None]:
    from leakscope.errors import InputError

    if mean is None and std is None:
        return None, None
    if mean is None or std is None:
        raise InputError("--pixel-mean and --pixel-std belong together; give both or neither")
    return _numbers("--pixel-mean", mean), _numbers("--pixel-std", std)


def _numbers(option: str, text: str) -> tuple[float, ...]:
    from leakscope.errors import InputError

    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(f"{option} {text!r}: give numbers separated by commas, like 0.48,0.45") from error
