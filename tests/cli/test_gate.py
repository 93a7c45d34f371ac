"""The exit codes of `leakscope audit`: passed, failed, wrong input, a run that failed, inconclusive."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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
models = {models}
device = "cpu"
[attacks]
names = ["loss", "lira"]
fpr = [0.1]
{gate}
"""


def audited(folder: Path, gate: str, training: str = "", *options: str, models: int = 8) -> Outcome:
    rows = [f"{i % 7},{(3 * i) % 11},{'yes' if i % 3 else 'no'}" for i in range(60)]
    (folder / "people.csv").write_text("\n".join(["a,b,outcome", *rows]))
    (folder / "my.toml").write_text(CONFIG.format(gate=gate, training=training, models=models))
    return run_command("audit", folder / "my.toml", "--out", folder / "run", *options)


def test_a_claim_ends_with_its_code(tmp_path: Path) -> None:
    few = audited(tmp_path, "[claim]\nepsilon = 8", "", "--json", models=4)
    assert few.exit_code == 4
    assert "the claim of differential privacy" in few.err
    assert "is not testable with this budget" in few.err
    assert json.loads(few.out)["claim"]["verdict"]["status"] == "not testable"
    refused = run_command("judge", tmp_path / "run", "--claim", "0")
    assert refused.exit_code == 2


def test_without_a_gate_and_with_one_that_holds_the_code_is_0(tmp_path: Path) -> None:
    plain = audited(tmp_path, "")
    assert plain.exit_code == 0
    assert "Gate" not in plain.out
    passed = audited(tmp_path, "[gate]\nmax_auc = 1.0\nmax_tpr = [{ fpr = 0.1, tpr = 1.0 }]")
    assert passed.exit_code == 0, passed
    assert "Gate passed: the AUC is up to" in passed.out
    assert json.loads((tmp_path / "run" / "results.json").read_text())["gate"]["outcome"] == "passed"


def test_a_broken_limit_gives_1_after_everything_was_printed_and_written(tmp_path: Path) -> None:
    failed = audited(tmp_path, "[gate]\nmax_auc = 0.1\nmax_tpr = [{ fpr = 0.001, tpr = 0.5 }]")
    assert failed.exit_code == 1
    assert "Gate failed: the AUC is at least" in failed.out
    assert "(an FPR of 0.1% is below 1/" in " ".join(failed.out.split())
    assert str(tmp_path / "run") in failed.out
    assert "Gate failed" in (tmp_path / "run" / "report.md").read_text()
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert [limit["outcome"] for limit in results["gate"]["limits"]] == ["failed", "inconclusive"]
    assert run_command("verify", tmp_path / "run").exit_code == 0


def test_quiet_and_json_still_say_why(tmp_path: Path) -> None:
    quiet = audited(tmp_path, "[gate]\nmax_auc = 0.1", "", "--quiet")
    assert (quiet.exit_code, quiet.out) == (1, "")
    assert "Gate failed: the AUC" in quiet.err
    as_json = audited(tmp_path, "[gate]\nmax_auc = 0.1", "", "--json")
    assert as_json.exit_code == 1
    assert json.loads(as_json.out)["gate"]["outcome"] == "failed"


def test_a_gate_that_makes_no_sense_gives_2(tmp_path: Path) -> None:
    wrong = audited(tmp_path, "[gate]\nmax_auc = 7\nconfidence = 0.9")
    assert wrong.exit_code == 2
    assert "max_auc=7" in wrong.err
    assert not (tmp_path / "run").exists()
    unused = audited(tmp_path, "[gate]\nmax_auc = 0.7\nconfidence = 0.9")
    assert unused.exit_code == 2
    assert "confidence would do nothing" in unused.err


def test_models_that_never_converge_give_2(tmp_path: Path) -> None:
    failed = audited(tmp_path, "[gate]\nmax_auc = 0.9", 'optimizer = "sgd"\nlr = 1e30')
    assert failed.exit_code == 2
    assert "every model diverged" in failed.err


@pytest.mark.parametrize(
    ("gate", "models", "named"),
    [
        ("max_epsilon = 50", 8, "a lower bound cannot show"),
        (
            "max_exposed_share = 0.01",
            8,
            "If the models reveal nothing, it takes about 96 of them to pass.",
        ),
        ("max_tpr = [{ fpr = 0.001, tpr = 1.0 }]", 8, "an FPR of 0.1% is below"),
        ("max_auc = 1.0", 4, "it takes at least 8 models"),
    ],
)
def test_what_proves_nothing_is_inconclusive_everywhere(
    tmp_path: Path, gate: str, models: int, named: str
) -> None:
    done = audited(tmp_path, f"[gate]\n{gate}", models=models)
    assert done.exit_code == 4
    assert "Inconclusive" in done.out and named in " ".join(done.out.split())
    page, markdown = (tmp_path / "run" / "report.html").read_text(), tmp_path / "run" / "report.md"
    assert "**Inconclusive**" in markdown.read_text() and named in markdown.read_text()
    assert 'class="badge bad">Inconclusive' in page
    for sign_of_safety in ('<figure class="gauge', 'class="badge good"', "Gate passed", "Gate failed"):
        assert sign_of_safety not in page
    quiet = audited(tmp_path, f"[gate]\n{gate}", "", "--quiet", models=models)
    assert (quiet.exit_code, quiet.out) == (4, "")
    assert "Inconclusive" in quiet.err or "UNRELIABLE" in quiet.err


def test_few_models_are_never_printed_as_nobody_exposed(tmp_path: Path) -> None:
    done = audited(tmp_path, "", models=8)
    text = " ".join(done.out.split())
    assert done.exit_code == 0
    assert "Exposed records: not resolvable with 8 models" in text
    assert "No record is individually exposed" not in text
    assert "of 60 records are exposed" not in (tmp_path / "run" / "report.html").read_text()
    exposed = json.loads((tmp_path / "run" / "results.json").read_text())["exposed"]
    assert (exposed["records"], exposed["share"], exposed["fewest_detectable"]) == (None, None, 18)


def test_two_models_are_marked_unreliable_without_a_gate_too(tmp_path: Path) -> None:
    done = audited(tmp_path, "", models=2)
    assert done.exit_code == 0
    columns, _, verdict = done.out.partition("\n\n")
    assert columns == "2 features: a number; b number"
    assert verdict.startswith("UNRELIABLE (models): The figures of 2 models are unreliable")
    assert "Rating: inconclusive, because its figures are unreliable (models)." in verdict
    assert "check of the audit failed" not in verdict and "checks of the audit failed" not in verdict
    page = (tmp_path / "run" / "report.html").read_text()
    assert 'class="badge bad">Unreliable' in page
    assert '<figure class="gauge' not in page and 'class="badge good"' not in page
    assert "Membership is" not in page
