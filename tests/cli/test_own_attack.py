"""An attack of a stranger, in one file outside the repository: it works wherever an attack may be named."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import leakscope
from leakscope.errors import InputError
from tests.audits.test_predictions import saved
from tests.cli.command import Outcome, run_command
from tests.cli.test_mistakes import check_refused
from tests.engine.small_population import RECIPE, records
from tests.quick_audits import short_trials

MARGIN = '''
"""The stranger's attack: the log-odds to a power."""
from dataclasses import dataclass

import numpy as np

from leakscope import Attack


@dataclass(frozen=True)
class Margin(Attack):
    power: int = 1

    name = "margin"
    needs = ("log_odds",)

    def run(self, signals, design, targets, scores):
        log_odds = signals.last("log_odds")[targets]
        scores[:] = np.sign(log_odds) * np.abs(log_odds) ** self.power
'''
READER = """
from dataclasses import dataclass
from leakscope import Attack


@dataclass(frozen=True)
class Reader(Attack):
    name = "reader"
    needs = ("loss",)

    def score(self, block):
        return block.of_targets("log_odds")
"""
CONFIG = """
[data]
dataset = "digits"
[model]
net = "linear"
[training]
epochs = 1
[population]
models = 2
device = "cpu"
[attacks]
names = {names}
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with `strange_margin.py`, which is neither installed nor the current folder."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "strange_margin.py").write_text(MARGIN)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield folder
    for name in [name for name in sys.modules if name.startswith("strange_")]:
        del sys.modules[name]


def predictions(folder: Path) -> Path:
    given, path = saved(), folder / "mine.npz"
    np.savez(path, logits=given.logits, labels=given.labels, is_member=given.is_member)
    return path


def attacks_of(done: Outcome) -> list[str]:
    assert done.exit_code == 0, done
    return list(json.loads(done.out)["attacks"])


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        ('["strange_margin:Margin"]', ["margin"]),
        ('["loss", "strange_margin:Margin(power=3)"]', ["loss", "margin(power=3)"]),
        ('[{ name = "strange_margin:Margin", power = 2 }]', ["margin(power=2)"]),
    ],
)
def test_a_config_file_names_it(
    tmp_path: Path, module: Path, names: str, labels: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    short_trials(monkeypatch)
    config = module / "theirs.toml"
    config.write_text(CONFIG.format(names=names))
    assert attacks_of(run_command("audit", config, "--out", tmp_path / "run", "--json")) == labels
    assert run_command("verify", tmp_path / "run", "-q") == (0, "", "")
    assert f"| {labels[-1]} |" in (tmp_path / "run" / "report.md").read_text()
    assert run_command("plan", config, "--quiet").exit_code == 0


def test_the_command_line_names_it(tmp_path: Path, module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(module)
    attacks = ("--attacks", "strange_margin:Margin(power=2),loss", "--json")
    saved_file, run = predictions(tmp_path), tmp_path / "run"
    labels = ["margin(power=2)", "loss"]
    assert attacks_of(run_command("audit", "--predictions", saved_file, "--out", run, *attacks)) == labels
    assert run_command("verify", run, "-q") == (0, "", "")
    (module / "theirs.toml").write_text(CONFIG.format(names='["loss"]'))
    done = run_command("audit", module / "theirs.toml", "--out", tmp_path / "trained", *attacks)
    assert attacks_of(done) == labels


def test_a_finished_run_is_judged_by_it(
    tmp_path: Path, module: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(module)
    run = tmp_path / "run"
    run_command("audit", "--predictions", predictions(tmp_path), "--out", run, "--quiet")
    before = json.loads((run / "results.json").read_text())["attacks"]
    done = run_command(
        "judge", run, "--attacks", "strange_margin:Margin,strange_margin:Margin(power=3)", "--json"
    )
    assert attacks_of(done) == [*before, "margin", "margin(power=3)"]
    figures = json.loads(done.out)["attacks"]
    assert {name: figures[name] for name in before} == before
    assert figures["margin"]["auc"] == figures["margin(power=3)"]["auc"]  # a monotone power ranks alike
    assert run_command("verify", run, "-q") == (0, "", "")


def test_python_takes_text_or_objects(tmp_path: Path, module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(module)
    monkeypatch.syspath_prepend(str(module))
    from strange_margin import Margin  # type: ignore[import-not-found]

    settings = {"models": 4, "device": "cpu"}
    text = leakscope.audit(
        records(), RECIPE, tmp_path / "a", attacks=["strange_margin:Margin(power=2)"], **settings
    )
    objects = leakscope.audit(records(), RECIPE, tmp_path / "b", attacks=[Margin(power=2)], **settings)
    assert text.results == objects.results
    assert text.results.config.attacks == ("strange_margin:Margin(power=2)",)
    run = leakscope.open_run(tmp_path / "a")
    np.testing.assert_array_equal(
        run.scores(Margin(2)).values, run.scores("strange_margin:Margin(power=2)").values
    )
    assert list(run.judge(Margin()).results.attacks) == ["margin(power=2)", "margin"]
    of_predictions = leakscope.audit(
        leakscope.SavedPredictions(saved()), out=tmp_path / "c", attacks=[Margin()]
    )
    assert list(of_predictions.results.attacks) == ["margin"]


def test_a_run_whose_attack_is_gone_names_it(
    tmp_path: Path, module: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(module)
    run = tmp_path / "run"
    attacks = ("--attacks", "strange_margin:Margin", "--quiet")
    run_command("audit", "--predictions", predictions(tmp_path), "--out", run, *attacks)
    (module / "strange_margin.py").unlink()
    del sys.modules["strange_margin"]
    done = run_command("verify", run)
    assert done.exit_code == 3
    assert "attack='strange_margin:Margin': the run names code of its own" in done.err
    assert "name the folder that holds it in the environment variable PYTHONPATH" in done.err


BROKEN: dict[str, tuple[str, tuple[str, ...]]] = {
    "no dataclass": (MARGIN.replace("@dataclass(frozen=True)\n", ""), ("@dataclass(frozen=True)",)),
    "a mutable default": (
        MARGIN.replace("power: int = 1", "powers: list = []"),
        ("cannot be imported", "mutable default", "default_factory"),
    ),
    "no name": (MARGIN.replace('    name = "margin"\n', ""), ("`name`",)),
    "no needs": (MARGIN.replace('    needs = ("log_odds",)\n', ""), ("`needs`",)),
    "needs in text": (
        MARGIN.replace('("log_odds",)', '"log_odds"'),
        ("needs",),
    ),
    "an unknown signal": (MARGIN.replace("log_odds", "gossip"), ("gossip",)),
    "no run": (MARGIN.replace("def run(", "def attack("), ("Margin", "run")),
    "no attack": (MARGIN.replace("class Margin(Attack)", "class Margin"), ("not a subclass of",)),
    "a syntax error": (MARGIN + "\nclass:\n", ("cannot be imported", "invalid syntax")),
    "an error on import": (MARGIN + "\n1 / 0\n", ("cannot be imported", "division by zero")),
    "another name": (MARGIN.replace("class Margin", "class Edge"), ("has no attribute 'Margin'",)),
}  # fmt: skip


@pytest.mark.parametrize("command", ["audit", "plan"])
@pytest.mark.parametrize(("code", "named"), BROKEN.values(), ids=BROKEN)
def test_what_is_no_attack_is_refused_with_the_remedy(
    module: Path, code: str, named: tuple[str, ...], command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (module / "strange_margin.py").write_text(code)
    (module / "theirs.toml").write_text(CONFIG.format(names='["strange_margin:Margin"]'))
    check_refused(module, (command, module / "theirs.toml"), *named)


def test_a_signal_that_an_attack_reads_but_does_not_name_is_one_line(tmp_path: Path, module: Path) -> None:
    (module / "strange_reader.py").write_text(READER)
    config = tmp_path / "config.toml"
    config.write_text(CONFIG.format(names='["strange_reader:Reader"]'))
    sys.path.insert(0, str(module))
    done = run_command("audit", config, "--out", tmp_path / "run")
    said = "the attack reads the signal 'log_odds', but its `needs` has loss; add it there"
    assert done.exit_code == 2 and f"leakscope: {said}\n" in done.err


def test_two_attacks_with_one_name_are_refused(tmp_path: Path, module: Path) -> None:
    (module / "strange_other.py").write_text(MARGIN.replace('name = "margin"', 'name = "lira"'))
    (module / "theirs.toml").write_text(CONFIG.format(names='["lira", "strange_other:Margin"]'))
    refused = run_command("audit", module / "theirs.toml", "--out", tmp_path / "run")
    assert refused.exit_code == 2
    assert "two different attacks are called 'lira'; rename one" in refused.err


def test_options_are_checked(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(module)
    for text, named in (
        ("strange_margin:Margin(power=high)", "power='high'"),
        ("strange_margin:Margin(powr=2)", "unknown option powr"),
        ("strange_margin:Margin(power)", "'power' is not `option=value`"),
        ("strange_margin:Margin(power=2", "the bracket is not closed"),
    ):
        with pytest.raises(InputError) as error:
            leakscope.audit(records(), RECIPE, module / "run", attacks=[text])
        assert named in str(error.value)
