"""What a CI pipeline reads: exit code, JUnit XML and summary agree, and say nothing about a record."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from leakscope.report.junit import Case, junit_xml
from tests.cli.command import Outcome, run_command

N_RECORDS = 400


def write_predictions(path: Path, gap: float, members_lie: bool = False, prefix: str = "person") -> Path:
    """Outputs of a model and eight references on 400 records, higher by `gap` on members."""
    rng = np.random.default_rng(0)
    in_mask = rng.random((9, N_RECORDS)) < 0.5
    labels = np.arange(N_RECORDS) % 2
    logits = rng.normal(size=(9, N_RECORDS, 2)) + 1.0
    logits[:, np.arange(N_RECORDS), labels] += 1 + gap * in_mask
    if members_lie:
        in_mask[1:] = in_mask[0]
    names = np.array([f"{prefix}-{i}" for i in range(N_RECORDS)])
    towns = np.array([f"{prefix}s-town-{i}" for i in range(N_RECORDS)])
    np.savez(path, logits=logits[0], labels=labels, is_member=in_mask[0], ids=names, town=towns,
             reference_logits=logits[1:], reference_members=in_mask[1:])  # fmt: skip
    return path


class Audited:
    """One audit of a pipeline, and the files it wrote."""

    def __init__(self, folder: Path, gap: float, *options: str, **made_up: Any) -> None:
        predictions = write_predictions(folder / "model.npz", gap, **made_up)
        self.run = folder / "run"
        self.outcome: Outcome = run_command(
            "audit", "--predictions", predictions, "--out", self.run, "--quiet",
            "--junit", folder / "new" / "junit.xml", "--summary", folder / "summary.md", *options,
        )  # fmt: skip
        self.junit = ElementTree.parse(folder / "new" / "junit.xml").getroot()
        self.summary = (folder / "summary.md").read_text()

    def problems(self, tag: str) -> list[str]:
        return [element.attrib["message"] for element in self.junit.iter(tag)]


CASES = {
    "failed": (3.0, ("--gate", "release"), 1),
    "passed": (0.0, ("--gate", "internal"), 0),
    "inconclusive": (0.0, ("--gate", "release"), 4),
    "no gate": (0.0, (), 0),
}


@pytest.mark.parametrize("case", CASES)
def test_exit_code_test_cases_and_summary_agree(case: str, tmp_path: Path) -> None:
    gap, options, code = CASES[case]
    audited = Audited(tmp_path, gap, *options)
    assert audited.outcome.exit_code == code
    failures, errors = audited.problems("failure"), audited.problems("error")
    assert bool(failures) == (case == "failed")
    assert bool(errors and not failures) == (case == "inconclusive")
    suite = audited.junit[0]
    counts = {name: int(suite.attrib[name]) for name in ("tests", "failures", "errors")}
    assert counts == {"tests": len(suite), "failures": len(failures), "errors": len(errors)}
    assert f"**Outcome: {case}**" in audited.summary or "**No gate was set**" in audited.summary
    assert all(sentence.replace("[", "\\[") in audited.summary for sentence in failures + errors)


def test_a_failed_check_is_an_error_and_the_summary_states_no_figure(tmp_path: Path) -> None:
    audited = Audited(tmp_path, 3.0, "--gate", "internal", members_lie=True)
    assert audited.outcome.exit_code == 4
    assert not audited.problems("failure")
    assert any("overlap" in element.attrib["name"] for element in audited.junit.iter("testcase"))
    assert "| attack |" not in audited.summary


@pytest.fixture(scope="module")
def redacted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audited]:
    yield Audited(tmp_path_factory.mktemp("redacted"), 3.0, "--redact", "--gate", "release")


def test_neither_file_of_a_redacted_run_depends_on_who_the_records_are(
    redacted: Audited, tmp_path: Path
) -> None:
    text = redacted.summary + ElementTree.tostring(redacted.junit, encoding="unicode")
    assert not re.search(r"person-\d|town-\d", text)
    others = Audited(tmp_path, 3.0, "--redact", "--gate", "release", prefix="somebody")
    assert others.summary == redacted.summary
    assert ElementTree.tostring(others.junit) == ElementTree.tostring(redacted.junit)


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_computed(tmp_path: Path) -> None:
    predictions = write_predictions(tmp_path / "model.npz", 0.0)
    out = ("--out", tmp_path / "run")
    folder = run_command("audit", "--predictions", predictions, *out, "--junit", tmp_path)
    same = run_command("audit", "--predictions", predictions, *out, "--junit", "a.xml", "--summary", "a.xml")
    wrong = run_command("audit", "--predictions", predictions, *out, "--gate", "releas")
    assert [folder.exit_code, same.exit_code, wrong.exit_code] == [2, 2, 2]
    assert "is a folder" in folder.err
    assert "the same file" in same.err
    assert "did you mean 'release'?" in wrong.err
    assert not (tmp_path / "run").exists()


def test_a_preset_on_the_command_line_leaves_the_limits_of_the_config_in_place(tmp_path: Path) -> None:
    write_predictions(tmp_path / "model.npz", 1.0)
    config = tmp_path / "my.toml"
    config.write_text('[predictions]\nfile = "model.npz"\n[gate]\npreset = "internal"\nmax_auc = 1.0\n')
    out = ("--out", tmp_path / "run", "--quiet")
    loose = run_command("audit", config, *out)
    strict = run_command("audit", config, *out, "--gate", "release")
    assert (loose.exit_code, strict.exit_code) == (0, 1)
    assert "TPR at 1% FPR" in strict.err and "that of 'release'" in strict.err
    assert "AUC is at least" not in strict.err
    judged = run_command(
        "judge", tmp_path / "run", "--gate", "release", "--quiet", "--summary", tmp_path / "s.md"
    )
    assert judged.exit_code == 1
    assert "that of 'release'" in (tmp_path / "s.md").read_text()


def test_a_verified_run_has_test_cases_too(redacted: Audited, tmp_path: Path) -> None:
    junit, summary = tmp_path / "junit.xml", tmp_path / "summary.md"
    files = ("--junit", junit, "--summary", summary)
    assert run_command("verify", redacted.run, *files).exit_code == 0
    assert "**All good**" in summary.read_text()
    assert ElementTree.parse(junit).getroot().attrib["failures"] == "0"
    content = (redacted.run / "report-redacted.html").read_bytes()
    (redacted.run / "report-redacted.html").write_bytes(content + b" ")
    assert run_command("verify", redacted.run, *files).exit_code == 3
    assert ElementTree.parse(junit).getroot().attrib["failures"] == "1"
    assert "report-redacted.html" in summary.read_text()


NASTY = 'a\x00b\x1b[31m\x08 ]]> <![CDATA[ & "quoted" \ud800 \ufffe </testsuite>\r\n<x/> é 日本'


def test_any_text_makes_well_formed_xml_and_no_element_of_its_own() -> None:
    content = junit_xml(NASTY, [Case(NASTY, NASTY, outcome, NASTY) for outcome in ("passed", "failed")])
    root = ElementTree.fromstring(content)
    assert [element.tag for element in root.iter()] == [
        "testsuites", "testsuite", "testcase", "system-out", "testcase", "failure",
    ]  # fmt: skip
    shown = root[0][0].attrib["name"]
    assert ']]> <![CDATA[ & "quoted"' in shown and "é 日本" in shown
    assert "\\x00" in shown and "\\x1b" in shown
    assert b"\x00" not in content and b"\x1b" not in content
