"""What commands share: where text goes, progress, common options."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from leakscope.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

N = TypeVar("N", int, float)

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON, and nothing else.")]
Redact = Annotated[
    bool,
    typer.Option(
        "--redact", help="Leave features, labels and images of records out of report.html; hash ids."
    ),
]
WithMembership = Annotated[
    bool,
    typer.Option("--with-membership", help="Show in report.html which records a given model was trained on."),
]
Out = Annotated[Path, typer.Option(help="Run folder; an interrupted run in it resumes.")]
Attacks = Annotated[
    str | None,
    typer.Option(help="Attacks, separated by commas: eb_lira,rmia,lira(online=false),my_module:MyAttack."),
]
FprBudgets = Annotated[
    str | None, typer.Option("--fpr", help="False positive rates to report at, separated by commas.")
]
DataDir = Annotated[
    Path | None, typer.Option(help="Data folder (default: $LEAKSCOPE_DATA, else ~/.local/share/leakscope).")
]

_SECONDS_BETWEEN_LINES = 5.0


def given_options(context: typer.Context, config: type[Any]) -> dict[str, Any]:
    """The options that the user gave, of those that are fields of the dataclass `config`."""
    return {
        name: value
        for name, value in context.params.items()
        if name in config.__dataclass_fields__ and _is_given(context, name)
    }


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def listed(text: str | None) -> tuple[str, ...] | None:
    """Names separated by commas; commas inside brackets separate options."""
    if text is None:
        return None
    names, depth = [""], 0
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            names.append("")
        else:
            names[-1] += letter
    return tuple(name.strip() for name in names if name.strip())


def rates(text: str | None) -> tuple[float, ...] | None:
    """False positive rates separated by commas."""
    return None if text is None else numbers(text, float, "fpr", "rates", "0.01,0.001")


def numbers(text: str, kind: type[N], option: str, what: str, example: str) -> tuple[N, ...]:
    """Numbers separated by commas; the last three arguments are for the message of an error."""
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(f"{option}={text!r}: give {what} separated by commas, like {example}") from error


def console() -> Console:
    """Where results go: standard output, unwrapped lines when it is not a terminal."""
    from rich.console import Console

    # No markup: a folder's name may hold square brackets.
    return Console(width=None if sys.stdout.isatty() else 120, highlight=False, markup=False, emoji=False)


def print_json(value: object) -> None:
    """JSON on standard output."""
    print(json.dumps(value, indent=2))


def show_results(results: object, show: Callable[[Console], None], quiet: bool, as_json: bool) -> None:
    """The results of a command as JSON, as `show` prints them, or not at all."""
    from leakscope.bank.results import results_json

    if as_json:
        print_json(results_json(results))
    elif not quiet:
        show(console())


def print_lines(screen: Console, lines: Iterable[str], style: str | None = None) -> None:
    """Lines that a terminal wraps and a file does not."""
    for line in lines:
        screen.print(line, style=style, soft_wrap=True)


def text_table(title: str, head: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    """A table for the terminal; the first column is left-aligned, the others are right-aligned."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for index, heading in enumerate(head):
        table.add_column(heading, justify="right" if index else "left")
    for row in rows:
        table.add_row(*row)
    return table


def print_list(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> None:
    """A table without lines on a terminal, else columns separated by tabs."""
    from rich.table import Table

    screen = console()
    if not screen.is_terminal:
        print("\n".join("\t".join(line) for line in (head, *rows)))
        return
    table = Table(box=None, caption=caption, caption_justify="left")
    for column in head:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    screen.print(table)


@contextmanager
def training_progress(n_models: int, shown: bool) -> Iterator[Callable[[float], None]]:
    """A callable to report models' worth of work to: a bar on a terminal, else a line now and then."""
    if not shown:
        yield lambda _: None
    elif sys.stderr.isatty():
        with _bar(n_models) as advance:
            yield advance
    else:
        yield _lines(n_models)


@contextmanager
def _bar(n_models: int) -> Iterator[Callable[[float], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("training"),
        BarColumn(),
        TextColumn("{task.fields[done]:,} of {task.total:,.0f} models"),
        TextColumn("{task.fields[rate]:,.0f} models/s"),
        TimeRemainingColumn(),
    )
    started, found_on_disk = time.perf_counter(), None
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("training", total=n_models, done=0, rate=0.0)

        def advance(models: float) -> None:
            nonlocal found_on_disk, started
            if found_on_disk is None:
                found_on_disk, started = models, time.perf_counter()
            completed = progress.tasks[task].completed + models
            rate = (completed - found_on_disk) / max(time.perf_counter() - started, 1e-3)
            progress.update(task, advance=models, done=round(completed), rate=rate)

        yield advance


def _lines(n_models: int) -> Callable[[float], None]:
    """Lines for logs: how far, how fast, how long still."""
    completed, found_on_disk, started = 0.0, None, time.perf_counter()
    last = started

    def advance(models: float) -> None:
        nonlocal completed, found_on_disk, last
        completed += models
        found_on_disk = models if found_on_disk is None else found_on_disk
        now = time.perf_counter()
        if now - last >= _SECONDS_BETWEEN_LINES:
            last = now
            trained = completed - found_on_disk
            speed = ""
            if trained > 0:
                rate = trained / (now - started)
                speed = f", {rate:,.1f} models/s, {(n_models - completed) / rate:,.0f} s left"
            print(f"training: {completed:,.0f} of {n_models:,} models{speed}", file=sys.stderr, flush=True)

    return advance
