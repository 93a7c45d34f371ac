"""Hostile results and tables in reports and comparisons: each of these once ended in a traceback."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from leakscope.compare.compare import compare
from leakscope.compare.records import changed_records
from leakscope.disk.storage import confined_to, write_bytes
from leakscope.errors import CorruptBankError, InputError, StorageError
from leakscope.runs.kinds import rebuild_report
from leakscope.studies.scaling import study as scaling_study
from tests.fuzz.runs import template, template_of

pytestmark = pytest.mark.slow


@pytest.fixture
def copied(tmp_path: Path) -> Callable[[str], Path]:
    """A run of a kind, to spoil, with all that it refers to."""

    def copy(kind: str) -> Path:
        return Path(shutil.copytree(template_of(kind), tmp_path / kind)) / "run"

    return copy


def rewrite(run: Path, spoil: Callable[[Any], None]) -> None:
    results = json.loads((run / "results.json").read_text())
    spoil(results)
    (run / "results.json").write_text(json.dumps(results))


@pytest.mark.slow
def test_no_figure_is_drawn_outside(copied: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A report may take the name of a folder of figures from results.json."""
    run = copied("scaling")
    for name in ("x/../../../evil", str(run.parent / "evil"), ".."):

        def draw(folder: Path, results: Any, disclosure: Any, name: str = name) -> None:
            write_bytes(folder / "figures" / name / "x.png", b"")

        monkeypatch.setattr(scaling_study, "write_reports", draw)
        if name == "..":
            rebuild_report(run)
            assert (run / "x.png").exists(), "where the name leads nowhere else"
            continue
        with pytest.raises(StorageError, match="would be written outside"):
            rebuild_report(run)
    assert sorted(path.name for path in run.parent.iterdir()) == ["run"]


@pytest.mark.slow
def test_nothing_is_written_through_a_link(copied: Callable[[str], Path], tmp_path: Path) -> None:
    run = copied("leakage")
    shutil.rmtree(run / "figures", ignore_errors=True)
    (tmp_path / "elsewhere").mkdir()
    (run / "figures").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="is a link"):
        rebuild_report(run)
    with pytest.raises(StorageError, match="would be written outside"), confined_to(run):
        write_bytes(run / "figures" / "x.png", b"")
    assert not list((tmp_path / "elsewhere").iterdir())
    write_bytes(run / "figures" / "x.png", b"")  # nobody's confines
    assert list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize(
    ("kind", "spoil"),
    [
        ("scaling", lambda results: results.clear()),
        ("leakage", lambda results: results["figures"].update({"2": []})),
        pytest.param(
            "compare", lambda results: results["comparisons"][0].update(leakage=[]), marks=pytest.mark.slow
        ),  # ended in StopIteration
        ("attack", lambda results: results["attackers"].update({"a" * 5000: {}})),  # a name no file can have
        ("attack", lambda results: results.update(chosen=None)),
    ],
)
def test_reports_of_results_that_no_run_writes(
    copied: Callable[[str], Path], kind: str, spoil: Callable[[Any], None]
) -> None:
    run = copied(kind)
    rewrite(run, spoil)
    with pytest.raises(
        (CorruptBankError, InputError), match=r"is damaged|format version 0|holds what no run writes"
    ):
        rebuild_report(run)


def test_comparisons_with_results_that_no_run_writes(copied: Callable[[str], Path], tmp_path: Path) -> None:
    run = copied("answers")
    rewrite(run, lambda results: results.pop("attacks"))
    for runs in ([run, template()], [template(), run]):
        with pytest.raises(CorruptBankError, match=r"results\.json is damaged"):
            compare(runs, tmp_path / "compared")


@pytest.mark.parametrize(
    "change",
    [
        pl.lit(np.inf).alias("tpr"),  # ended in a warning
        pl.lit(2.0).alias("fpr"),
        pl.lit(-1).alias("n_in"),
        pl.lit(0.5).alias("n_out"),
        pl.lit("no").alias("exposed"),
        pl.lit(None).alias("exposed"),
        pl.lit("a").alias("advantage"),
        pl.lit(1, dtype=pl.Int128).alias("n_in"),
        None,
    ],
)
def test_comparisons_with_rates_that_are_none(copied: Callable[[str], Path], change: pl.Expr | None) -> None:
    run = copied("audit")
    frame = pl.read_parquet(run / "records.parquet")
    spoiled = frame.drop("fpr") if change is None else frame.with_columns(change)
    spoiled.write_parquet(run / "records.parquet")
    with pytest.raises(CorruptBankError, match=r"records\.parquet is damaged"):
        changed_records(template_of("audit") / "run", run)


def test_reports_with_numbers_that_numpy_has_not(copied: Callable[[str], Path]) -> None:
    run = copied("pictures")
    frame = pl.read_parquet(run / "records.parquet")
    frame.with_columns(bits=pl.lit(1, dtype=pl.Int128)).write_parquet(run / "records.parquet")
    with pytest.raises(CorruptBankError, match=r"records\.parquet is damaged \(cannot convert i128"):
        rebuild_report(run)


@pytest.mark.parametrize("column", ["run", "hardness_"])
def test_reports_with_columns_of_other_kinds(copied: Callable[[str], Path], column: str) -> None:
    """What polars says of a column that is not there, or is of another kind, is no traceback."""
    run = copied("dynamics")
    frame = pl.read_parquet(run / "records.parquet")
    name = next(name for name in frame.columns if name.startswith(column))
    for spoiled in (frame.drop(name), frame.with_columns(pl.lit("a").alias(name).cast(pl.Binary))):
        spoiled.write_parquet(run / "records.parquet")
        with pytest.raises(CorruptBankError, match=r"records\.parquet is damaged|no run writes"):
            rebuild_report(run)
