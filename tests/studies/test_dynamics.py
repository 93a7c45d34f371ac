"""The study of dynamics: presets, what it writes, one checkpoint, several settings and populations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from leakscope.attacks.lira import Lira
from leakscope.bank.bank import Bank
from leakscope.bank.run_folder import to_jsonable
from leakscope.dynamics.decisions import decide
from leakscope.dynamics.metrics import metrics
from leakscope.dynamics.plane import trajectories
from leakscope.errors import InputError
from leakscope.runs.verification import verify_run
from leakscope.studies.dynamics import figures as dynamics_figures
from leakscope.studies.dynamics.published import PUBLISHED, comparison
from leakscope.studies.dynamics.settings import PRESETS, DynamicsConfig, Setting, config_of
from leakscope.studies.dynamics.study import bank_folder, config_from, populations, recompute, run
from tests.cli.command import run_command

SMALL = {"models": 8, "universe": 200, "epochs": 6, "every": 2, "batch_size": 32}
OVER_TIME = {"trajectories", "centre_of_mass", "over_epochs", "transitions", "early_exposure"}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """One small setting with everything it writes."""
    out = tmp_path_factory.mktemp("study") / "run"
    results = run(config_of(**SMALL), out, device="cpu")
    assert results == json.loads((out / "results.json").read_text())
    return results, out


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """Two populations with SGD, one with SAM; of the figures only planes and the comparison."""
    out = tmp_path_factory.mktemp("study") / "compared"
    settings = tuple(
        Setting(**{**SMALL, "every": 3, "models": 4}, optimizer=optimizer, population=k)
        for optimizer, k in (("sgd", 0), ("sgd", 1), ("sam", 0))
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dynamics_figures, "_OVER_TIME", {})
        return run(DynamicsConfig(settings, n_permutations=1), out, device="cpu"), out


def test_the_figures_are_those_of_the_bank(study: tuple[dict[str, Any], Path]) -> None:
    results, out = study
    setting = config_from(results["config"]).settings[0]
    bank = Bank.open(bank_folder(out, setting))
    signals, design = bank.signals(), bank.design()
    expected = metrics(trajectories(decide(Lira(), signals, design), design.in_mask))
    (found,) = results["runs"].values()
    assert found["epochs"] == [2, 4, 6]
    for name, values in expected._asdict().items():
        assert found["figures"][name]["value"] == to_jsonable(values), name
    counts = np.array(found["transitions"]["counts"])
    np.testing.assert_array_equal(counts.sum(axis=(1, 2)), [200, 200])
    assert found["accuracy"]["members"][-1] > found["accuracy"]["nonmembers"][-1] - 0.05


def test_every_figure_has_a_floor_and_a_standard_error(study: tuple[dict[str, Any], Path]) -> None:
    (found,) = study[0]["runs"].values()
    for name, figure in found["figures"].items():
        shape = np.shape(figure["value"])
        for part in (figure["standard_error"], *figure["floor"].values()):
            assert np.shape(part) == shape, name
    assert found["figures"]["vulnerable"]["floor"]["mean"][-1] > 0
    assert found["advantage"]["method"] == "jackknife over 8 groups of 8 models"
    assert {"epistemic", "el2n", "loss_trace_spread"} <= set(found["hardness"])


def test_report_figures_and_record_table(study: tuple[dict[str, Any], Path]) -> None:
    results, out = study
    drawn = {path.stem for path in (out / "figures").glob("*.png")}
    assert drawn == OVER_TIME | {"plane", "hardness"}
    report = (out / "report.md").read_text()
    assert all(f"figures/{name}.png" in report for name in drawn)
    assert all(text in report for text in results["conventions"].values())
    table = pl.read_parquet(out / "records.parquet")
    assert len(table) == 200
    assert table["id"][0] == "digits-0000"
    (found,) = results["runs"].values()
    assert table["vulnerable"].mean() == pytest.approx(found["figures"]["vulnerable"]["value"][-1])
    assert table["advantage"].mean() == pytest.approx(found["figures"]["advantage"]["value"][-1])
    ever = table.filter(pl.col("vulnerable"))["first_exposed_epoch"]
    assert set(ever.unique()) <= {2, 4, 6}
    assert "hardness_forgetting_events" in table.columns


def test_it_verifies_and_a_changed_number_does_not(
    study: tuple[dict[str, Any], Path], tmp_path: Path
) -> None:
    results, out = study
    assert verify_run(out).problems == []
    assert recompute(out, results["config"]) == results
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
    assert "one checkpoint: this is the final plane" in done.out
    assert {path.stem for path in (out / "figures").glob("*.png")} == {"plane", "hardness"}
    (found,) = json.loads((out / "results.json").read_text())["runs"].values()
    assert found["epochs"] == [2]
    assert found["figures"]["peak_entry"]["value"] is None
    assert found["figures"]["net_displacement"]["value"] is None
    assert verify_run(out).problems == []


def test_any_attack_decides_at_an_fpr_and_the_convention_is_stored(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dynamics_figures, "_OVER_TIME", {})
        config = config_of(attack="calibrated", fpr=0.2, **{**SMALL, "universe": 100, "epochs": 2})
        results = run(config, tmp_path / "run", device="cpu")
    assert "calibrated" in results["conventions"]["decision"]
    assert "20.00% FPR" in results["conventions"]["decision"]
    (found,) = results["runs"].values()
    assert found["figures"]["centre"]["value"][-1][0] == pytest.approx(0.2, abs=0.02)
    assert recompute(tmp_path / "run", results["config"]) == results


def test_several_settings_end_in_one_comparison(compared: tuple[dict[str, Any], Path]) -> None:
    results, out = compared
    assert list(results["runs"]) == ["digits-mlp-sgd", "digits-mlp-sgd-population1", "digits-mlp-sam"]
    (row,) = results["comparison"]
    sgd, sam = (results["runs"][f"digits-mlp-{o}"]["figures"]["peak_entry"]["value"] for o in ("sgd", "sam"))
    assert row["says"] == "peak entry, SGD / SAM"
    assert row["ratio"] == pytest.approx(sgd / sam)
    assert row["published_ratio"] == pytest.approx(3)
    report = (out / "report.md").read_text()
    assert "peak entry, SGD / SAM" in report
    assert (out / "figures" / "comparison.png").exists()
    assert (out / "figures" / "digits-mlp-sam" / "plane.png").exists()
    assert pl.read_parquet(out / "records.parquet")["run"].n_unique() == 3


def test_populations_are_independent_and_compared(compared: tuple[dict[str, Any], Path]) -> None:
    results, _ = compared
    config = config_from(results["config"])
    (first_records, first), (second_records, second), *_ = populations(config)
    assert first_records.digest == second_records.digest
    assert (first.in_mask != second.in_mask).any()
    assert list(results["populations"]) == ["digits-mlp-sgd"]
    found = results["populations"]["digits-mlp-sgd"]
    ends = [results["runs"][name]["figures"]["advantage"]["value"][-1]
            for name in ("digits-mlp-sgd", "digits-mlp-sgd-population1")]  # fmt: skip
    assert found["standard_error"]["advantage"][-1] == pytest.approx(np.std(ends, ddof=1))


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_a_valid_configuration(preset: str) -> None:
    config = config_of(preset)
    assert config_from(json.loads(json.dumps(to_jsonable(config.__dict__ | {
        "settings": [setting.__dict__ for setting in config.settings]})))) == config  # fmt: skip
    for setting in config.settings:
        assert setting.models == 20
        assert setting.recipe().evaluated_epochs[-1] == setting.epochs


def test_the_full_baseline_is_the_published_setup() -> None:
    (setting,) = config_of("seed001").settings
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


def test_checkpoints_end_at_the_last_epoch() -> None:
    assert Setting(epochs=10, every=4).checkpoints == (4, 8, 10)
    assert Setting(epochs=10, every=5).checkpoints == (5, 10)


def made_up(figures: dict[str, float], **setting: Any) -> dict[str, Any]:
    return {
        "setting": Setting(**setting).__dict__,
        "figures": {
            finding.figure: {
                "value": figures.get(finding.figure),
                "standard_error": 0.1,
                "floor": {"mean": 1.0},
            }
            for finding in PUBLISHED
        },
    }


def test_ratios_pair_settings_that_differ_in_one_thing() -> None:
    one = made_up({"net_displacement": 8.0, "entropy_change": 2.0}, dataset="cifar10", net="wide_resnet")
    two = made_up({"net_displacement": 2.0, "entropy_change": -1.0}, dataset="cifar10", net="cnn")
    other = made_up({"net_displacement": 2.0}, dataset="cifar10", net="cnn", lr=0.5)
    rows = {row["figure"]: row for row in comparison([one, two, other])}
    assert set(rows) == {"net_displacement", "path_length", "entropy_change"}
    found = rows["net_displacement"]
    assert found["ratio"] == 4
    assert found["ratio_above_floor"] == 7
    assert found["ratio_standard_error"] == pytest.approx(4 * np.hypot(0.1 / 8, 0.1 / 2))
    assert found["published_ratio"] == pytest.approx(114 / 35)
    assert np.isnan(rows["entropy_change"]["ratio"])
    assert np.isnan(rows["path_length"]["ratio"])


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--preset", "slow"), "preset='slow': choose one of quick, mnist"),
        (("--preset", "optimizers", "--dataset", "digits", "--optimizer", "sgd"), "called alike"),
        (("--models", "7"), "models=7: must be even"),
        (("--optimizer", "adam"), "optimizer='adam': choose one of sgd, adamw, sam"),
        (("--universe", "5000"), "universe=5,000 is more than the 1,797 records"),
        (("--attack", "rmia"), "attack='rmia': choose one of lira, eb_lira, or give --fpr"),
        (("--attack", "rmio", "--fpr", "0.1"), "attack='rmio': choose one of eb_lira, lira, rmia"),
        (("--attack", "shokri", "--fpr", "0.1", "--no-logits"), "attack='shokri' needs the logits"),
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


def test_gradient_norms_of_models_trained_again_join_the_hardness(
    study: tuple[dict[str, Any], Path], compared: tuple[dict[str, Any], Path]
) -> None:
    results, out = study  # the quick preset asks for them
    (found,) = results["runs"].values()
    (kept,) = (out / "gradients").iterdir()
    norms = np.load(kept)
    assert norms.shape == (PRESETS["quick"][0]["gradient_models"], 3, 200)
    assert {"grand", "tracin"} <= set(found["hardness"])
    columns = pl.read_parquet(out / "records.parquet")
    in_mask = Bank.open(bank_folder(out, config_from(results["config"]).settings[0])).design().in_mask[:4]
    rates = [0.1 * (1 + np.cos(np.pi * (epoch - 1) / 6)) / 2 for epoch in (2, 4, 6)]
    one_model = np.einsum("t,mtr->mr", rates, norms.astype(np.float64) ** 2)
    of_members = np.where(
        in_mask.any(0), (one_model * in_mask).sum(0) / np.maximum(in_mask.sum(0), 1), np.nan
    )
    ratio = columns["hardness_tracin"].to_numpy() / of_members
    np.testing.assert_allclose(ratio[in_mask.any(0)], np.nanmedian(ratio), rtol=1e-5)
    assert all("grand" not in run["hardness"] for run in compared[0]["runs"].values())
    with pytest.raises(InputError, match="gradient_models=9: must be from 0 to"):
        Setting(**SMALL, gradient_models=9)
