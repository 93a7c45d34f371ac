"""What `leakscope plan` prints, and that it leaves nothing behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from leakscope.models.nets import mlp
from tests.cli.command import files_under, run_command
from tests.cli.test_mistakes import check_refused
from tests.quick_audits import short_trials

CONFIG = """
[data]
dataset = "digits"
[model]
options = {width = 4}
[training]
epochs = 2
[population]
models = 8
device = "cpu"
[attacks]
names = ["loss", "lira"]
fpr = [0.01, 0.0001]
"""


@pytest.fixture(autouse=True)
def quick_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    short_trials(monkeypatch)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.toml"
    path.write_text(CONFIG)
    return path


def test_words_come_first_then_the_table(config: Path) -> None:
    done = run_command("plan", config)
    assert (done.exit_code, done.err) == (0, "")
    text = " ".join(done.out.split())
    assert text.startswith("8 models on random halves of 1,797 records will take about")
    assert "the smallest measurable false positive rate (FPR) is 0.11%" in text
    assert "To resolve 0.01%, you need 10,000 non-members per model, about 20,000 records in all." in text
    assert text.index("To resolve") < text.index("trainer")
    assert "not resolvable" in text
    assert "Exposed records: not resolvable with 8 models: fewer than 514" in text
    assert list(files_under(config.parent)) == ["mine.toml"]


def test_a_given_model_is_the_only_target(config: Path) -> None:
    """No mean over targets is announced, and the given model is not counted among those to be trained."""
    torch.save(mlp((64,), 10, width=4).state_dict(), config.parent / "model.pt")
    (config.parent / "members.csv").write_text("\n".join(f"digits-{i:04d}" for i in range(800)))
    config.write_text(CONFIG + '[target]\nweights = "model.pt"\nmembers = "members.csv"\n')
    done = run_command("plan", config)
    assert done.err == ""
    text = " ".join(done.out.split())
    assert text.startswith("8 reference models, trained on random parts of 1,797 records, will take about")
    assert "The target has 997 non-members: the smallest" in text
    assert "To resolve 0.01%, you need 10,000 non-members." in text
    assert "all targets" not in text and "random halves" not in text


@pytest.mark.slow
def test_a_claim_has_its_budget(config: Path) -> None:
    text = " ".join(run_command("plan", config, "--claim", "4").out.split())
    assert "The claim of epsilon = 4 at delta = 1e-05 is testable" in text
    assert "it takes at least 170,000 models" in text
    assert "Training that many models takes about" in text
    check_refused(config.parent, ("plan", config, "--claim", "4,5,6"), "claim='4,5,6'")
    check_refused(config.parent, ("plan", config, "--claim", "0"), "must be above 0")


def test_json_is_the_whole_plan(config: Path) -> None:
    done = run_command("plan", config, "--json")
    planned = json.loads(done.out)
    parts = {"population", "cost", "resolution", "exposed", "undecidable", "suggested", "claim", "columns"}
    parts.add("unit")
    assert set(planned) == parts
    assert set(planned["cost"]) == {"training", "time", "memory", "disk"}
    assert planned["population"] == {"models": 8, "records": 1797, "members": 898, "nonmembers": 898}
    assert planned["cost"]["training"]["trainer"] == "dense"
    assert planned["cost"]["disk"]["signals"] == dict.fromkeys(("log_odds", "loss"), 128 + 8 * 1797 * 4)
    assert [bool(rate["reason"]) for rate in planned["resolution"]["rates"]] == [False, True]
    assert done.err == ""


def test_quiet_says_nothing(config: Path) -> None:
    assert run_command("plan", config, "--quiet") == (0, "", "")


def test_an_unfinished_run_is_left_as_it_is(config: Path) -> None:
    run = config.parent / "runs" / "mine" / "run.json"
    run.parent.mkdir(parents=True)
    run.write_text("somebody's")
    before = files_under(config.parent)
    assert run_command("plan", config, "--quiet").exit_code == 0
    assert files_under(config.parent) == before


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (CONFIG.replace("models = 8", "models = 7"), ("models=7", "even")),
        (CONFIG.replace("0.0001", "0.0"), ("fpr",)),
        (CONFIG.replace('"lira"', '"lyra"'), ("lyra", "choose from")),
        (CONFIG.replace('"cpu"', '"tpu"'), ("device='tpu'", "use 'auto'")),
        (CONFIG.replace("width = 4", "wide = 4"), ("net='mlp'", "wide")),
    ],
    ids=["odd", "no budget", "no attack", "no device", "no option"],
)
def test_mistakes_are_refused_as_by_an_audit(config: Path, content: str, named: tuple[str, ...]) -> None:
    config.write_text(content)
    check_refused(config.parent, ("plan", config), *named)


def test_a_missing_config_is_one_line(tmp_path: Path) -> None:
    check_refused(tmp_path, ("plan", tmp_path / "none.toml"), "none.toml", "does not exist")


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.04, "0.0 s"), (3.21, "3.2 s"), (95, "95 s"), (150, "2.5 min"), (90000, "25 h")]
)
def test_durations(seconds: float, shown: str) -> None:
    from leakscope.cli.plan import _duration

    assert _duration(seconds) == shown


@pytest.mark.parametrize(("n_bytes", "shown"), [(12, "12 bytes"), (1500, "1.5 kB"), (2.5e10, "25 GB")])
def test_sizes(n_bytes: float, shown: str) -> None:
    from leakscope.cli.plan import _size

    assert _size(n_bytes) == shown
