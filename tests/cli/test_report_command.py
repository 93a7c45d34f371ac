"""`leakscope report` and `leakscope open`."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import pytest

from leakscope.report.page import PAGE, REDACTED_PAGE
from leakscope.runs.kinds import KINDS, kind_module
from tests.cli.command import run_command
from tests.cli.test_gate import audited
from tests.synthetic_runs import Synthetic


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Synthetic(n_records=60, n_models=8).audited(tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_run_can_be_verified_and_its_report_rebuilt(kind: str) -> None:
    module = kind_module(kind)
    assert callable(module.recompute) and callable(module.write_reports)
    assert isinstance(module.RESULTS_TYPE, type)


def test_report_writes_the_reports_again_and_prints_where(folder: Path) -> None:
    (folder / PAGE).unlink()
    (folder / "report.md").unlink()
    done = run_command("report", folder)
    assert (done.exit_code, done.out.strip()) == (0, str(folder / PAGE))
    assert (folder / PAGE).exists() and (folder / "report.md").exists()
    assert run_command("report", folder, "--quiet").out == ""


def test_a_redacted_report_is_a_file_of_its_own(folder: Path) -> None:
    private = (folder / PAGE).read_text()
    done = run_command("report", folder, "--redact")
    assert (done.exit_code, done.out.strip()) == (0, str(folder / REDACTED_PAGE))
    assert "person-" in private and "person-" not in (folder / REDACTED_PAGE).read_text()
    assert (folder / PAGE).read_text() == private
    both = run_command("report", folder, "--redact", "--with-membership")
    assert both.exit_code == 2 and "choose --redact or --with-membership" in both.err


def test_an_audit_names_its_report_and_can_be_redacted_from_the_start(tmp_path: Path) -> None:
    done = audited(tmp_path, "", "", "--redact")
    assert done.exit_code == 0, done
    page = tmp_path / "run" / REDACTED_PAGE
    assert f"Open {page}" in done.out and "Redacted" in page.read_text()
    assert run_command("open", tmp_path / "run", "--print-only").out.strip() == str(page)
    assert not (tmp_path / "run" / PAGE).exists() and not (tmp_path / "run" / "previews.npz").exists()
    assert run_command("report", tmp_path / "run", "--no-redact").exit_code == 0
    assert (tmp_path / "run" / PAGE).exists()


def test_open_shows_the_report_in_the_browser(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: bool(opened.append(url)))
    assert run_command("open", folder, "--print-only").out.strip() == str(folder / PAGE)
    assert opened == []
    assert run_command("open", folder).exit_code == 0
    assert opened == [(folder / PAGE).as_uri()]


def test_what_cannot_be_shown_is_an_input_error(folder: Path, tmp_path: Path) -> None:
    (folder / PAGE).unlink()
    missing = run_command("open", folder, "--print-only")
    assert missing.exit_code == 2 and "leakscope report" in missing.err
    assert run_command("open", tmp_path / "nowhere").exit_code == 2
    assert run_command("report", tmp_path / "nowhere").exit_code == 2
    (folder / "results.json").unlink()
    unfinished = run_command("report", folder)
    assert unfinished.exit_code == 2 and "results.json is missing" in unfinished.err
    assert "run the command that made the folder to write it" in unfinished.err
