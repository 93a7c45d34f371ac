"""The exit codes of `leakscope audit`: 0 fine, 1 the gate failed, 2 the input is wrong, 3 the run failed."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.command import Outcome, run_command

CONFIG = """
[data]
file = "people.csv"
label = "outcome"
[model]
options = {{ width = 4 }}
[training]
epochs = 2
{training}
[population]
models = 4
device = "cpu"
[attacks]
fpr = [0.1]
{gate}
"""


def audited(folder: Path, gate: str, training: str = "", *options: str) -> Outcome:
    rows = [f"{i % 7},{(3 * i) % 11},{'yes' if i % 3 else 'no'}" for i in range(60)]
    (folder / "people.csv").write_text("\n".join(["a,b,outcome", *rows]))
    (folder / "my.toml").write_text(CONFIG.format(gate=gate, training=training))
    return run_command("audit", folder / "my.toml", "--out", folder / "run", *options)


def test_without_a_gate_and_with_one_that_holds_the_code_is_0(tmp_path: Path) -> None:
    plain = audited(tmp_path, "")
    assert plain.exit_code == 0
    assert "Gate" not in plain.out
    passed = audited(tmp_path, "[gate]\nmax_auc = 1.0\nmax_epsilon = 50")
    assert passed.exit_code == 0, passed
    assert "Gate passed: the AUC is up to" in passed.out
    assert json.loads((tmp_path / "run" / "results.json").read_text())["gate"]["passed"] is True


def test_a_broken_limit_gives_1_after_everything_was_printed_and_written(tmp_path: Path) -> None:
    failed = audited(tmp_path, "[gate]\nmax_auc = 0.1\nmax_tpr = [{ fpr = 0.001, tpr = 0.5 }]")
    assert failed.exit_code == 1
    assert "Gate failed: the AUC is up to" in failed.out
    assert "cannot be measured (an FPR of 0.001 is below 1/" in " ".join(failed.out.split())
    assert str(tmp_path / "run") in failed.out
    assert "Gate failed" in (tmp_path / "run" / "report.md").read_text()
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert [limit["passed"] for limit in results["gate"]["limits"]] == [False, False]
    assert run_command("verify", tmp_path / "run").exit_code == 0


def test_quiet_and_json_still_say_why(tmp_path: Path) -> None:
    quiet = audited(tmp_path, "[gate]\nmax_auc = 0.1", "", "--quiet")
    assert (quiet.exit_code, quiet.out) == (1, "")
    assert "Gate failed: the AUC" in quiet.err
    as_json = audited(tmp_path, "[gate]\nmax_auc = 0.1", "", "--json")
    assert as_json.exit_code == 1
    assert json.loads(as_json.out)["gate"]["passed"] is False


def test_a_gate_that_makes_no_sense_gives_2(tmp_path: Path) -> None:
    wrong = audited(tmp_path, "[gate]\nmax_auc = 7\nconfidence = 0.9")
    assert wrong.exit_code == 2
    assert "max_auc=7" in wrong.err
    assert not (tmp_path / "run").exists()
    unused = audited(tmp_path, "[gate]\nmax_auc = 0.7\nconfidence = 0.9")
    assert unused.exit_code == 2
    assert "confidence would do nothing" in unused.err


def test_a_run_that_fails_gives_3(tmp_path: Path) -> None:
    failed = audited(tmp_path, "[gate]\nmax_auc = 0.9", 'optimizer = "sgd"\nlr = 1e30')
    assert failed.exit_code == 3
    assert "every model diverged" in failed.err
