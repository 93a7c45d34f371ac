"""The dynamics study: presets, what it writes, own attacks, one checkpoint, several settings."""

from __future__ import annotations

import importlib
import json
from dataclasses import fields
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from leakscope.attacks.lira import Lira
from leakscope.bank.bank import Bank
from leakscope.bank.results import results_json, results_schema
from leakscope.bank.run_folder import to_jsonable
from leakscope.dynamics.decisions import decide
from leakscope.dynamics.metrics import Metrics, metrics
from leakscope.dynamics.plane import trajectories
from leakscope.errors import InputError
from leakscope.runs.verification import verify_run
from leakscope.studies.dynamics.records import bank_folder
from leakscope.studies.dynamics.results import DynamicsResults, RunResults
from leakscope.studies.dynamics.settings import PRESETS, DynamicsConfig, Setting, config_of
from leakscope.studies.dynamics.study import KIND, populations, recompute, run
from tests.cli.command import run_command
from tests.quick_audits import whole_audits

pytestmark = pytest.mark.slow

SMALL = {"models": 8, "universe": 200, "epochs": 6, "every": 2, "batch_size": 32}
TINY = {**SMALL, "models": 4, "universe": 60, "epochs": 4}
OVER_TIME = {"trajectories", "centre_of_mass", "over_epochs", "transitions", "early_exposure"}

Study = tuple[DynamicsResults, Path]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """One small setting with everything it writes."""
    out = tmp_path_factory.mktemp("study") / "run"
    with whole_audits():
        results = run(config_of(**SMALL), out, device="cpu")
    assert results_json(results) == json.loads((out / "results.json").read_text())
    return results, out


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Two populations with SGD, one with SAM."""
    out = tmp_path_factory.mktemp("study") / "compared"
    settings = tuple(
        Setting(**{**SMALL, "every": 3, "models": 4}, optimizer=optimizer, population=k)
        for optimizer, k in (("sgd", 0), ("sgd", 1), ("sam", 0))
    )
    return run(DynamicsConfig(settings, n_permutations=1), out, device="cpu"), out


def only_run(results: DynamicsResults) -> RunResults:
    (single,) = results.runs.values()
    return single


def test_the_figures_are_those_of_the_bank(study: Study) -> None:
    results, out = study
    bank = Bank.open(bank_folder(out, results.config.settings[0]))
    signals, design = bank.signals(), bank.design()
    expected = metrics(trajectories(decide(Lira(), signals, design), design.in_mask))
    single = only_run(results)
    assert single.epochs == (2, 4, 6)
    assert [field.name for field in fields(Metrics)] == list(vars(expected))
    for name, values in vars(expected).items():
        assert to_jsonable(getattr(single.figures, name).value) == to_jsonable(values), name
    counts = np.array(single.transitions.counts)
    np.testing.assert_array_equal(counts.sum(axis=(1, 2)), [200, 200])
    members, nonmembers = single.accuracy.members[-1], single.accuracy.nonmembers[-1]
    assert members is not None and nonmembers is not None and members > nonmembers - 0.05


def test_every_figure_has_a_floor_and_a_standard_error(study: Study) -> None:
    single = only_run(study[0])
    for field in fields(Metrics):
        figure = getattr(single.figures, field.name)
        for part in (figure.standard_error, figure.floor.mean, figure.floor.low, figure.floor.high):
            assert np.shape(part) == np.shape(figure.value), field.name
    at_the_end = single.figures.vulnerable.last
    assert at_the_end.floor.mean is not None and at_the_end.floor.mean > 0
    assert single.advantage.method == "jackknife over 8 groups of 8 models"
    assert {"epistemic", "el2n", "loss_trace_spread"} <= set(single.hardness)
    assert "epistemic_dropout" not in single.hardness  # without dropout, all passes are equal


def test_results_fit_a_schema_that_describes_every_field(study: Study, compared: Study) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    schema = results_schema(DynamicsResults, KIND)
    validator = jsonschema.Draft202012Validator(schema)
    for _, out in (study, compared):
        validator.validate(json.loads((out / "results.json").read_text()))
    for name, definition in [*schema["$defs"].items(), ("results", schema)]:
        assert definition["additionalProperties"] is False, name
        for field, described in definition["properties"].items():
            assert described.get("description"), f"{name}.{field}"


def test_report_figures_and_record_table(study: Study) -> None:
    results, out = study
    drawn = {path.stem for path in (out / "figures").glob("*.png")}
    assert drawn == OVER_TIME | {"plane", "hardness"}
    report = (out / "report.md").read_text()
    assert all(f"figures/{name}.png" in report for name in drawn)
    assert all(text in report for text in results.conventions.values())
    table = pl.read_parquet(out / "records.parquet")
    assert len(table) == 200
    assert table["id"][0] == "digits-0000"
    figures = only_run(results).figures
    assert table["vulnerable"].mean() == pytest.approx(figures.vulnerable.value[-1])
    assert table["advantage"].mean() == pytest.approx(figures.advantage.value[-1])
    ever = table.filter(pl.col("vulnerable"))["first_exposed_epoch"]
    assert set(ever.unique()) <= {2, 4, 6}
    assert "hardness_forgetting_events" in table.columns


def test_it_verifies_and_a_changed_number_does_not(study: Study) -> None:
    results, out = study
    assert verify_run(out).problems == []
    assert results_json(recompute(out, results.config)) == results_json(results)
    stored = (out / "results.json").read_text()
    changed = json.loads(stored)
    next(iter(changed["runs"].values()))["figures"]["peak_entry"]["value"] = 0.5
    try:
        (out / "results.json").write_text(json.dumps(changed))
        assert "peak_entry" in verify_run(out).problems[0]
    finally:
        (out / "results.json").write_text(stored)


def test_one_checkpoint_gives_the_final_plane_and_says_so(tmp_path: Path) -> None:
    out = tmp_path / "run"
    options = ("--models", "4", "--universe", "60", "--epochs", "2", "--every", "5", "--no-logits")
    done = run_command("study", "dynamics", *options, "--device", "cpu", "--out", out)
    assert done.exit_code == 0, done.err
    assert "a single checkpoint, so only the final plane is known" in done.out
    assert {path.stem for path in (out / "figures").glob("*.png")} == {"plane", "hardness"}
    (single,) = json.loads((out / "results.json").read_text())["runs"].values()
    assert single["epochs"] == [2]
    assert single["figures"]["peak_entry"]["value"] is None
    assert single["figures"]["net_displacement"]["value"] is None
    assert verify_run(out).problems == []


def test_any_attack_decides_at_an_fpr_and_the_convention_is_stored(tmp_path: Path) -> None:
    config = config_of(attack="calibrated", fpr=0.2, **{**SMALL, "universe": 100, "epochs": 2})
    results = run(config, tmp_path / "run", device="cpu")
    assert "calibrated" in results.conventions["decision"]
    assert "20.00% FPR" in results.conventions["decision"]
    assert only_run(results).figures.centre.value[-1][0] == pytest.approx(0.2, abs=0.02)
    assert verify_run(tmp_path / "run").problems == []


OWN_ATTACK = """
from dataclasses import dataclass

from leakscope.attacks.base import Attack


@dataclass(frozen=True)
class Certainty(Attack):
    name = "certainty"
    needs = ("entropy",)
    sign: int = -1

    def run(self, signals, design, targets, scores):
        scores[:] = self.sign * signals.last("entropy")[targets]


@dataclass(frozen=True)
class Ratio(Certainty):
    name = "ratio"

    @property
    def is_log_ratio(self):
        return True
"""


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module with attacks in the current folder, outside the package."""
    (tmp_path / "own_dynamics_attacks.py").write_text(OWN_ATTACK)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "own_dynamics_attacks"


@pytest.mark.slow
def test_an_own_attack_decides_from_the_command_line(own_module: str, tmp_path: Path) -> None:
    sizes = [text for name, value in TINY.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    attack = ("--attack", f"{own_module}:Certainty(sign=-2)", "--fpr", "0.2")
    done = run_command("study", "dynamics", *sizes, *attack, "--no-logits", "--device", "cpu", "--out", "run")
    assert done.exit_code == 0, done.err
    assert verify_run(tmp_path / "run").problems == []
    stored = json.loads((tmp_path / "run" / "results.json").read_text())
    assert stored["config"]["attack"] == f"{own_module}:Certainty(sign=-2)"
    bank = Bank.open(tmp_path / "run" / "banks" / "digits-mlp-sgd")
    assert "entropy" in bank.signals().arrays


def test_an_own_attack_decides_from_python_and_declares_its_rule(own_module: str, tmp_path: Path) -> None:
    module = importlib.import_module(own_module)
    with pytest.raises(InputError, match=r"'certainty': its score is not a log likelihood ratio.*--fpr"):
        config_of(attack=module.Certainty(), **TINY)
    results = run(config_of(attack=module.Ratio(), **TINY), tmp_path / "run", device="cpu")
    assert results.config.attack == f"{own_module}:Ratio"
    assert "log ratio > 0" in results.conventions["decision"]
    assert only_run(results).figures.centre.value[-1] == (0.0, 0.0)  # an entropy is not negative


def test_several_settings_end_in_one_comparison(compared: Study) -> None:
    results, out = compared
    assert list(results.runs) == ["digits-mlp-sgd", "digits-mlp-sgd-population1", "digits-mlp-sam"]
    report = (out / "report.md").read_text()
    assert "## Published claims" in report
    assert "no results of wide_resnet on cifar10 with sgd" in report
    assert (out / "figures" / "comparison.png").exists()
    assert (out / "figures" / "digits-mlp-sam" / "plane.png").exists()
    assert pl.read_parquet(out / "records.parquet")["run"].n_unique() == 3


def test_populations_are_independent_and_compared(compared: Study) -> None:
    results, _ = compared
    (first_records, first), (second_records, second), *_ = populations(results.config)
    assert first_records.digest == second_records.digest
    assert (first.in_mask != second.in_mask).any()
    assert list(results.populations) == ["digits-mlp-sgd"]
    spread = results.populations["digits-mlp-sgd"]
    ends = [results.runs[name].figures.advantage.value[-1]
            for name in ("digits-mlp-sgd", "digits-mlp-sgd-population1")]  # fmt: skip
    assert spread.standard_error.advantage[-1] == pytest.approx(np.std(np.array(ends, float), ddof=1))
    assert spread.advantage.method == "2 independent populations"


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_a_valid_configuration(preset: str) -> None:
    for setting in config_of(preset).settings:
        assert setting.models == 20
        assert setting.recipe().evaluated_epochs[-1] == setting.epochs


def test_the_published_preset_is_the_baseline_of_the_publication() -> None:
    (setting,) = config_of("published").settings
    recipe = setting.recipe()
    assert (setting.dataset, recipe.net, dict(recipe.net_options)) == (
        "cifar10", "wide_resnet", {"depth": 28, "widen": 2},
    )  # fmt: skip
    assert recipe.checkpoints == tuple(range(10, 401, 10))
    assert (recipe.optimizer, recipe.flips, recipe.crop) == ("adamw", True, 4)


def test_sam_is_sgd_with_a_radius() -> None:
    sgd, sam = (Setting(optimizer=optimizer).recipe() for optimizer in ("sgd", "sam"))
    assert (sam.optimizer, sam.sam_rho, sgd.sam_rho) == ("sgd", 0.05, 0.0)
    assert (sgd.momentum, sgd.nesterov, sgd.lr, sgd.weight_decay) == (0.9, True, 0.1, 5e-4)
    assert Setting(optimizer="adamw").recipe().lr == 0.001
    assert Setting(optimizer="adamw", lr=0.2).recipe().lr == 0.2


def test_own_code_is_shortened_in_the_name_of_a_run() -> None:
    setting = Setting(dataset="my_package.data:people", net="my_package.nets:small", population=1)
    assert setting.name == "people-small-sgd-population1"


def test_checkpoints_end_at_the_last_epoch() -> None:
    assert Setting(epochs=10, every=4).checkpoints == (4, 8, 10)
    assert Setting(epochs=10, every=5).checkpoints == (5, 10)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--preset", "slow"), "preset='slow': choose one of quick, mnist"),
        (("--preset", "optimizers", "--dataset", "digits", "--optimizer", "sgd"), "same name"),
        (("--models", "7"), "models=7: must be even"),
        (("--optimizer", "adam"), "optimizer='adam': choose one of sgd, adamw, sam"),
        (("--universe", "5000"), "universe=5,000 is more than the 1,797 records"),
        (("--attack", "rmia"), "attack='rmia': its score is not a log likelihood ratio"),
        (("--attack", "rmio", "--fpr", "0.1"), "attack='rmio' is unknown; did you mean 'rmia'?"),
        (("--attack", "shokri", "--fpr", "0.1", "--no-logits"), "attack='shokri' needs the logits"),
        (
            ("--attack", "lira(online=false)"),
            "attack='lira(online=false)': its score is not a log likelihood",
        ),
        (("--attack", "no_such_module:Attack"), "attack='no_such_module:Attack' cannot be imported"),
        (("--fpr", "1.5"), "fpr=1.5"),
        (("--every", "0"), "every=0: must be at least 1"),
        (("--populations", "0"), "populations=0"),
        (("--precision", "float8"), "precision='float8'"),
        (("--net", "cnn"), "must be images"),
    ],
)
def test_mistakes_end_in_one_line_before_anything_is_written(
    options: tuple[str, ...], complaint: str, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    done = run_command("study", "dynamics", *options, "--device", "cpu", "--out", out)
    assert done.exit_code == 2
    assert complaint in done.err
    assert not out.exists()


def test_a_seed_below_zero_is_refused() -> None:
    with pytest.raises(InputError, match="seed=-1"):
        Setting(seed=-1)


def test_gradient_norms_of_retrained_models_join_the_hardness(study: Study, compared: Study) -> None:
    results, out = study  # the quick preset retrains some models
    (stored,) = (out / "gradients").iterdir()
    norms = np.load(stored)
    assert norms.shape == (PRESETS["quick"][0].gradient_models, 3, 200)
    assert {"grand", "tracin"} <= set(only_run(results).hardness)
    columns = pl.read_parquet(out / "records.parquet")
    in_mask = Bank.open(bank_folder(out, results.config.settings[0])).design().in_mask[:4]
    rates = [0.1 * (1 + np.cos(np.pi * (epoch - 1) / 6)) / 2 for epoch in (2, 4, 6)]
    one_model = np.einsum("t,mtr->mr", rates, norms.astype(np.float64) ** 2)
    of_members = np.where(
        in_mask.any(0), (one_model * in_mask).sum(0) / np.maximum(in_mask.sum(0), 1), np.nan
    )
    ratio = columns["hardness_tracin"].to_numpy() / of_members
    np.testing.assert_allclose(ratio[in_mask.any(0)], np.nanmedian(ratio), rtol=1e-5)
    assert all("grand" not in run.hardness for run in compared[0].runs.values())
    with pytest.raises(InputError, match="gradient_models=9: must be from 0 to"):
        Setting(**SMALL, gradient_models=9)
