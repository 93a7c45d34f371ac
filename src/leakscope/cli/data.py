"""`leakscope data`: list, check and fetch datasets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leakscope.cli.app import App
from leakscope.cli.output import AsJson, DataDir, Quiet, console, print_json, print_lines, print_list

if TYPE_CHECKING:
    from leakscope.data.catalogue import Dataset
    from leakscope.data.fetch import FileCheck

app = App(help="List, check and fetch published datasets.")

Advance = Callable[[str, int, int], None]  # what is being read, bytes so far, bytes in all
_COLOURS = {"ok": "green", "missing": "yellow", "differs": "red", "unpacked": "green", "partial": "red"}


@app.command("list")
def list_datasets(
    data_dir: DataDir = None,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the names only.")] = False,
) -> None:
    """List every dataset: records, features, classes, source, and whether its files are present."""
    from leakscope.data.catalogue import DATASETS
    from leakscope.data.published import data_root

    root = data_root(data_dir)
    if as_json:
        print_json([_described(entry, root) for entry in DATASETS])
    elif quiet:
        typer.echo("\n".join(entry.name for entry in DATASETS))
    else:
        head = ("name", "records", "features", "classes", "source", "present")
        print_list(head, [_row(entry, root) for entry in DATASETS], caption=f"data folder: {root}")


@app.command()
def check(
    names: Annotated[list[str] | None, typer.Argument(help="Datasets (default: those present).")] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compare files with the published checksums; exit code 2 if one differs or a named one is missing."""
    from leakscope.data.fetch import check_file
    from leakscope.data.published import data_root

    root = data_root(data_dir)
    entries, absent = _entries_to_check(names or [], root)
    checks = []
    with _progress_bar(shown=not (as_json or quiet)) as advance:
        for entry in entries:
            for file in entry.files:
                checks.append(check_file(entry, file, root, _counter(file.name, file.n_bytes, advance)))
    if as_json:
        print_json(_check_summary(root, checks, absent))
    elif not quiet:
        _print_checks(root, entries, checks, absent)
    _raise_faults(checks, required=bool(names))


@app.command()
def fetch(
    names: Annotated[list[str], typer.Argument(help="Datasets to download.", metavar="NAME...")],
    data_dir: DataDir = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Download datasets from where they are published; correct files are not downloaded again."""
    from leakscope.data.fetch import fetch as fetch_files
    from leakscope.data.published import data_root
    from leakscope.data.registry import dataset

    root = data_root(data_dir)
    fetched = []
    for entry in [dataset(name) for name in dict.fromkeys(names)]:
        with _progress_bar(shown=not (as_json or quiet)) as advance:
            files = fetch_files(entry, root, advance)
        fetched += [{"dataset": entry.name, "path": str(f.path), "downloaded": f.downloaded} for f in files]
        if not (as_json or quiet):
            for file in files:
                typer.echo(f"{'fetched ' if file.downloaded else 'present '} {file.path}")
            if not files:
                typer.echo(f"{entry.name} is built in; there is nothing to fetch")
    if as_json:
        print_json({"data_dir": str(root), "files": fetched})


def _described(entry: Dataset, root: Path) -> dict[str, object]:
    return {
        "name": entry.name,
        "summary": entry.summary,
        "records": entry.n_records,
        "shape": list(entry.shape),
        "classes": entry.n_classes,
        "source": entry.source,
        "licence": entry.licence,
        "folder": str(entry.folder_in(root)) if entry.files else None,
        "present": entry.is_present(root),
    }


def _presence(entry: Dataset, root: Path) -> str:
    if not entry.files:
        return "built in"
    if entry.is_present(root):
        return "yes"
    n_present = len(entry.present_files(root))
    return f"{n_present} of {len(entry.files)} files" if n_present else "no"


def _row(entry: Dataset, root: Path) -> tuple[str, ...]:
    shape = " x ".join(map(str, entry.shape))
    size = f"{entry.n_records:,}", shape, str(entry.n_classes)
    return entry.name, *size, entry.source, _presence(entry, root)


def _entries_to_check(names: Sequence[str], root: Path) -> tuple[list[Dataset], list[Dataset]]:
    """The datasets to check, and those skipped because none of their files is there."""
    from leakscope.data.catalogue import DATASETS
    from leakscope.data.registry import dataset

    if names:
        return [dataset(name) for name in dict.fromkeys(names)], []
    absent = [e for e in DATASETS if e.files and not (e.present_files(root) or e.is_unpacked(root))]
    return [entry for entry in DATASETS if entry.files and entry not in absent], absent


def _counter(name: str, n_bytes: int, advance: Advance) -> Callable[[int], None]:
    """Turns the sizes of chunks into bytes so far."""
    n_read = 0

    def count(n_chunk: int) -> None:
        nonlocal n_read
        n_read += n_chunk
        advance(name, n_read, n_bytes)

    return count


def _check_summary(root: Path, checks: Sequence[FileCheck], absent: Sequence[Dataset]) -> dict[str, object]:
    files = [
        {
            "dataset": check.dataset,
            "file": check.file.name,
            "path": str(check.path),
            "state": check.state,
            "required": check.file.required,
        }
        for check in checks
    ]
    return {"data_dir": str(root), "files": files, "absent": [entry.name for entry in absent]}


def _print_checks(
    root: Path, entries: Sequence[Dataset], checks: Sequence[FileCheck], absent: Sequence[Dataset]
) -> None:
    from rich.text import Text

    screen = console()
    print_lines(screen, (f"built in  {entry.name} needs no files" for entry in entries if not entry.files))
    for check in checks:
        line = Text(f"{check.state:8}  ", style=_COLOURS[check.state])
        optional = "" if check.file.required or check.state == "ok" else "  (optional)"
        line.append(f"{check.dataset}: {check.path.name}{optional}", style="default")
        screen.print(line, soft_wrap=True)
    if absent:
        print_lines(screen, [f"not in {root}: {', '.join(entry.name for entry in absent)}"])


def _raise_faults(checks: Sequence[FileCheck], required: bool) -> None:
    """One line on what differs, or, where the user named the datasets, is missing."""
    from leakscope.errors import DataMissingError, InputError

    differing = [check for check in checks if check.state == "differs"]
    if differing:
        datasets = " ".join(dict.fromkeys(check.dataset for check in differing))
        raise InputError(
            f"{', '.join(str(check.path) for check in differing)} not as published; delete "
            f"{'it' if len(differing) == 1 else 'them'} and run `leakscope data fetch {datasets}`"
        )
    partial = [check for check in checks if check.state == "partial"]
    if partial:
        folders = ", ".join(str(check.path.parent) for check in partial)
        raise InputError(
            f"{folders} does not have the published number of files per class; run `leakscope data fetch "
            f"{' '.join(check.dataset for check in partial)}`"
        )
    missing = [check for check in checks if check.is_fault] if required else []
    if missing:
        datasets = " ".join(dict.fromkeys(check.dataset for check in missing))
        files = ", ".join(f"{check.dataset}/{check.file.name}" for check in missing)
        raise DataMissingError(
            f"{files} missing from {missing[0].path.parent.parent}; run `leakscope data fetch {datasets}` "
            "or set --data-dir"
        )


@contextmanager
def _progress_bar(shown: bool) -> Iterator[Advance]:
    """A bar on stderr, one task at a time; silent where stderr is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not (shown and console.is_terminal):
        yield lambda name, n_read, n_bytes: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda name, n_read, n_bytes: bar.update(
            task, description=name, completed=n_read, total=n_bytes
        )
