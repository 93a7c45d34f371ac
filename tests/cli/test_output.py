"""What commands print, and where: results on stdout, progress and errors on stderr, exit codes."""

from __future__ import annotations

import io
import json
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from leakscope import __version__
from leakscope.cli import output
from leakscope.errors import InputError, LeakscopeError, StorageError, TrainingError
from tests.bank.small_bank import flip
from tests.cli.command import run_command

SMALL = ("study", "scaling", "--widths", "4,6", "--n-repeats", "2", "--n-shadow", "1", "--n-reference", "2",
         "--n-samples", "60", "--n-initializations", "1", "--no-published-seeds", "--out")  # fmt: skip


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study, so that a command on it only judges and reports."""
    out = tmp_path_factory.mktemp("study") / "run"
    assert run_command(*SMALL, out, "--quiet").exit_code == 0
    return out


def test_json_is_the_results_and_nothing_else(study: Path) -> None:
    done = run_command(*SMALL, study, "--json")
    assert done.exit_code == 0
    assert done.err == ""
    assert json.loads(done.out) == json.loads((study / "results.json").read_text())


def test_quiet_prints_nothing(study: Path) -> None:
    assert run_command(*SMALL, study, "--quiet") == (0, "", "")
    assert run_command("verify", study, "-q") == (0, "", "")


def test_a_study_ends_with_its_table_its_answer_and_where_the_rest_is(study: Path) -> None:
    done = run_command(*SMALL, study)
    assert done.exit_code == 0
    assert done.err == ""  # nothing was trained for longer than the time between two lines
    results = json.loads((study / "results.json").read_text())
    for row in results["results"]:
        assert f"{row['mean_overfit_gap']:.3f}" in done.out
        assert f"{row['attacks']['lira']['mean_auc']:.3f}" in done.out
    assert results["gap_or_size"]["lira"]["answer"][:40] in done.out
    assert str(study) in done.out


def test_square_brackets_in_a_folder_name_are_printed_as_they_are(tmp_path: Path) -> None:
    out = tmp_path / "run [bold] [/x] :smile:"
    done = run_command(*SMALL, out)
    assert done.exit_code == 0
    assert str(out) in done.out
    assert str(out) in run_command("verify", out).out


def test_progress_is_plain_lines_when_stderr_is_no_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "_SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setattr("leakscope.train.compiled.PRODUCTS_WORTH_A_CALL", 0.0)  # epochs are short here
    done = run_command(*SMALL, tmp_path / "run")
    lines = done.err.splitlines()
    assert len(lines) > 50
    assert all(line.startswith("training: ") and " of 16 models" in line for line in lines)
    assert "\x1b" not in done.err
    n_done = [int(line.split()[1]) for line in lines]
    assert n_done == sorted(n_done)
    assert n_done[-1] == 16
    again = run_command(*SMALL, tmp_path / "run").err.splitlines()
    assert [int(line.split()[1]) for line in again] == [8, 16]


@pytest.mark.parametrize("flag", ["--quiet", "--json"])
def test_no_progress_when_asked_for_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: str
) -> None:
    monkeypatch.setattr(output, "_SECONDS_BETWEEN_LINES", 0.0)
    assert run_command(*SMALL, tmp_path / "run", flag).err == ""


def test_a_bar_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with output.training_progress(8, tmp_path, shown=True) as advance:
        advance(2)
        for _ in range(12):
            advance(0.5)
    assert "training" in terminal.getvalue()
    assert "of 8 models" in terminal.getvalue()
    assert "0 models saved" in terminal.getvalue()


@pytest.mark.parametrize(("number", "shown"), [(0, "0 models"), (1, "1 model"), (1200, "1,200 models")])
def test_saved_models_are_counted_as_people_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, shown: str
) -> None:
    monkeypatch.setattr("leakscope.bank.bank.n_models_saved", lambda _: number)
    assert output.saved_text(tmp_path) == f"; {shown} saved"


def test_verify_says_what_it_checked(study: Path) -> None:
    done = run_command("verify", study)
    assert (done.exit_code, done.err) == (0, "")
    assert done.out.startswith(f"{study}: all good (16 files in 2 banks, ")
    found = json.loads(run_command("verify", study, "--json").out)
    assert found["problems"] == []
    assert found["run"] == str(study)


def test_verify_of_a_damaged_run_is_one_line_and_exit_code_3(tmp_path: Path) -> None:
    out = tmp_path / "run"
    run_command(*SMALL, out, "--quiet")
    results = json.loads((out / "results.json").read_text())
    results["results"][1]["mean_train_acc"] += 0.001
    (out / "results.json").write_text(json.dumps(results))
    found = run_command("verify", out)
    assert (found.exit_code, found.out) == (3, "")
    (line,) = found.err.splitlines()
    assert f"{out}/results.json: results[1].mean_train_acc is" in line
    assert "run the command that made it again" in line
    as_json = run_command("verify", out, "--json")
    assert as_json.exit_code == 3
    assert len(json.loads(as_json.out)["problems"]) == 1
    assert run_command(*SMALL, out, "--quiet").exit_code == 0
    assert run_command("verify", out, "--quiet") == (0, "", "")


def test_verify_names_the_file_of_a_flipped_byte_and_the_same_command_repairs_it(tmp_path: Path) -> None:
    out = tmp_path / "run"
    run_command(*SMALL, out, "--quiet")
    path = out / "banks" / "width-00006" / "signals" / "log_odds.npy"
    before = path.read_bytes()
    flip(path, 1000)
    found = run_command("verify", out)
    assert (found.exit_code, found.out) == (3, "")
    (line,) = found.err.splitlines()
    assert f"{path}: block 0 (models 0 to 7) does not match its checksum" in line
    assert run_command(*SMALL, out, "--quiet").exit_code == 0
    assert path.read_bytes() == before
    assert run_command("verify", out, "--quiet") == (0, "", "")


@pytest.mark.usefixtures("whole_audits")
def test_an_audit_of_a_table_from_start_to_end(tmp_path: Path) -> None:
    config = _write_people(tmp_path, "[population]\nmodels = 8\n[training]\nepochs = 3")
    done = run_command("audit", config, "--out", tmp_path / "run")
    assert (done.exit_code, done.err) == (0, "")
    assert "8 models were each trained on a random half of 30 records" in done.out
    assert "lira" in done.out
    as_json = run_command("audit", config, "--out", tmp_path / "run", "--json")
    assert json.loads(as_json.out) == json.loads((tmp_path / "run" / "results.json").read_text())
    assert run_command("audit", config, "--out", tmp_path / "run", "--quiet") == (0, "", "")
    assert {path.name for path in (tmp_path / "run").iterdir()} >= {
        "run.json", "manifest.json", "identity.json", "design.npy", "labels.npy", "signals", "results.json",
        "records.parquet", "report.md", "figures",
    }  # fmt: skip
    assert run_command("verify", tmp_path / "run", "--quiet") == (0, "", "")


def test_an_audit_of_an_estimator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")
    model = "[model]\nestimator = 'sklearn.tree:DecisionTreeClassifier'\noptions = {max_depth = 2}"
    config = _write_people(tmp_path, f"[population]\nmodels = 6\n{model}")
    done = run_command("audit", config, "--out", tmp_path / "run", "--json")
    assert (done.exit_code, done.err) == (0, "")
    recipe = json.loads(done.out)["population"]["recipe"]
    assert "DecisionTreeClassifier" in recipe["estimator"]
    assert run_command("verify", tmp_path / "run", "--quiet") == (0, "", "")


def test_an_audit_goes_to_runs_and_the_configs_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = _write_people(tmp_path, "[population]\nmodels = 2\n[training]\nepochs = 1")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert run_command("audit", config, "--quiet").exit_code == 0
    assert (elsewhere / "runs" / "people" / "results.json").exists()


@pytest.mark.usefixtures("whole_audits")
def test_demo_runs(tmp_path: Path) -> None:
    done = run_command("demo", "--models", "4", "--out", tmp_path / "demo", "--json")
    assert (done.exit_code, done.err) == (0, "")
    results = json.loads(done.out)
    assert results["population"]["models"] == 4
    assert results["accuracy"]["members"]["value"] > results["accuracy"]["nonmembers"]["value"] > 0.8


def test_version_and_help() -> None:
    assert run_command("--version") == (0, f"leakscope {__version__}\n", "")
    for arguments in ((), ("study",), ("study", "scaling"), ("audit",), ("verify",), ("demo",)):
        shown = run_command(*arguments, "--help")
        assert (shown.exit_code, shown.err) == (0, "")
        assert "Usage:" in shown.out
    assert run_command(*("study", "scaling"), "-h").out.count("--n-reference") == 1


@pytest.mark.parametrize(
    ("error", "exit_code", "printed"),
    [
        (InputError("bad\nvalue"), 2, "leakscope: bad value\n"),
        (StorageError("full"), 3, "leakscope: full\n"),
        (TrainingError("lost"), 3, "leakscope: lost\n"),
        (LeakscopeError("other"), 3, "leakscope: other\n"),
        (KeyboardInterrupt(), 130, "leakscope: interrupted; run the same command again to resume\n"),
    ],
)
def test_how_errors_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, exit_code: int, printed: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(import_module("leakscope.audits.run"), "run_audit", fail)
    assert run_command("demo", "--out", tmp_path / "run") == (exit_code, "", printed)


def test_an_interrupted_fresh_start_is_not_to_be_started_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(import_module("leakscope.audits.run"), "run_audit", fail)
    config = tmp_path / "digits.toml"
    config.write_text('[data]\ndataset = "digits"\n')
    done = run_command("audit", config, "--out", tmp_path / "run", "--fresh")
    remedy = "run the same command again, without --fresh, to resume"
    assert (done.exit_code, done.err) == (130, f"leakscope: interrupted; {remedy}\n")


def test_a_bug_keeps_its_traceback_and_does_not_look_like_a_failed_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(import_module("leakscope.audits.run"), "run_audit", fail)
    done = run_command("demo", "--out", tmp_path / "run")
    assert done.exit_code == 3
    assert done.err.startswith("Traceback")
    assert done.err.endswith("ZeroDivisionError: a bug\n")


def _write_people(folder: Path, settings: str) -> Path:
    """Thirty people, sorted by label as tables often are."""
    rng = np.random.default_rng(0)
    rows = [f"{i},{rng.normal(label):.3f},{'ab'[i % 2]},{('no', 'yes')[label]}" for i, label in
            enumerate(np.repeat([0, 1], 15))]  # fmt: skip
    (folder / "people.csv").write_text("\n".join(["person,age,town,sick", *rows]))
    config = folder / "people.toml"
    config.write_text(
        f"[data]\nfile = 'people.csv'\nlabel = 'sick'\nid = 'person'\ngroups = ['town']\n{settings}\n"
    )
    return config
