"""`leakscope advise CONFIG`: try the defences that apply, and say which to take."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leakscope.cli.output import (
    AsJson,
    DataDir,
    Quiet,
    Redact,
    console,
    print_lines,
    show_results,
    text_table,
    training_progress,
)

if TYPE_CHECKING:
    from rich.console import Console

    from leakscope.advice.advise import Advice
    from leakscope.advice.results import AdviceConfig


def advise(
    config: Annotated[Path, typer.Argument(help="Config file (TOML) of an audit, or the run folder of one.")],
    minutes: Annotated[float, typer.Option(help="Time that the whole command may take.")] = 10.0,
    accept_accuracy_loss: Annotated[
        float,
        typer.Option(
            help="Loss of accuracy that you accept: 0.02 is two points, or 0.02 of R² in a regression."
        ),
    ] = 0.02,
    out: Annotated[
        Path | None, typer.Option(help="Run folder (default: runs/NAME-advise, with the name of the file).")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of all randomness (default: from the config).")
    ] = None,
    data_dir: DataDir = None,
    redact: Redact = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Try the defences that apply to your model within the time you give, and recommend one.

    The run folder then holds recommended.toml: your config with the recommended defence.
    """
    from leakscope.advice.advise import AdviceOptions, advise
    from leakscope.disclosure import Disclosure

    out = out or Path("runs") / f"{config.stem}-advise"
    is_shown = not (quiet or as_json)
    given: dict[str, Any] = {} if seed is None else {"seed": seed}
    with ExitStack() as stack:
        bars: list[Callable[[float], None]] = []

        def announce(planned: AdviceConfig, seconds: float | None) -> None:
            from leakscope.advice.sentences import plan_sentences

            if is_shown:
                print_lines(console(), plan_sentences(planned, seconds))
            n_models = planned.models * (1 + len(planned.defences))
            bars.append(stack.enter_context(training_progress(n_models, out, shown=is_shown)))

        options = AdviceOptions(minutes, accept_accuracy_loss, data_dir, Disclosure(redact), announce)
        advice = advise(config, out=out, options=options, progress=lambda done: bars[0](done), **given)
    show_results(advice.results, lambda screen: _show(screen, advice), quiet, as_json)


def _show(screen: Console, advice: Advice) -> None:
    from leakscope.advice.advise import RECOMMENDED
    from leakscope.advice.config_file import ready_tables
    from leakscope.advice.tables import trade_table
    from leakscope.report.page import page_path

    results, table = advice.results, trade_table(advice.results)
    screen.print()
    for line in advice.summary():
        screen.print(line)
    screen.print()
    screen.print(text_table(table.caption, table.head, table.rows))
    best = results.best
    if best is not None:
        tables = ready_tables(results.config.toml, best.settings)
        print_lines(screen, ["", "In the config file, write:", "", tables, ""])
    if (advice.folder / RECOMMENDED).exists():
        print_lines(screen, [f"The whole config: leakscope audit {advice.folder / RECOMMENDED}"])
    print_lines(screen, [f"Open {page_path(advice.folder)} for the whole report"])
