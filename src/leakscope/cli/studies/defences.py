"""`leakscope study defences`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leakscope.cli.output import (
    AsJson,
    DataDir,
    Device,
    Out,
    Quiet,
    Redact,
    Seed,
    print_lines,
    show_results,
    text_table,
    training_progress,
    where_files_are,
)
from leakscope.disclosure import Disclosure

if TYPE_CHECKING:
    from rich.console import Console

    from leakscope.data.canaries import Canaries
    from leakscope.studies.defences.results import DefencesResults
    from leakscope.studies.defences.study import Comparison


def defences(
    preset: Annotated[
        str, typer.Option(help="quick (digits, a few minutes), adult, or cifar10 (needs a GPU).")
    ] = "quick",
    config_file: Annotated[
        Path | None,
        typer.Option(
            "--config",
            help="Compare defences of your own model: the config file (TOML) of an audit, with its sections "
            "data, model and training.",
        ),
    ] = None,
    defence: Annotated[
        list[str] | None,
        typer.Option(
            help="A defence at all its strengths (dp_sgd) or at one (dp_sgd(epsilon=4)); give the option "
            "several times. By default all that apply: see leakscope defences."
        ),
    ] = None,
    models: Annotated[int | None, typer.Option(help="Models per setting (default: the preset's).")] = None,
    canaries: Annotated[
        str,
        typer.Option(help="mislabelled, duplicated, out_of_distribution, or none."),
    ] = "mislabelled",
    canary_share: Annotated[float, typer.Option(help="Share of the records that become canaries.")] = 0.05,
    fpr: Annotated[float, typer.Option(help="False positive rate at which the TPR is reported.")] = 0.01,
    seed: Seed = 0,
    device: Device = "auto",
    data_dir: DataDir = None,
    out: Out = Path("runs/defences"),
    redact: Redact = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Compare defences: accuracy against leakage on all records, canaries and the most exposed records.

    In a regression, R² takes the place of accuracy.
    """
    from leakscope.studies.defences.study import run

    planted = _canaries(canaries, canary_share)
    settings = {"canaries": planted, "fpr": fpr, "seed": seed, "device": device}
    comparison = _comparison(preset, config_file, defence or [], models, data_dir, **settings)
    with training_progress(comparison.config.n_models, out, shown=not (quiet or as_json)) as progress:
        results = run(comparison, out, progress, Disclosure(redact))
    show_results(results, partial(_show, results, out), quiet, as_json)


def _canaries(kind: str, share: float) -> Canaries | None:
    from leakscope.data.canaries import Canaries

    return None if kind == "none" else Canaries(kind, share)  # type: ignore[arg-type]  # checked there


def _comparison(
    preset: str,
    config_file: Path | None,
    defences: list[str],
    models: int | None,
    data_dir: Path | None,
    **settings: Any,
) -> Comparison:
    """The preset, or the user's own model, with every option the user gave on top."""
    from leakscope.studies.defences.config import preset_named, subject_of
    from leakscope.studies.defences.study import comparison_of, subject_of_file

    if config_file is not None:
        subject = subject_of_file(config_file, data_dir)
        settings |= {"config_file": config_file.name, **({"models": models} if models else {})}
        return comparison_of(subject, defences, **settings)
    chosen = preset_named(preset)
    settings |= {"models": models or chosen.models, "preset": preset}
    return comparison_of(subject_of(chosen, data_dir), defences or chosen.defences, **settings)


def _show(results: DefencesResults, out: Path, screen: Console) -> None:
    from leakscope.evaluate.utility import capitalized
    from leakscope.studies.defences.sentences import headline, short_table

    table = short_table(results)
    screen.print()
    title = f"{capitalized(results.config.utility)} against leakage"
    screen.print(text_table(title, table.head, table.rows))
    screen.print()
    print_lines(screen, headline(results))
    if results.left_out:
        print_lines(
            screen, [f"Not compared: {one.label} ({one.reason})." for one in results.left_out], style="dim"
        )
    print_lines(screen, [where_files_are(out, "results.json")])
