"""Runs of another version: what words a sentence anew is no alarm, what computes another number is named."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import leakscope
from leakscope.bank.run_folder import RESULTS, SEAL, sealed
from leakscope.disk.storage import sha256_of
from leakscope.errors import ExitCode
from leakscope.runs.verification import verify_run
from tests.cli.command import run_command
from tests.made_up_audits import made_up_audit, quick_single_records

TEXTS = {"reason", "sentence", "method", "what", "decision", "causes"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("made") / "run"
    with quick_single_records():
        with sealed(folder):
            made_up_audit(folder, 1.0, models=8, fpr_budgets=(0.1, 0.0001))
        yield folder


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "run"))


def rewrite(run: Path, change: Callable[[Any], Any], is_sealed: bool = True) -> None:
    """Another results.json, with the checksum of a run that wrote it so."""
    results = json.loads((run / RESULTS).read_text())
    (run / RESULTS).write_text(json.dumps(change(results)))
    if is_sealed:
        checksums = json.loads((run / SEAL).read_text())
        (run / SEAL).write_text(json.dumps({**checksums, RESULTS: sha256_of(run / RESULTS)}))


def reworded(value: Any, is_text: bool = False) -> Any:
    if isinstance(value, dict):
        return {name: reworded(inner, name in TEXTS) for name, inner in value.items()}
    if isinstance(value, list):
        return [reworded(inner, is_text) for inner in value]
    return f"In other words: {value}" if is_text and value else value


def with_auc(auc: float, version: str | None) -> Callable[[Any], Any]:
    def changed(results: Any) -> Any:
        results["headline"]["auc"]["value"] = auc
        if version is None:
            del results["leakscope_version"]
        else:
            results["leakscope_version"] = version
        return results

    return changed


def test_the_version_is_recorded(run: Path) -> None:
    assert json.loads((run / RESULTS).read_text())["leakscope_version"] == leakscope.__version__


def test_sentences_of_another_version_are_no_alarm(run: Path) -> None:
    rewrite(run, lambda results: {**reworded(results), "leakscope_version": "0.1.7"})
    assert (run / RESULTS).read_text().count("In other words") > 10
    verified = verify_run(run)
    assert (verified.problems, verified.undecided) == ([], ())


def test_a_sentence_that_this_version_does_not_write_is_named(run: Path) -> None:
    """Else "Gate failed" in a machine-readable verdict could become "Gate passed", with a new checksum."""
    rewrite(run, reworded)
    assert any("'In other words: " in problem for problem in verify_run(run).problems)


def test_a_sentence_that_somebody_changed_does_not_match_its_checksum(run: Path) -> None:
    rewrite(run, lambda results: {**reworded(results), "leakscope_version": "0.1.7"}, is_sealed=False)
    assert verify_run(run).problems == [f"{run / RESULTS}: does not match its checksum"]


def test_a_reason_that_is_gone_is_named(run: Path) -> None:
    def without_sentence(results: Any) -> Any:
        results["hygiene"][0]["sentence"] = ""
        return results

    rewrite(run, without_sentence)
    (problem,) = verify_run(run).problems
    assert "hygiene[0].sentence is '', but " in problem
    rewrite(run, lambda results: {**results, "leakscope_version": "0.1.7"})
    assert "hygiene[0].sentence is 'no text', but 'a text' from the signals" in verify_run(run).undecided[1]


@pytest.mark.parametrize("version", ["0.1.7", None, "1 --index-url=elsewhere"])
def test_numbers_of_another_version_are_inconclusive(run: Path, version: str | None, tmp_path: Path) -> None:
    rewrite(run, with_auc(0.123, version))
    verified = verify_run(run)
    assert verified.problems == []
    assert "headline.auc.value is 0.123" in verified.undecided[1]
    done = run_command("verify", run, "--junit", tmp_path / "junit.xml", "--summary", tmp_path / "summary.md")
    assert done.exit_code == ExitCode.INCONCLUSIVE
    said = re.sub(r"\s+", " ", done.err)
    assert "the files are undamaged" in said and f"and this is {leakscope.__version__}" in said
    assert ("pip install leakscope==0.1.7" in said) == (version == "0.1.7")
    assert "index-url" not in said
    assert 'errors="1"' in (tmp_path / "junit.xml").read_text()
    assert "All good**" not in (tmp_path / "summary.md").read_text()


def test_numbers_of_this_version_are_an_alarm(run: Path) -> None:
    rewrite(run, with_auc(0.123, leakscope.__version__))
    assert "headline.auc.value is 0.123" in verify_run(run).problems[0]


def test_a_version_excuses_no_damaged_file(run: Path) -> None:
    rewrite(run, with_auc(0.123, "0.1.7"), is_sealed=False)
    verified = verify_run(run)
    assert "headline.auc.value is 0.123" in verified.problems[0]
    assert verified.undecided == ()


def test_results_in_the_format_of_another_version_are_inconclusive(run: Path) -> None:
    rewrite(run, lambda results: {**results, "format_version": 0, "leakscope_version": "0.1.7"})
    verified = verify_run(run)
    assert verified.problems == []
    assert "computed by leakscope 0.1.7" in verified.undecided[0]
