"""The command in the report repeats the audit: every option that matters is in it."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Iterator
from dataclasses import fields
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from leakscope.cli.audit import audit
from leakscope.data.prediction_roles import PredictionColumns
from leakscope.report.page import PAGE, REDACTED_PAGE
from tests.cli.command import run_command
from tests.quick_audits import quick_audits

CONFIG = """
[data]
file = "visits.csv"
label = "label"
[training]
epochs = 1
[population]
device = "cpu"
"""
OF_TRAINED = (
    "--models 8 --unit patient --queries 2 --attacks eb_lira(queries=all) --fpr 0.25,0.01 --redact "
    "--gate internal --max-auc 0.9 --max-advantage 0.5 --max-tpr 0.25:0.9"
)
OF_PREDICTIONS = (
    "--predictions saved.csv --label truth --id who --member seen --prob yes --classes 1 "
    "--model-column net --target ours --attacks loss --fpr 0.25 --with-membership"
)
ARGUMENT = {"config"}
NOT_IN_THE_RESULTS = {
    "out", "engine", "address", "data_dir", "reuse", "fresh", "track", "junit", "summary", "quiet", "as_json",
}  # fmt: skip
ELSEWHERE = {
    "claim",
    "logit",
    "prediction",
}  # exclude others; test_shell.py has the claim, the end of this file the rest


@pytest.fixture(autouse=True, scope="module")
def only_quick_audits() -> Iterator[None]:
    with quick_audits():
        yield


def words_of_the_command(page: Path) -> list[str]:
    """The options of the command, with their values."""
    (command,) = re.findall(r"<code>(leakscope audit .*?)</code>", unescape(page.read_text()))
    return shlex.split(command)


def options_in(text: str) -> set[str]:
    return {word[2:].replace("-", "_") for word in text.split() if word.startswith("--")}


def test_every_option_of_an_audit_is_given_below_or_cannot_change_the_results() -> None:
    given = options_in(OF_TRAINED) | options_in(OF_PREDICTIONS)
    of_command = {"id" if name == "id_column" else name for name in inspect.signature(audit).parameters}
    assert of_command == given | ARGUMENT | NOT_IN_THE_RESULTS | ELSEWHERE


def test_an_audit_that_trains_is_repeated_with_all_of_its_options(tmp_path: Path) -> None:
    rows = [f"p{i // 3},{i * 37 % 11},{i * 53 % 7},{i % 2}\n" for i in range(60)]
    (tmp_path / "visits.csv").write_text("patient,a,b,label\n" + "".join(rows))
    config = tmp_path / "a.toml"
    config.write_text(CONFIG)
    out = tmp_path / "run"
    done = run_command("audit", config, "--out", out, "--quiet", *OF_TRAINED.split())
    assert (out / REDACTED_PAGE).exists(), done.err
    assert words_of_the_command(out / REDACTED_PAGE) == [
        "leakscope",
        "audit",
        "audit.toml",
        *OF_TRAINED.split(),
    ]


def test_an_audit_of_predictions_is_repeated_with_all_of_its_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    rows = [
        f"{net},r{i},{i % 2},{rng.random():.3f},{rng.integers(2)}\n"
        for net in ("ours", "first", "second")
        for i in range(40)
    ]
    monkeypatch.chdir(tmp_path)
    Path("saved.csv").write_text("net,who,truth,yes,seen\n" + "".join(rows))
    done = run_command("audit", "--out", "run", "--quiet", *OF_PREDICTIONS.split())
    assert done.exit_code == 0, done.err
    given = OF_PREDICTIONS.split()
    words = words_of_the_command(Path("run") / PAGE)
    assert sorted(words[2:]) == sorted(given)
    again = run_command(*words[1:], "--out", "again", "--quiet")
    assert again.exit_code == 0, again.err
    assert Path("again/results.json").read_bytes() == Path("run/results.json").read_bytes()


def test_every_column_that_was_named_is_known() -> None:
    for field in fields(PredictionColumns):
        value = ("x",) if field.default == () else "x"
        assert PredictionColumns(**{field.name: value}).given == {field.name: value}  # type: ignore[arg-type]
