"""What commands share: where text goes, progress, common options."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from leakscope.cli.tables import FittedTable
from leakscope.errors import InputError, printable

if TYPE_CHECKING:
    from rich.console import Console

    from leakscope.privacy.claim import Claim

N = TypeVar("N", int, float)

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON, and nothing else.")]
Redact = Annotated[
    bool | None,
    typer.Option(
        "--redact/--no-redact",
        show_default=False,
        help="Write report-redacted.html, a page to share that says nothing about individual records, or the "
        "private report.html (default: whichever the run has).",
    ),
]
WithMembership = Annotated[
    bool,
    typer.Option("--with-membership", help="Show in report.html which records a given model was trained on."),
]
Out = Annotated[Path, typer.Option(help="Run folder; an interrupted run in it resumes.")]
RunFolder = Annotated[Path, typer.Argument(help="A run folder.")]
Seed = Annotated[int, typer.Option(help="Seed of all randomness.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Queries = Annotated[
    int | None,
    typer.Option(help="Queries per record, for attacks such as eb_lira(queries=all) (default: one)."),
]
Unit = Annotated[
    str | None,
    typer.Option(help="Column that says whose record it is, if people have several records (default: none)."),
]
Attacks = Annotated[
    str | None,
    typer.Option(help="Attacks, separated by commas: eb_lira, lira(online=false), my_module:MyAttack, ..."),
]
FprBudgets = Annotated[
    str | None, typer.Option("--fpr", help="False positive rates to report at, separated by commas.")
]
ClaimText = Annotated[
    str | None,
    typer.Option(
        "--claim",
        metavar="EPSILON[,DELTA]",
        help="A claim of differential privacy to put to the test, such as 8 (delta is 1e-5) or 8,1e-6.",
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(help="Data folder (default: $LEAKSCOPE_DATA, else leakscope in ~/.local/share)."),
]

_SECONDS_BETWEEN_LINES = 5.0
_SECONDS_BETWEEN_LOOKS = 1.0


def where_files_are(out: Path, *files: str) -> str:
    """The sentence that names a run's files: those given, and the pages that the folder has."""
    from leakscope.report.page import PAGE, REDACTED_PAGE
    from leakscope.report.phrases import enumeration

    private = [PAGE, "report.md", "figures"] if (out / PAGE).exists() else []
    names = [*files, *private, *([REDACTED_PAGE] if (out / REDACTED_PAGE).exists() else [])]
    return f"\n{enumeration(names)} are in {out}"


def given_options(context: typer.Context, config: type[Any]) -> dict[str, Any]:
    """The options that the user gave, of those that are fields of the dataclass `config`."""
    names = [name for name in context.params if name in config.__dataclass_fields__]
    sources = {name: context.get_parameter_source(name) for name in names}
    return {
        name: context.params[name] for name, source in sources.items() if source and source.name != "DEFAULT"
    }


def split_names(text: str | None) -> tuple[str, ...] | None:
    """Names separated by commas; commas inside brackets separate options."""
    if text is None:
        return None
    return tuple(name.strip() for name in re.split(r",(?![^(]*\))", text) if name.strip())


def rates(text: str | None) -> tuple[float, ...] | None:
    """False positive rates separated by commas."""
    return None if text is None else numbers(text, float, "fpr", "rates", "0.01,0.001")


def claimed(text: str | None) -> Claim | None:
    """A claim from epsilon, and delta behind a comma."""
    from leakscope.privacy.claim import Claim

    if text is None:
        return None
    given = numbers(text, float, "claim", "epsilon, or epsilon and delta", "8,1e-5")
    if len(given) > 2:
        raise InputError(f"claim={text!r}: give epsilon, or epsilon and delta, like 8,1e-5")
    return Claim(given[0]) if len(given) == 1 else Claim(given[0], given[1])


def numbers(text: str, kind: type[N], option: str, what: str, example: str) -> tuple[N, ...]:
    """Numbers separated by commas; the last three arguments are for the message of an error."""
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(f"{option}={text!r}: give {what} separated by commas, like {example}") from error


def console() -> Console:
    """Where results go: standard output, unwrapped lines when it is not a terminal."""
    from rich.console import Console

    class Screen(Console):
        """A console that no name of a file, record or group can send commands to."""

        def print(self, *objects: Any, **options: Any) -> None:
            super().print(*(printable(o) if isinstance(o, str) else o for o in objects), **options)

    # No markup: a folder's name may hold square brackets.
    return Screen(width=None if sys.stdout.isatty() else 120, highlight=False, markup=False, emoji=False)


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


def text_table(title: str, head: Iterable[str], rows: Iterable[Iterable[str]]) -> FittedTable:
    """A table for the terminal; the first column is left-aligned, the others are right-aligned."""
    return FittedTable(_printable(head), [_printable(row) for row in rows], title=printable(title))


def print_list(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> None:
    """A table without lines on a terminal, else columns separated by tabs."""
    screen, cells = console(), [_printable(row) for row in rows]
    if not screen.is_terminal:
        print("\n".join(map("\t".join, (head, *cells))))
        return
    screen.print(FittedTable(head, cells, caption=caption, justify="left", has_lines=False))


def _printable(cells: Iterable[str]) -> list[str]:
    return list(map(printable, cells))


@contextmanager
def training_progress(n_models: int, out: Path, shown: bool) -> Iterator[Callable[[float], None]]:
    """A callable to report models' worth of work to: a bar on a terminal, else a line now and then.

    Both say how much of the run in `out` is saved.
    """
    if not shown:
        yield lambda _: None
    elif sys.stderr.isatty():
        with _bar(n_models, out) as show:
            yield _summed(show)
    else:
        yield _summed(_lines(n_models, out))


def saved_text(out: Path) -> str:
    """What a kill would leave of the run in `out`: finished models, and the state of those in training."""
    from leakscope.bank.bank import n_models_saved
    from leakscope.disk.saved_training import last_saved
    from leakscope.report.phrases import counted

    if not out.is_dir():  # not written yet, or an address
        return ""
    n_saved, saved_at = n_models_saved(out), last_saved(out)
    text = f"; {counted(n_saved, 'model')} saved"
    if saved_at is None:
        return text
    return f"{text}, training state saved {max(time.time() - saved_at, 0):,.0f} s ago"


def _summed(show: Callable[[float, float], None]) -> Callable[[float], None]:
    """Calls `show` with the models completed and models per second; the first report is what was on disk."""
    completed, on_disk, started = 0.0, None, time.perf_counter()

    def advance(models: float) -> None:
        nonlocal completed, on_disk, started
        if on_disk is None:
            on_disk, started = models, time.perf_counter()
        completed += models
        show(completed, (completed - on_disk) / max(time.perf_counter() - started, 1e-3))

    return advance


@contextmanager
def _bar(n_models: int, out: Path) -> Iterator[Callable[[float, float], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("training"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} models"),
        TextColumn("{task.fields[rate]:,.0f} models/s"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[saved]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("training", total=n_models, rate=0.0, saved="")
        last = 0.0

        def show(completed: float, rate: float) -> None:
            nonlocal last
            progress.update(task, completed=completed, rate=rate)
            if time.perf_counter() - last >= _SECONDS_BETWEEN_LOOKS:
                last = time.perf_counter()
                progress.update(task, saved=saved_text(out).removeprefix("; "))

        yield show


def _lines(n_models: int, out: Path) -> Callable[[float, float], None]:
    """Lines for logs: how far, how fast, how long still, how much is saved."""
    last = time.perf_counter()

    def show(completed: float, rate: float) -> None:
        nonlocal last
        if time.perf_counter() - last >= _SECONDS_BETWEEN_LINES:
            last = time.perf_counter()
            speed = f", {rate:,.1f} models/s, {(n_models - completed) / rate:,.0f} s left" if rate else ""
            line = f"training: {completed:,.0f} of {n_models:,} models{speed}{saved_text(out)}"
            print(line, file=sys.stderr, flush=True)

    return show
