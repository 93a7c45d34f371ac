"""`leakscope attack`: one given model, public records of known membership, scores for private ones.

`leakscope attacks` lists the attacks of an audit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leakscope.cli import prediction_options as options
from leakscope.cli.output import (
    AsJson,
    Out,
    Quiet,
    Redact,
    Seed,
    numbers,
    print_json,
    print_lines,
    print_list,
    show_results,
    text_table,
    where_files_are,
)
from leakscope.disclosure import Disclosure
from leakscope.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from leakscope.data.prediction_roles import PredictionColumns
    from leakscope.data.predictions import Predictions
    from leakscope.recipe import Option
    from leakscope.single_model.results import AttackResults

    Floats = tuple[float, ...]

_File = Path | None
Entropy = Annotated[str, typer.Option(help="Second entropy feature: modified or adjusted.")]
Gradient = Annotated[str, typer.Option(help="Gradient feature: norm or true_logit.")]
Confidence = Annotated[str, typer.Option(help="Global likelihood ratio of: log_odds or probability.")]


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
        str | None,
        typer.Option(help="Network that the weights are for: mlp, cnn, ... or package.module:factory."),
    ] = None,
    net_options: Annotated[str, typer.Option(help="Options of the network, as JSON.")] = "{}",
    pixel_mean: Annotated[
        str | None,
        typer.Option(help="Mean of pixels / 255 per channel, for networks, such as 0.48,0.45,0.41."),
    ] = None,
    pixel_std: Annotated[str | None, typer.Option(help="Their standard deviation per channel.")] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Load an estimator even though loading its file may run code.")
    ] = False,
    device: Annotated[str, typer.Option(help="Where a network runs: auto, cpu or cuda.")] = "auto",
    public: Annotated[_File, typer.Option(help="Records with is_member: csv, parquet or npz.")] = None,
    private: Annotated[_File, typer.Option(help="Records to score: csv, parquet or npz.")] = None,
    label: Annotated[str | None, typer.Option(help="Column of labels (default: label).")] = None,
    id_column: Annotated[str | None, typer.Option("--id", help="Column of ids (default: id).")] = None,
    member: options.Member = None,
    prob: options.Prob = None,
    logit: options.Logit = None,
    classes: options.Classes = None,
    n_classes: Annotated[
        int | None, typer.Option(help="Number of outputs of the model (default: one per label).")
    ] = None,
    attacker: Annotated[str, typer.Option(help="best (of all three), forest, lightgbm or mlp.")] = "best",
    validation_share: Annotated[
        float, typer.Option(help="Share of the public records held out for validation.")
    ] = 0.25,
    entropy: Entropy = "modified",
    gradient: Gradient = "norm",
    confidence: Confidence = "log_odds",
    seed: Seed = 0,
    out: Out = Path("runs/attack"),
    redact: Redact = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Score which records were in a given model's training set, learning from records of known membership."""
    from leakscope.models.given import PredictFunction, model_from_file
    from leakscope.single_model.attack import attack as run_attack
    from leakscope.single_model.query import RecordFiles, query_model
    from leakscope.single_model.results import AttackSettings

    saved = {"--public-predictions": public_predictions, "--private-predictions": private_predictions}
    records = {"--public": public, "--private": private}
    _check_inputs(saved, {"--model": model, "--predict": predict}, records)
    of_outputs = {"member": member, "prob": prob, "logit": logit, "classes": classes}
    readings = {"entropy": entropy, "gradient": gradient, "confidence": confidence}
    settings = AttackSettings(attacker, validation_share, seed, **readings)  # type: ignore[arg-type]
    if public_predictions is not None and private_predictions is not None:
        columns = options.prediction_columns(label=label, id=id_column, **of_outputs)
        both = _read_both(public_predictions, private_predictions, columns)
        results = run_attack(*both, out, settings, disclosure=Disclosure(redact))
    else:
        assert public is not None and private is not None
        _refuse_columns_of_outputs(of_outputs)
        pixels = _pixel_scaling(pixel_mean, pixel_std)
        net_given = _json_options(net_options)
        given = (
            model_from_file(model, net, net_given, *pixels, trust=trust, device=device, to_trust="--trust")
            if model is not None
            else PredictFunction(str(predict))
        )
        files = RecordFiles(public, private, label, id_column, n_classes)
        answers = query_model(given, files)
        results = run_attack(*answers, out, settings, given.describe(), Disclosure(redact))
    show_results(results, partial(_show, results, out), quiet, as_json)


def attacks(
    as_json: AsJson = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the tables of attacks and signals as Markdown.")
    ] = False,
) -> None:
    """List every attack: options and their defaults, signals, reference models, source."""
    from leakscope.attacks.table import attack_cells, attack_rows, markdown

    if as_json:
        print_json([asdict(row) for row in attack_rows()])
    elif as_markdown:
        print(markdown(), end="")
    else:
        print_list(*attack_cells(), caption="attack(option=value, ...) sets options")


def _show(results: AttackResults, out: Path, screen: Console) -> None:
    from leakscope.single_model.report import DEFINITIONS, HEADINGS, notes, summary, validation_rows

    print_lines(screen, ["", *summary(results), ""])
    screen.print(text_table("Held-out public records", HEADINGS, validation_rows(results)))
    print_lines(screen, [*DEFINITIONS, *notes(results)], style="dim")
    print_lines(screen, [where_files_are(out, "submission_*.csv", "results.json")])


def _read_both(public: Path, private: Path, columns: PredictionColumns) -> tuple[Predictions, Predictions]:
    """Public and private predictions; who is a member is not looked up in the private file."""
    from leakscope.data.predictions import read_predictions

    known = read_predictions(public, "required", columns)
    return known, read_predictions(private, columns=replace(columns, member=None))


def _refuse_columns_of_outputs(given: Mapping[str, str | None]) -> None:
    named = [f"--{name}" for name, value in given.items() if value is not None]
    if named:
        raise InputError(
            f"{', '.join(named)} would do nothing: they belong to --public-predictions; a model that is "
            "queried gives its own outputs"
        )


def _check_inputs(
    saved: Mapping[str, object], models: Mapping[str, object], records: Mapping[str, object]
) -> None:
    """Raises InputError unless there are saved predictions, or one model with records."""
    given_saved, given_models, given_records = (
        [name for name, value in inputs.items() if value is not None] for inputs in (saved, models, records)
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


def _json_options(text: str) -> dict[str, Option]:
    try:
        given = json.loads(text)
    except ValueError as error:
        raise InputError(f"--net-options {text!r} is not JSON ({error}); like '{{\"width\": 64}}'") from error
    if not isinstance(given, dict):
        raise InputError(f"--net-options {text!r} must be a JSON object; like '{{\"width\": 64}}'")
    return given


def _pixel_scaling(mean: str | None, std: str | None) -> tuple[Floats | None, Floats | None]:
    if mean is None and std is None:
        return None, None
    if mean is None or std is None:
        raise InputError("--pixel-mean and --pixel-std go together; give both or neither")
    pair = {"--pixel-mean": mean, "--pixel-std": std}
    first, second = (numbers(text, float, option, "numbers", "0.48,0.45") for option, text in pair.items())
    return first, second
