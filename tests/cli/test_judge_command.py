"""`leakscope judge RUN`: more attacks on a finished run, earlier ones stay, nothing is trained."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leakscope
from leakscope.audits.finished import FinishedRun
from leakscope.bank.results import FORMAT_VERSION
from leakscope.evaluate.gate import Gate
from tests.cli.command import files_under, run_command
from tests.cli.test_mistakes import check_refused
from tests.engine.small_population import audited


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "run"
    audited(folder)
    return folder


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def results_of(folder: Path) -> Any:
    return json.loads((folder / "results.json").read_text())


def test_attacks_are_added_and_earlier_ones_stay(run: Path) -> None:
    before = results_of(run)
    done = run_command("judge", run, "--attacks", "rmia,lira(online=false)")
    assert (done.exit_code, done.err) == (0, "")
    assert "rmia" in done.out and "lira(online=false)" in done.out
    after = results_of(run)
    assert list(after["attacks"]) == ["loss", "lira", "rmia", "lira(online=false)"]
    assert {name: after["attacks"][name] for name in before["attacks"]} == before["attacks"]
    assert after["config"]["fpr_budgets"] == [0.25]
    assert after["config"]["source"] == before["config"]["source"]
    assert run_command("verify", run, "-q") == (0, "", "")
    assert "| rmia |" in (run / "report.md").read_text()


def test_a_subset_is_never_refused_and_loses_nothing(run: Path) -> None:
    before = files_under(run)
    for attacks in (("--attacks", "loss"), ("--attacks", "lira"), ()):
        assert run_command("judge", run, *attacks, "--quiet").exit_code == 0
        assert files_under(run) == before


def test_rates_are_added(run: Path) -> None:
    done = run_command("judge", run, "--fpr", "0.5,0.25", "--json")
    results = json.loads(done.out)
    assert results["config"]["fpr_budgets"] == [0.25, 0.5]
    assert [rate["fpr"] for rate in results["attacks"]["lira"]["tpr_at_fpr"]] == [0.25, 0.5]
    assert run_command("verify", run, "-q") == (0, "", "")


@pytest.mark.slow
def test_limits_of_the_command_line_replace_the_gate_of_the_run(run: Path) -> None:
    assert run_command("judge", run, "--max-auc", "0.1", "--quiet").exit_code == 1
    assert run_command("judge", run, "--quiet").exit_code == 1  # the gate stays
    judged = run_command("judge", run, "--max-tpr", "0.25:1", "--max-advantage", "1", "--json")
    gate = json.loads(judged.out)["config"]["gate"]
    assert (gate["max_auc"], gate["max_advantage"]) == (None, 1.0)
    assert gate["max_tpr"] == [{"fpr": 0.25, "tpr": 1.0}]
    both = run_command("judge", run, "--gate", "release", "--max-auc", "0.9", "--json")
    gate = json.loads(both.out)["config"]["gate"]
    assert (gate["preset"], gate["max_auc"], gate["max_advantage"]) == ("release", 0.9, 0.1974)


def test_a_gate_is_judged_with_its_own_delta(run: Path) -> None:
    gate = Gate(max_epsilon=100.0, delta=1e-3, confidence=0.9)
    verdict = leakscope.audit(FinishedRun(run), out=run, gate=gate)
    assert verdict.outcome == "inconclusive"  # a bound from below never passes
    epsilon = verdict.results.attacks["lira"].epsilon.general
    assert (epsilon.delta, epsilon.confidence) == (1e-3, 0.9)
    assert run_command("verify", run, "-q") == (0, "", "")


def test_a_rerun_of_the_audit_keeps_what_judge_added(run: Path) -> None:
    run_command("judge", run, "--attacks", "reference", "--quiet")
    judged = files_under(run)
    verdict = audited(run)
    assert list(verdict.results.attacks) == ["loss", "lira", "reference"]
    assert files_under(run) == judged


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (
            ("--attacks", "shokri"),
            ("shokri needs the signals logits", "signals = ['logits']", "another folder"),
        ),
        (("--attacks", "lyra"), ("attack='lyra' is unknown", "did you mean 'lira'?")),
        (("--attacks", ""), ("attacks=[]", "choose from")),
        (("--attacks", "lira(offline=true)"), ("unknown option offline", "it takes")),
        (("--attacks", "lira(online=maybe)"), ("online='maybe'",)),
        (("--attacks", "nowhere:Margin"), ("attack='nowhere:Margin' cannot be imported",)),
        (("--max-auc", "60"), ("max_auc=60.0", "must be from 0 to 1")),
        (("--max-tpr", "0.01"), ("max_tpr='0.01'", "like 0.01:0.05")),
        (("--fpr", "2"), ("fpr=[2.0]", "above 0 and at most 1")),
        (("--fpr", "low"), ("fpr='low'", "rates separated by commas, like 0.01,0.001")),
    ],
)
def test_what_cannot_be_judged_is_refused_with_the_remedy(
    run: Path, arguments: tuple[str, ...], named: tuple[str, ...]
) -> None:
    check_refused(run, ("judge", run, *arguments), *named)


def test_a_run_without_facts_is_refused_and_left_alone(run: Path) -> None:
    (run / "facts.parquet").unlink()
    check_refused(run, ("judge", run), "facts.parquet is missing; run the same audit again to write it")


def test_what_is_no_finished_audit_is_refused(run: Path, tmp_path: Path) -> None:
    check_refused(tmp_path, ("judge", tmp_path / "nowhere"), "nowhere", "not a run folder")
    check_refused(tmp_path, ("judge", run / "results.json"), "results.json", "not a run folder")
    (run / "results.json").rename(tmp_path / "elsewhere.json")
    check_refused(tmp_path, ("judge", run), "results.json is missing")
    (run / "run.json").write_text('{"kind": "study scaling", "config": {}}')
    check_refused(tmp_path, ("judge", run), "kind 'study scaling'", "only audits")


def test_results_of_another_format_name_the_remedy(run: Path) -> None:
    content = results_of(run)
    for version in (None, 0, FORMAT_VERSION + 1):
        changed = {**content, "format_version": version}
        (run / "results.json").write_text(json.dumps(changed))
        for command in ("judge", "report"):
            done = run_command(command, run)
            (line,) = done.err.splitlines()
            assert (done.exit_code, done.out) == (2, "")
            assert f"has format version {version or 0}" in line
            assert f"reads version {FORMAT_VERSION}; run the same command again to rewrite it" in line


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: {k: v for k, v in content.items() if k != "population"},
        lambda content: {**content, "attacks": {"loss": 3}},
        lambda content: {**content, "config": {**content["config"], "attacks": "loss"}},
    ],
    ids=["field missing", "no figures", "text for a list"],
)
def test_damaged_results_name_the_remedy(run: Path, damage: Any) -> None:
    (run / "results.json").write_text(json.dumps(damage(results_of(run))))
    for command in ("judge", "report"):
        done = run_command(command, run)
        (line,) = done.err.splitlines()
        assert (done.exit_code, done.out) == (3, "")
        assert "results.json is damaged (" in line and "run the same command again" in line
    verified = run_command("verify", run)
    assert verified.exit_code == 3 and "results.json is damaged (" in verified.err


def test_a_rerun_of_the_audit_writes_damaged_results_anew(run: Path) -> None:
    before = files_under(run)
    for content in ("{}", "nonsense", '{"format_version": 99}'):
        (run / "results.json").write_text(content)
        audited(run)
        assert files_under(run) == before


def test_scores_and_judge_agree(run: Path) -> None:
    """The AUC in results.json is the mean over targets of the curve that the scores draw."""
    opened = leakscope.open_run(run)
    scored = opened.scores("rmia")
    verdict = opened.judge("rmia")
    aucs = [
        (values[members][:, None] > values[~members]).mean()
        + (values[members][:, None] == values[~members]).mean() / 2
        for values, members in zip(scored.values, scored.is_member, strict=True)
    ]
    assert verdict.results.attacks["rmia"].auc.value == pytest.approx(np.mean(aucs))
