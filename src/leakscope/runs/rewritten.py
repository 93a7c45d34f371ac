"""The tables and pages of a run, written again in a temporary folder and compared with those it has.

Checksums lie in the folder that they describe, so whoever forges a file can forge its checksum. What follows
from the signals is therefore computed again: the values of tables, and what pages and report.md say. The same
installation writes pages byte for byte the same. Another plotly, matplotlib or processor may draw other
pictures, so bytes that differ where no text does are no problem, and are only named.
"""

from __future__ import annotations

import re
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from leakscope.disclosure import Disclosure
from leakscope.disk.parquet import read_stored_block, stored_columns, stored_height
from leakscope.disk.scratch import blocks
from leakscope.disk.storage import temporary_folder
from leakscope.evaluate.judge import RECORDS, ROWS
from leakscope.report.page import MARKDOWN, PAGE, REDACTED_PAGE, pages_to_write

if TYPE_CHECKING:
    import polars as pl

TOLERANCE = 1e-9
"""Relative and absolute; another BLAS may differ in the last bits."""
_OF_SINGLE_PRECISION = 1e-6
_TABLES, _PAGES, _FIGURES = (RECORDS, ROWS), (PAGE, MARKDOWN, REDACTED_PAGE), "figures"
_ROWS_AT_ONCE = 1 << 19
_MOST_PROBLEMS = 10
_SHOWN = 60
_RUN_NAME = re.compile(r"run folder <code>([\w.+@=-]{1,100})</code>")
_SCRIPT = re.compile(r"<script(?=[\s/>]).*?</script(?=[\s/>])[^>]*>", re.DOTALL | re.IGNORECASE)
"""It begins and ends where a browser begins and ends it, or what is beside it would go unseen."""


class Rewritten(NamedTuple):
    """What writing the files of a run again has shown.

    Attributes:
        files: files that were written again and say the same.
        same: the same in words, with the number of rows.
        problems: where a file says something else than what follows from the signals.
        unlike: what differs in files that say the same, in words.
    """

    files: list[str]
    same: list[str]
    problems: list[str]
    unlike: list[str]


NOTHING = Rewritten([], [], [], [])


def compare_rewritten(folder: Path, again: Any, is_same_version: bool) -> Rewritten:
    """Writes tables and pages again and compares them.

    Args:
        folder: the run folder.
        again: what the kind's `recompute_all` returned.
        is_same_version: whether this version of leakscope wrote the run; another words pages differently.
    """
    with temporary_folder("leakscope-verify-") as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numbers that nobody measured may overflow an axis
        tables = place / "tables"
        tables.mkdir()
        again.write_tables(tables)
        problems = [problem for table in _TABLES for problem in _table_problems(folder, tables, table)]
        if problems:  # the page draws the tables
            return NOTHING._replace(problems=problems)
        written = [table for table in _TABLES if (tables / table).exists()]
        rows = [f"{stored_height(tables / table):,} rows of {table}" for table in written]
        pages = [_compare_page(folder, again, tables, page) for page in pages_to_write(folder)]
    files = [file for page in pages for file in page.same]
    said = [*rows, *([f"{', '.join(files)} compared with a new copy"] if files else [])]
    differing = [f"the text of {file}" for page in pages for file in page.differing]
    unlike = [*(what for page in pages for what in page.unlike), *([] if is_same_version else differing)]
    problems = [problem for page in pages for problem in page.differing.values()] if is_same_version else []
    return Rewritten([*written, *files], said, problems, unlike)


class _Page(NamedTuple):
    """A page and what belongs to it, compared with what is written again.

    Attributes:
        same: files that say the same.
        differing: name of each file that does not -> how it differs.
        unlike: what differs in files that say the same, in words.
    """

    same: list[str]
    differing: dict[str, str]
    unlike: list[str]


def _table_problems(folder: Path, fresh: Path, name: str) -> list[str]:
    """Where a table differs from the one that was written again; one problem for each column."""
    path = folder / name
    if not (fresh / name).exists():
        return [f"{path}: no run like this one has such a table"] if path.exists() else []
    if not path.exists():
        return [f"{path}: is missing"]
    columns, expected = stored_columns(path), stored_columns(fresh / name)
    if columns != expected:
        return [f"{path}: has the columns {', '.join(columns)}, but {', '.join(expected)} from the signals"]
    height, wanted = stored_height(path), stored_height(fresh / name)
    if height != wanted:
        return [f"{path}: has {height:,} rows, but {wanted:,} from the signals"]
    found: dict[str, str] = {}
    for rows in blocks(height, _ROWS_AT_ONCE):
        of_run, of_signals = read_stored_block(path, rows), read_stored_block(fresh / name, rows)
        for column in (column for column in columns if column not in found):
            problem = _column_problem(of_run[column], of_signals[column], rows.start)
            if problem is not None:
                found[column] = f"{path}: {problem}"
    return list(found.values())[:_MOST_PROBLEMS]


def _column_problem(of_run: pl.Series, of_signals: pl.Series, start: int) -> str | None:
    """The first value of a column that differs; None where none does."""
    name = of_run.name
    if of_run.dtype != of_signals.dtype:
        return f"{name} is {of_run.dtype}, but {of_signals.dtype} from the signals"
    is_same = of_run.eq_missing(of_signals).to_numpy()
    if of_run.dtype.is_float():
        tolerance = _OF_SINGLE_PRECISION if str(of_run.dtype) == "Float32" else TOLERANCE
        stored, fresh = (values.to_numpy().astype(np.float64) for values in (of_run, of_signals))
        is_known = (of_run.is_null() == of_signals.is_null()).to_numpy()
        is_same = is_known & np.isclose(stored, fresh, rtol=tolerance, atol=tolerance, equal_nan=True)
    if is_same.all():
        return None
    row = int(np.argmin(is_same))
    return f"{name} of row {start + row:,} is {of_run[row]!r}, but {of_signals[row]!r} from the signals"


def _compare_page(folder: Path, again: Any, tables: Path, page: Disclosure) -> _Page:
    """One page, with report.md and figures where they belong to it, against what is written again.

    Of one model, a page with membership is as good as one without: the folder does not say which was wanted.
    """
    is_of_one_model = getattr(again.results, "is_of_one_model", False) and not page.redacted
    wanted = [page, *([replace(page, with_membership=True)] if is_of_one_model else [])]
    found = []
    for disclosure in wanted:
        fresh = Path(mkdtemp(dir=tables.parent)) / _name_on_page(folder, disclosure)
        _lend(folder, tables, fresh)
        again.write_page(fresh, disclosure)
        found.append(_compare_written(folder, fresh))
        if not found[-1].differing:
            break
    return min(found, key=lambda one: len(one.differing))


def _name_on_page(folder: Path, page: Disclosure) -> str:
    """The name that the run folder had when the page was written: its commands name it."""
    path = folder / (REDACTED_PAGE if page.redacted else PAGE)
    found = _RUN_NAME.search(path.read_text(encoding="utf-8", errors="replace")) if path.is_file() else None
    name = found[1] if found else folder.resolve().name
    return "run" if name in ("", ".", "..") else name


def _lend(folder: Path, tables: Path, fresh: Path) -> None:
    """Fills a folder with what pages are written from: links to the inputs and to the new tables."""
    fresh.mkdir()
    left_out = {*_PAGES, *_TABLES, _FIGURES}
    inputs = [
        path for path in folder.iterdir() if path.name not in left_out and not path.name.startswith(".")
    ]
    for path in [*inputs, *tables.iterdir()]:
        link = fresh / path.name
        try:
            link.symlink_to(path.resolve())
        except OSError:  # a file system without links
            (shutil.copytree if path.is_dir() else shutil.copyfile)(path, link)


def _compare_written(folder: Path, fresh: Path) -> _Page:
    """Every file that was written again, where the run has it."""
    found = _Page([], {}, [])
    for name in (name for name in _PAGES if (fresh / name).is_file()):
        if not (folder / name).is_file():
            found.differing[name] = f"{folder / name}: is missing; `leakscope report` writes it"
            continue
        stored, again = (
            path.read_text(encoding="utf-8", errors="replace") for path in (folder / name, fresh / name)
        )
        said = _lines if name == MARKDOWN else _said
        problem = None if stored == again else _first_difference(said(stored), said(again))
        if problem is not None:
            found.differing[name] = f"{folder / name}: {problem}"
            continue
        found.same.append(name)
        if stored != again:
            found.unlike.append(f"the charts and scripts of {name}")
    for path in sorted((fresh / _FIGURES).glob("*")):
        name = f"{_FIGURES}/{path.name}"
        if (folder / name).is_file() and (folder / name).read_bytes() == path.read_bytes():
            found.same.append(name)
    return found


def _first_difference(stored: Iterator[str], again: Iterator[str]) -> str | None:
    """Where the lines of two pages differ; None where they are the same."""
    for line, wanted in zip_longest(stored, again, fillvalue=""):
        if line != wanted:
            pairs = enumerate(zip_longest(line, wanted))
            start = max(0, next(at for at, (a, b) in pairs if a != b) - _SHOWN // 2)
            shown, expected = (text[start : start + _SHOWN] for text in (line, wanted))
            return (
                f"says {shown!r}, but {expected!r} follows from the signals; "
                "`leakscope report` writes the page anew"
            )
    return None


def _said(page: str) -> Iterator[str]:
    """The lines of a page with its tags and styles, which can hide words and show others; without scripts."""
    return _lines(_SCRIPT.sub(" ", page))


def _lines(text: str) -> Iterator[str]:
    lines = (line.strip() for line in text.splitlines())
    return (line for line in lines if line)
