"""Filling a bank on this machine: every trainer, the right answers, progress, refusals, diverged models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import leakscope
from leakscope.bank.bank import Bank
from leakscope.engine.request import TrainingRequest
from leakscope.errors import BankMismatchError, InputError, TrainingError
from leakscope.evaluate.attacked import converged_models
from leakscope.evaluate.config import EvaluationConfig
from leakscope.evaluate.judge import judge
from leakscope.recipe import AnyRecipe, EstimatorRecipe, Recipe
from leakscope.types import Design, Records
from tests.engine.small_population import (
    N_MODELS,
    N_RECORDS,
    RECIPE,
    complete,
    contents,
    count_training,
    design,
    records,
    regression_records,
    use_blocks_of,
)

TRAINERS: dict[str, AnyRecipe] = {
    "dense": RECIPE,
    "stacked": Recipe(net_options=(("width", 4), ("norm", "batch")), epochs=3, batch_size=8),
    "serial": Recipe(net_options=(("width", 4),), epochs=3, batch_size=8, trainer="serial"),
    "estimators": EstimatorRecipe(make_pipeline(StandardScaler(), LogisticRegression()), processes=1),
}
FRAGILE = "tests.engine.nets:fragile"


@pytest.mark.parametrize(("trainer", "recipe"), TRAINERS.items(), ids=TRAINERS)
def test_every_trainer_fills_a_bank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trainer: str, recipe: AnyRecipe
) -> None:
    use_blocks_of(monkeypatch, 3)
    names = ("correct", "log_odds", "logits", "loss")
    bank = complete(tmp_path, recipe, signals=names)
    assert {notes.trainer for notes in bank.manifest.blocks} == {trainer}
    assert bank.diverged == {}
    assert bank.damage() == []

    signals, epochs = bank.signals(), recipe.evaluated_epochs
    assert tuple(signals.arrays) == names
    logits = np.asarray(signals.arrays["logits"], dtype=np.float64)
    assert logits.shape == (N_MODELS, len(epochs), N_RECORDS, 3)
    assert signals.epochs == epochs
    labels = records().labels
    np.testing.assert_array_equal(signals.arrays["correct"], logits.argmax(-1) == labels)
    own = np.take_along_axis(logits, labels[None, None, :, None], -1)[..., 0]
    loss = np.log(np.exp(logits).sum(-1)) - own
    np.testing.assert_allclose(signals.arrays["loss"], loss, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(signals.arrays["log_odds"], -np.log(np.expm1(loss)), rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(bank.design().in_mask, design().in_mask)


@pytest.mark.parametrize(("trainer", "recipe"), TRAINERS.items(), ids=TRAINERS)
def test_the_same_bank_twice_has_the_same_bytes(tmp_path: Path, trainer: str, recipe: AnyRecipe) -> None:
    complete(tmp_path / "first", recipe)
    torch.manual_seed(1234)
    np.random.seed(1234)
    complete(tmp_path / "second", recipe)
    assert contents(tmp_path / "first") == contents(tmp_path / "second")


def test_models_learn_their_members(tmp_path: Path) -> None:
    """Planted: labels are noise, so whoever gets a record right has seen it."""
    rng = np.random.default_rng(0)
    noise = Records(
        rng.normal(size=(N_RECORDS, 16)).astype(np.float32),
        np.arange(N_RECORDS) % 2,
        np.array([f"r{i}" for i in range(N_RECORDS)]),
        class_names=("a", "b"),
    )
    recipe = Recipe(net_options=(("width", 32),), epochs=60, lr=0.01)
    bank = complete(tmp_path, recipe, records=noise)
    correct, in_mask = bank.signals().last("correct"), bank.design().in_mask
    assert correct[in_mask].mean() > 0.98
    assert correct[~in_mask].mean() < 0.75


def test_answers_do_not_depend_on_which_models_are_asked_for(tmp_path: Path) -> None:
    """Model m of five is model m of seven: its seeds are its own, and its batches those of the design."""
    seven = design()
    five = Design(np.concatenate([seven.in_mask[:4], seven.in_mask[[_largest(seven)]]]))
    together = complete(tmp_path / "seven", design=seven).signals()
    fewer = complete(tmp_path / "five", design=five).signals()
    for name, values in fewer.arrays.items():
        np.testing.assert_allclose(
            np.asarray(values[:4], dtype=float),
            np.asarray(together.arrays[name][:4], dtype=float),
            rtol=1e-4,
            atol=1e-5,
        )


def test_regression_keeps_its_own_signals(tmp_path: Path) -> None:
    recipe = EstimatorRecipe(LinearRegression(), processes=1)
    signals = complete(tmp_path, recipe, records=regression_records()).signals()
    assert tuple(signals.arrays) == ("loss", "scaled_residual")
    assert np.max(signals.arrays["loss"]) < 1e-6  # a sum is linear


@pytest.mark.parametrize(("trainer", "recipe"), TRAINERS.items(), ids=TRAINERS)
def test_columns_that_are_all_records_in_order_change_nothing(
    tmp_path: Path, trainer: str, recipe: AnyRecipe
) -> None:
    direct = complete(tmp_path / "direct", recipe).signals()
    everyone = np.tile(np.arange(N_RECORDS), (N_MODELS, 1))
    asked = complete(tmp_path / "columns", recipe, design=Design(design().in_mask, everyone)).signals()
    for name, values in asked.arrays.items():
        np.testing.assert_allclose(values.astype(float), direct.arrays[name].astype(float), rtol=1e-5)


def test_columns_ask_each_model_about_its_own_records(tmp_path: Path) -> None:
    """Rows in another order for each model give the same answers in that order (the fit is convex)."""
    direct = complete(tmp_path / "direct", TRAINERS["estimators"]).signals()
    order = np.stack([np.random.default_rng(m).permutation(N_RECORDS) for m in range(N_MODELS)])
    moved = Design(np.take_along_axis(design().in_mask, order, 1), order)
    asked = complete(tmp_path / "columns", TRAINERS["estimators"], design=moved).signals()
    np.testing.assert_array_equal(asked.labels, records().labels[order])
    for name, values in asked.arrays.items():
        expected = np.take_along_axis(np.asarray(direct.arrays[name]), order[:, None], 2)
        np.testing.assert_allclose(values.astype(float), expected.astype(float), atol=2e-3)


@pytest.mark.parametrize(("trainer", "recipe"), TRAINERS.items(), ids=TRAINERS)
def test_progress_adds_up_also_with_work_found_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trainer: str, recipe: AnyRecipe
) -> None:
    if trainer != "estimators":
        use_blocks_of(monkeypatch, 3)
    first: list[float] = []
    complete(tmp_path, recipe, progress=first.append)
    assert first[0] == 0
    assert sum(first) == pytest.approx(N_MODELS)
    assert len(first) > 3

    again: list[float] = []
    complete(tmp_path, recipe, progress=again.append)
    assert again == [N_MODELS]


def test_progress_after_an_interruption_starts_with_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_blocks_of(monkeypatch, 3)
    _interrupt_after(tmp_path, monkeypatch, n_models=3.5)
    done: list[float] = []
    trained = count_training(monkeypatch)
    complete(tmp_path, progress=done.append)
    assert trained == [[3, 4, 5], [6]]
    assert done[0] == 3
    assert sum(done) == pytest.approx(N_MODELS)


def test_an_interrupted_bank_ends_as_if_nothing_had_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_blocks_of(monkeypatch, 2)
    complete(tmp_path / "undisturbed")
    for n_models in (0.5, 2, 2.5, 4.5, 6.5):
        folder = tmp_path / f"{n_models}"
        _interrupt_after(folder, monkeypatch, n_models)
        with pytest.raises(InputError, match="unfinished bank"):
            Bank.open(folder)
        complete(folder)
        assert contents(folder) == contents(tmp_path / "undisturbed")


@pytest.mark.parametrize(
    ("device", "named"),
    [
        ("tpu", "device='tpu' is unknown; use 'auto', 'cpu', 'cuda' or 'cuda:N'"),
        ("mps", "device='mps' is unknown"),
        ("meta", "device='meta' is unknown"),
        ("cuda:x", "device='cuda:x' is unknown"),
        ("", "device='' is unknown"),
        ("cuda:99", "device='cuda:99': this machine has"),
        pytest.param(
            "cuda",
            "device='cuda': this machine has no CUDA device; use 'cpu' or 'auto'",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device"),
        ),
    ],
)
def test_a_device_that_is_not_there_is_named_before_anything_is_written(
    tmp_path: Path, device: str, named: str
) -> None:
    with pytest.raises(InputError) as error:
        complete(tmp_path / "bank", device=device)
    assert named in str(error.value)
    assert not (tmp_path / "bank").exists()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"seed": -1}, "seed=-1: must be 0 or more"),
        ({"signals": ("loss", "gossip")}, "signals='gossip': did you mean 'loss'? a classifier has"),
        (
            {"signals": ("correct", "loss"), "records": regression_records()},
            "signals='correct': a regression model has loss, scaled_residual",
        ),
        (
            {"recipe": Recipe(net="transformer")},
            "net='transformer' is unknown; choose one of cnn, ",
        ),
        ({"recipe": Recipe(net_options=(("width", 0),))}, "width=0"),
        ({"recipe": Recipe(net_options=(("wdith", 8),))}, "wdith"),
    ],
)
def test_a_bad_request_is_named_before_anything_is_written(
    tmp_path: Path, changes: dict[str, Any], named: str
) -> None:
    with pytest.raises(InputError) as error:
        complete(tmp_path / "bank", **changes)
    assert named in str(error.value)
    assert not (tmp_path / "bank").exists()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"records": records(seed=1)}, "records.sha256 is"),
        ({"seed": 6}, "seed is 5 there, 6 now"),
        ({"design": design(8)}, "design.models is 7 there, 8 now"),
        ({"signals": ("loss",)}, "signals is ['correct', 'log_odds', 'loss'] there, ['loss'] now"),
        ({"recipe": Recipe(**{**vars(RECIPE), "lr": 0.06})}, "recipe.lr is 0.05 there, 0.06 now"),
        (
            {"recipe": Recipe(**{**vars(RECIPE), "net_options": (("width", 5),)})},
            "recipe.net_options.width is 4 there, 5 now",
        ),
        ({"recipe": TRAINERS["estimators"]}, "recipe.estimator is None there, sklearn.pipeline:Pipeline now"),
    ],
)
def test_another_population_is_refused_and_what_differs_named(
    tmp_path: Path, changes: dict[str, Any], named: str
) -> None:
    complete(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(BankMismatchError) as error:
        complete(tmp_path, **changes)
    assert named in str(error.value)
    assert contents(tmp_path) == before


def test_another_block_plan_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    complete(tmp_path)
    use_blocks_of(monkeypatch, 2)
    with pytest.raises(BankMismatchError, match="block_size is 128 there, 2 now"):
        complete(tmp_path)


def test_blocks_are_planned_from_the_network_alone() -> None:
    wide = Recipe(net_options=(("width", 10_000),))  # 80,003 parameters: 25 of them make two million

    def block_size(recipe: AnyRecipe) -> int:
        return TrainingRequest(records(), design(), recipe, seed=0).identity.block_size

    assert block_size(wide) == 2_000_000 // 80_003 == 24
    assert block_size(RECIPE) == 128
    assert block_size(Recipe(net_options=(("width", 1_000_000),))) == 8
    assert block_size(TRAINERS["estimators"]) == 16


def test_the_manifest_says_what_made_the_bank(tmp_path: Path) -> None:
    manifest = json.loads((complete(tmp_path).folder / "manifest.json").read_text())
    assert manifest["device"] == "cpu"
    assert manifest["versions"]["leakscope"] == leakscope.__version__
    assert manifest["versions"]["torch"] == torch.__version__
    assert manifest["seconds"] > 0


def test_diverged_models_are_listed_and_left_out(tmp_path: Path) -> None:
    bank = complete(tmp_path, Recipe(net=FRAGILE, epochs=4, checkpoints=(2, 4)), design=design(12))
    broken = [m for m in range(12) if np.isnan(bank.signals().last("loss")[m]).all()]
    assert 2 <= len(broken) <= 9
    assert bank.diverged == dict.fromkeys(broken, 2)  # seen at the first checkpoint
    assert json.loads((tmp_path / "manifest.json").read_text())["diverged_models"] == {
        str(m): 2 for m in broken
    }

    signals, converged_design = converged_models(bank)
    converged = [m for m in range(12) if m not in broken]
    np.testing.assert_array_equal(converged_design.in_mask, design(12).in_mask[converged])
    np.testing.assert_array_equal(signals.last("loss"), bank.signals().last("loss")[converged])
    config = EvaluationConfig("x", ("correctness", "loss", "lira"), (0.1,))
    results = judge(bank, config).results
    assert results.population.models == len(converged)
    assert results.population.diverged_models == {str(m): 2 for m in broken}
    assert {label: figures.targets for label, figures in results.attacks.items()} == dict.fromkeys(
        config.attacks, len(converged)
    )
    in_mask, correct = converged_design.in_mask, signals.last("correct")
    by_model = [row[members].mean() for row, members in zip(correct, in_mask, strict=True)]
    assert results.accuracy.members.value == pytest.approx(np.mean(by_model))


def test_a_population_that_diverges_altogether_is_an_error_every_time(tmp_path: Path) -> None:
    recipe = Recipe(net=FRAGILE, net_options=(("share", 2.0),), epochs=1)
    for _ in range(2):
        with pytest.raises(TrainingError, match="every model diverged") as error:
            complete(tmp_path, recipe)
        assert error.value.exit_code == 2


def test_an_exploding_rate_is_an_error(tmp_path: Path) -> None:
    recipe = Recipe(net_options=(("width", 4),), optimizer="sgd", lr=1e30, epochs=4)
    with pytest.raises(TrainingError, match="lower the learning rate"):
        complete(tmp_path, recipe)


def _largest(given: Design) -> int:
    return int(given.in_mask.sum(axis=1).argmax())


def _interrupt_after(folder: Path, monkeypatch: pytest.MonkeyPatch, n_models: float) -> None:
    done = 0.0

    def stop(models: float) -> None:
        nonlocal done
        done += models
        if done >= n_models:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        complete(folder, progress=stop)
