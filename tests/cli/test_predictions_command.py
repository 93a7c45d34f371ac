"""`leakscope audit --predictions`: a csv as people have it, a gate, and no line of code."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from leakscope.evaluate.remedies import Remedy
from leakscope.evaluate.results import AuditResults
from tests.cli.command import run_command
from tests.cli.test_mistakes import check_refused

N = 400


def scores(path: Path, leak: float = 2.0, swapped: bool = False) -> Path:
    """P(churned) of a model that is surer of its members, as a European spreadsheet exports it."""
    rng = np.random.default_rng(0)
    churned, is_member = np.arange(N) % 2 == 1, rng.random(N) < 0.5
    margin = rng.normal(1, 1, N) + leak * is_member
    p = 1 / (1 + np.exp(np.where(churned != swapped, -margin, margin)))
    frame = pl.DataFrame(
        {
            "customer": [f"K{i}" for i in range(N)],
            "churn": np.where(churned, "churned", "stayed"),
            "p_churned": [f"{value:.6f}".replace(".", ",") for value in p],
            "set": np.where(is_member, "Train", "Test"),
        }
    )
    frame.write_csv(path, separator=";")
    return path


COLUMNS = ("--label", "churn", "--id", "customer", "--member", "set")


def test_a_spreadsheet_export_is_audited_at_the_first_attempt(tmp_path: Path) -> None:
    path = scores(tmp_path / "scores.csv")
    done = run_command(
        "audit", "--predictions", path, *COLUMNS, "--out", tmp_path / "run", "--max-auc", "0.6"
    )
    assert done.exit_code == 1, done
    text = " ".join(done.out.split())
    assert (
        "Read scores.csv: labels from 'churn'; probabilities of 'churned' from 'p_churned'; "
        "members from 'set'; ids from 'customer'." in text
    )
    assert "Gate failed: the AUC is at least" in text
    table = pl.read_parquet(tmp_path / "run" / "records.parquet")
    assert set(table["label"]) == {"churned", "stayed"} and table["id"][0].startswith("K")
    page = (tmp_path / "run" / "report.html").read_text()
    for option in ("--label churn", "--member set", "--id customer"):
        assert option in page
    assert run_command("verify", tmp_path / "run").exit_code == 0


def test_nothing_is_said_to_train_where_nothing_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bars: list[bool] = []

    @contextmanager
    def progress(n_models: int, out: Path, shown: bool) -> Iterator[Callable[[float], None]]:
        bars.append(shown)
        yield lambda models: None

    monkeypatch.setattr("leakscope.cli.audit.training_progress", progress)
    path = scores(tmp_path / "scores.csv")
    run_command("audit", "--predictions", path, *COLUMNS, "--out", tmp_path / "run")
    assert bars == [False]


def test_another_reading_of_the_file_starts_over_with_fresh(tmp_path: Path) -> None:
    """As after a column was forgotten; the message names the option that is there for it."""
    path, out = scores(tmp_path / "scores.csv"), ("--out", tmp_path / "run")
    assert run_command("audit", "--predictions", path, *COLUMNS[:2], *COLUMNS[4:], *out).exit_code == 0
    refused = run_command("audit", "--predictions", path, *COLUMNS, *out)
    assert refused.exit_code == 2
    assert "remove this one (`leakscope audit --fresh` does, fresh=True in Python)" in refused.err
    assert run_command("audit", "--predictions", path, *COLUMNS, *out, "--fresh").exit_code == 0


def test_limits_on_the_command_line_come_before_those_of_a_config(tmp_path: Path) -> None:
    path = scores(tmp_path / "scores.csv")
    config = tmp_path / "my.toml"
    config.write_text(
        "[predictions]\nfile = 'scores.csv'\nlabel = 'churn'\nid = 'customer'\nmember = 'set'\n"
        "[gate]\nmax_auc = 0.6\n"
    )
    options = ("--quiet", "--out", tmp_path / "run", "--fpr", "0.1")
    assert run_command("audit", config, *options).exit_code == 1
    loose = ("--max-auc", "1", "--max-advantage", "1", "--max-tpr", "0.1:1")
    held = run_command("audit", config, *options, *loose)
    assert held.exit_code == 4, held  # within the limits, but without reference models
    assert "an audit without reference models is too weak" in held.err
    gate = json.loads((tmp_path / "run" / "results.json").read_text())["gate"]
    assert [limit["limit_on"] for limit in gate["limits"]] == ["max_auc", "max_advantage", "max_tpr"]
    assert path.exists()


def test_no_name_of_a_column_or_class_becomes_a_part_of_the_page(tmp_path: Path) -> None:
    script = "<img src=x onerror=alert(1)>"
    frame = pl.read_csv(scores(tmp_path / "scores.csv"), separator=";")
    frame = frame.with_columns(pl.col("churn").str.replace("churned", script, literal=True))
    frame.rename({"churn": f"label{script}", "customer": f"{script}id"}).write_csv(tmp_path / "hostile.csv")
    done = run_command(
        "audit", "--predictions", tmp_path / "hostile.csv", "--label", f"label{script}", "--member", "set",
        "--prob", "p_churned", "--classes", script, "--out", tmp_path / "run",
    )  # fmt: skip
    assert done.exit_code == 0, done
    page, markdown = ((tmp_path / "run" / name).read_text() for name in ("report.html", "report.md"))
    assert "<img src=x" not in page and "&lt;img src=x" in page
    assert "<img src=x" not in markdown


def test_swapped_labels_are_no_verdict(tmp_path: Path) -> None:
    """The column's name says which class it is about, so nothing was assumed; the check of accuracy fails."""
    path = scores(tmp_path / "scores.csv", swapped=True)
    done = run_command(
        "audit", "--predictions", path, *COLUMNS, "--out", tmp_path / "run", "--max-auc", "0.6"
    )
    assert done.exit_code == 4, done
    assert "worse than always naming the most frequent class" in " ".join(done.out.split())


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), ("has no column label", "--label", "customer, churn, p_churned, set")),
        (("--label", "churn"), ("does not say who is a member", "--member")),
        (("--label", "churn", "--member", "customer"), ("customer holds 'K0'", "train or test")),
        ((*COLUMNS, "--max-auc", "60"), ("max_auc=60", "from 0 to 1")),
        ((*COLUMNS, "--max-tpr", "0.05"), ("max_tpr='0.05'", "0.01:0.05")),
        ((*COLUMNS, "--prob", "p_churned", "--logit", "x"), ("--prob and logit exclude each other",)),
        ((*COLUMNS, "--models", "8"), ("models would do nothing",)),
    ],
)
def test_each_mistake_is_one_line(tmp_path: Path, arguments: tuple[str, ...], named: tuple[str, ...]) -> None:
    path = scores(tmp_path / "scores.csv")
    check_refused(tmp_path, ("audit", "--predictions", path, *arguments, "--out", tmp_path / "run"), *named)


def test_columns_belong_to_predictions_not_to_a_config(tmp_path: Path) -> None:
    config = tmp_path / "my.toml"
    config.write_text("[data]\ndataset = 'digits'\n")
    check_refused(
        tmp_path, ("audit", config, "--label", "x"), "--label would do nothing", "belong to --predictions"
    )


def test_a_plan_reads_the_same_columns(tmp_path: Path) -> None:
    path = scores(tmp_path / "scores.csv")
    planned = run_command("plan", "--predictions", path, *COLUMNS)
    assert planned.exit_code == 0, planned
    assert "Nothing is trained" in planned.out


@pytest.mark.parametrize("n_references", [6, 8])
def test_references_that_saw_no_record_are_enough_for_an_audit(tmp_path: Path, n_references: int) -> None:
    rng = np.random.default_rng(0)
    labels, is_member = np.arange(N) % 2, rng.random(N) < 0.5
    margins = rng.normal(1, 1, N) + rng.normal(0, 1, (1 + n_references, N))
    margins[0] += 2 * is_member
    logits = np.zeros((1 + n_references, N, 2))
    logits[:, np.arange(N), labels] = margins
    np.savez(
        tmp_path / "outputs.npz",
        labels=labels,
        is_member=is_member,
        logits=logits[0],
        reference_logits=logits[1:],
        reference_members=np.zeros((n_references, N), dtype=bool),
    )
    out = tmp_path / "run"
    done = run_command("audit", "--predictions", tmp_path / "outputs.npz", "--out", out, "--gate", "release")
    assert done.exit_code == 1, done
    assert "Not measurable, most exposed 1%: choosing them takes" in done.out
    results = json.loads((out / "results.json").read_text())
    assert results["rating"]["level"] in ("moderate", "high", "severe")
    assert run_command("verify", out).exit_code == 0


@pytest.mark.parametrize("shown", [(), ("--with-membership",)])
def test_the_screen_announces_the_advice_that_the_report_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: tuple[str, ...]
) -> None:
    """Rounded figures may call for other advice than exact ones."""
    rounded: list[bool] = []

    def advice(results: AuditResults) -> list[Remedy]:
        rounded.append(results.is_rounded)
        return [Remedy("models", "Few.", "Train more.", "", "Time.")] * results.is_rounded

    monkeypatch.setattr("leakscope.evaluate.remedies.remedies", advice)
    monkeypatch.setattr("leakscope.audits.report.page_remedies.remedies", advice)
    path = scores(tmp_path / "scores.csv")
    done = run_command("audit", "--predictions", path, *COLUMNS, "--out", tmp_path / "run", *shown)
    assert done.exit_code == 0, done
    page = (tmp_path / "run" / "report.html").read_text()
    assert rounded and set(rounded) == {not shown}
    assert ("of the report advises more models." in done.out) == ("<h3>Models" in page) == (not shown)
