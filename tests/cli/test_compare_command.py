"""`leakscope compare`: exit codes, output, files, and refusals that write nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.claims import claim
from tests.cli.command import files_under, run_command
from tests.made_up_audits import made_up_audit, quick_single_records

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True, scope="module")
def quick() -> Iterator[None]:
    with quick_single_records():
        yield


@pytest.fixture(scope="module")
def audits(quick: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audits")
    made_up_audit(folder / "leaky", 2.0)
    made_up_audit(folder / "defended", 0.2, level=0.2, noise_seed=1)
    made_up_audit(folder / "others", 2.0, records="cd")
    return folder


@pytest.mark.slow
@pytest.mark.usefixtures("whole_audits")
def test_a_defense_that_helps_ends_with_0_and_everything_is_written(audits: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run_command("compare", audits / "leaky", audits / "defended", "--out", out)
    assert (done.exit_code, done.err) == (0, "")
    assert "defended leaks less than leaky" in " ".join(done.out.split())
    assert "Accuracy on non-members falls" in done.out and str(out) in done.out.replace("\n", "")
    expected = {"run.json", "results.json", "records.parquet", "report.md", "report.html"}
    assert expected | {"figures/differences.png"} <= set(files_under(out))
    markdown = (out / "report.md").read_text()
    assert markdown.startswith("# defended compared with leaky") and "| AUC (lira) |" in markdown
    assert run_command("verify", out).exit_code == 0
    before = files_under(out)
    assert run_command("compare", audits / "leaky", audits / "defended", "--out", out, "-q").exit_code == 0
    assert files_under(out) == before  # the same again, byte for byte


def test_a_regression_ends_with_1_and_says_so_even_when_quiet(audits: Path, tmp_path: Path) -> None:
    runs = (audits / "defended", audits / "leaky")
    shown = run_command("compare", *runs, "--out", tmp_path / "out")
    assert shown.exit_code == 1 and shown.err == "" and "Regression in leaky: " in shown.out
    quiet = run_command("compare", *runs, "--out", tmp_path / "out", "--quiet")
    assert (quiet.exit_code, quiet.out) == (1, "")
    (line,) = quiet.err.splitlines()
    assert line.startswith("leakscope: Regression in leaky: AUC (")
    as_json = run_command("compare", *runs, "--out", tmp_path / "out", "--json")
    assert as_json.exit_code == 1
    assert json.loads(as_json.out) == json.loads((tmp_path / "out" / "results.json").read_text())


def test_by_default_the_comparison_is_next_to_the_baseline(audits: Path) -> None:
    assert run_command("compare", audits / "leaky", audits / "defended", "-q").exit_code == 0
    assert (audits / "compare-leaky-defended" / "results.json").exists()


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ("others", "cannot be compared with"),
        ("study", "is a run of kind 'study scaling'; compare takes audits"),
        ("nothing", "is not a run folder"),
    ],
)
def test_what_cannot_be_compared_ends_with_2_and_writes_nothing(
    audits: Path, tmp_path: Path, other: str, message: str
) -> None:
    if other == "study":
        claim(audits / "study", "study scaling", {})
    refused = run_command("compare", audits / "leaky", audits / other, "--out", tmp_path / "out")
    assert (refused.exit_code, refused.out) == (2, "")
    assert message in refused.err and len(refused.err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("whole_audits")
def test_a_name_full_of_markup_stays_text(tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)>|&'"
    towns = ("<script>alert(2)</script>", "ا🙂|")
    made_up_audit(tmp_path / "leaky", 2.0, towns=towns)
    made_up_audit(tmp_path / name, 0.2, noise_seed=1, towns=towns)
    done = run_command("compare", tmp_path / "leaky", tmp_path / name, "--out", tmp_path / "out", "-q")
    assert done.exit_code == 0, done
    page = (tmp_path / "out" / "report.html").read_text().replace("<wbr>", "")  # where names may break
    assert "<img src=x" not in page and "<script>alert" not in page
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    assert "&lt;script&gt;alert(2)&lt;/script&gt;" in page
    markdown = (tmp_path / "out" / "report.md").read_text()
    # Markdown shows a fenced block as it is, so markup in a command line stays text there.
    outside = "\n".join(markdown.split("```")[::2])
    assert "<script>" not in outside and "<img" not in outside and "\\|" in outside


def test_the_schema_command_prints_and_lists() -> None:
    listed = run_command("schema").out.split("\n")
    assert "audit" in listed and "study scaling" in listed and "compare" in listed
    printed = run_command("schema", "study", "scaling")
    assert json.loads(printed.out)["title"] == "results.json of leakscope study scaling"
    refused = run_command("schema", "dream")
    assert refused.exit_code == 2 and "choose from audit" in refused.err
