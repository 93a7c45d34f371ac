"""Forged runs: files that were changed together with their checksums, which then prove nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import leakscope
from leakscope.audits.run import audit, recompute
from leakscope.bank.results import read_results, write_results
from leakscope.bank.run_folder import SEAL
from leakscope.disk.storage import sha256_of
from leakscope.errors import CorruptBankError
from leakscope.evaluate.gate import Gate
from leakscope.evaluate.results import AuditResults
from leakscope.runs import rewritten
from leakscope.runs.kinds import rebuild_report
from leakscope.runs.verification import verify_run
from tests.audits.test_units import audited as audit_of_units
from tests.cli.command import run_command
from tests.engine.small_population import RECIPE, records

RECORDS, ROWS = "records.parquet", "rows.parquet"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """A redacted audit that has its private page as well, and an audit of units."""
    folder = tmp_path_factory.mktemp("made")
    audit(records(), RECIPE, folder / "audit", models=8, fpr=(0.1,), device="cpu", gate=Gate(max_auc=0.51))
    audit_of_units(folder / "units")
    yield {kind: folder / kind for kind in ("audit", "units")}


@pytest.fixture
def run(made: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(made["audit"], tmp_path / "audit"))


def seal(run: Path) -> None:
    """Gives every file the checksum of what is in it now."""
    names = json.loads((run / SEAL).read_text())
    (run / SEAL).write_text(json.dumps({name: sha256_of(run / name) for name in names}))


def forge_text(path: Path, change: Callable[[str], str]) -> None:
    before = path.read_text()
    path.write_text(change(before))
    assert path.read_text() != before
    seal(path.parent)


def forge_table(path: Path, change: Callable[[pl.DataFrame], pl.DataFrame]) -> list[str]:
    """What `verify` says of a table that was changed together with its checksum."""
    before = pl.read_parquet(path)
    change(before).write_parquet(path)
    seal(path.parent)
    problems = verify_run(path.parent).problems
    before.write_parquet(path)
    seal(path.parent)
    assert verify_run(path.parent).problems == []
    return problems


def test_forged_values_of_the_records_are_named(run: Path) -> None:
    table = pl.read_parquet(run / RECORDS)
    numbers = [name for name in table.columns if table[name].dtype.is_float()]
    assert len(numbers) > 5
    zeros = forge_table(run / RECORDS, lambda t: t.with_columns(pl.lit(0.0).alias(n) for n in numbers))
    assert any(f"{run / RECORDS}: advantage of row " in problem for problem in zeros)
    for name in ("id", "label", "advantage"):
        (problem,) = forge_table(run / RECORDS, lambda t, name=name: t.with_columns(pl.col(name).reverse()))
        assert f"{run / RECORDS}: {name} of row 0 is {table[name][-1]!r}, but {table[name][0]!r}" in problem


def test_a_single_value_in_a_later_block_is_named_and_rounding_is_not(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewritten, "_ROWS_AT_ONCE", 7)
    row = pl.read_parquet(run / RECORDS).height - 2

    def nudged(by: float) -> Callable[[pl.DataFrame], pl.DataFrame]:
        here = pl.int_range(pl.len()) == row
        return lambda t: t.with_columns(pl.when(here).then(pl.col("advantage") + by).otherwise("advantage"))

    (problem,) = forge_table(run / RECORDS, lambda t: nudged(1e-6)(t).select(t.columns))
    assert f"advantage of row {row}" in problem
    assert forge_table(run / RECORDS, lambda t: nudged(1e-13)(t).select(t.columns)) == []


def test_a_number_that_only_other_readers_see_is_named(run: Path) -> None:
    """Python takes the last value of a name, other readers of JSON the first."""
    results = run / "results.json"
    forge_text(results, lambda text: text.replace("{", '{"headline": {"auc": {"value": 0.5}},', 1))
    with pytest.raises(CorruptBankError, match="'headline' is there twice"):
        verify_run(run)


def test_rows_and_columns_that_are_gone_are_named(run: Path) -> None:
    (problem,) = forge_table(run / RECORDS, lambda t: t[:-3])
    assert " rows, but " in problem
    (problem,) = forge_table(run / RECORDS, lambda t: t.drop("exposed"))
    assert "has the columns " in problem
    (problem,) = forge_table(run / RECORDS, lambda t: t.with_columns(advantage=pl.lit(None, pl.Float64)))
    assert "advantage of row 0 is None, but " in problem


def test_a_forged_table_of_rows_of_units_is_named(made: dict[str, Path], tmp_path: Path) -> None:
    run = Path(shutil.copytree(made["units"], tmp_path / "units"))
    assert any(f"rows of {ROWS}" in what for what in verify_run(run).checked)
    (problem,) = forge_table(run / ROWS, lambda t: t.with_columns(pl.col("advantage") * 0.9))
    assert f"{run / ROWS}: advantage of row " in problem


@pytest.mark.parametrize("name", ["report.html", "report.md", "report-redacted.html"])
def test_a_forged_page_is_named(run: Path, name: str) -> None:
    """With the page of a redacted run, too, whose key stays in the folder."""
    if name == "report-redacted.html":
        assert run_command("report", run, "--redact", "--quiet").exit_code == 0
    assert verify_run(run).problems == []
    forge_text(run / name, lambda page: page.replace("Rating:", "Rating: none found, not"))
    (problem,) = verify_run(run).problems
    assert problem.startswith(f"{run / name}: says ") and "none found, not" in problem
    rebuild_report(run)
    assert verify_run(run).problems == []


HIDING = {
    "a style": ("</style>", ".badge { font-size: 0 } .badge::after { content: 'Passed' }</style>"),
    "an attribute": ("<h1", "<h1 hidden"),
    "a script that ends early": ("</body>", "<script></script x>Passed<script></script></body>"),
    "a picture of words": ("</body>", "<img src='data:image/png;base64,AAAA'></body>"),
    "a tag like a script": ("<main", "<script-x>Passed</script-x><main"),
    "what looks like data": ("<main", "data:<style>main{display:none}</style><h1>Passed</h1><main"),
    "a comment": ("</body>", "<!-- <script> -->Passed<!-- </script> --></body>"),
}


@pytest.mark.parametrize("what", HIDING)
def test_words_that_are_hidden_or_shown_without_being_text_are_named(run: Path, what: str) -> None:
    forge_text(run / "report.html", lambda page: page.replace(*HIDING[what], 1))
    (problem,) = verify_run(run).problems
    assert problem.startswith(f"{run / 'report.html'}: says ")


@pytest.mark.parametrize("name", ["report.html", "report.md"])
def test_a_page_that_was_taken_out_with_its_checksum_is_missed(run: Path, name: str) -> None:
    (run / name).unlink()
    names = json.loads((run / SEAL).read_text())
    (run / SEAL).write_text(json.dumps({key: value for key, value in names.items() if key != name}))
    assert verify_run(run).problems == [f"{run / name}: is missing; `leakscope report` writes it"]


def test_a_forged_page_in_the_name_of_another_version_is_not_good_without_a_word(run: Path) -> None:
    forge_text(run / "report.html", lambda page: page.replace("Rating:", "Rating: none found, not"))
    forge_text(run / "results.json", lambda text: text.replace(leakscope.__version__, "0.1.9", 1))
    found = verify_run(run)
    assert found.problems == []
    assert found.notes[0].startswith("The run says that leakscope 0.1.9 made it, and this is ")
    assert any("the text of report.html" in note for note in found.notes)


def test_scripts_that_no_reader_sees_are_not_called_good(run: Path) -> None:
    """They could write other words over the page, and another version of plotly is no forgery."""
    forge_text(run / "report.html", lambda page: page.replace("</body>", "<script>other()</script></body>"))
    found = verify_run(run)
    assert found.problems == []
    assert any(
        "unchanged: previews.npz, the charts and scripts of report.html" in note for note in found.notes
    )


def test_a_forged_picture_is_not_called_good(run: Path) -> None:
    assert any(note.endswith("unchanged: previews.npz.") for note in verify_run(run).notes)
    (run / "figures" / "roc.png").write_bytes(b"another picture")
    seal(run)
    found = verify_run(run)
    assert any(f"unchanged: figures, previews.npz. `leakscope report {run}`" in note for note in found.notes)
    assert "roc.png" not in " ".join(found.checked)


def test_a_run_that_was_renamed_is_good(run: Path) -> None:
    assert verify_run(run.rename(run.with_name("another name"))).problems == []


def test_nothing_is_written_to_the_run(run: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    verify_run(run)
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before


def test_the_limits_of_the_gate_are_shown_because_they_could_be_anybodys(run: Path) -> None:
    assert verify_run(run).notes[0].startswith("Gate: max_auc = 0.51, ")
    results = read_results(run, AuditResults)
    assert results.config.gate is not None
    lenient = replace(results.config, gate=replace(results.config.gate, max_auc=0.999))
    write_results(run, recompute(run, lenient))
    rebuild_report(run)
    seal(run)
    done = run_command("verify", run)
    assert done.exit_code == 0 and "Gate: max_auc = 0.999, " in done.out
    assert "Gate: max_auc = 0.999, " in run_command("verify", run, "--json").out
