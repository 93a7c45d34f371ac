"""Finished models are stored at once, states of networks in the run folder; resuming uses both."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from leakscope.bank.bank import n_models_saved
from leakscope.cli.output import saved_text
from leakscope.disk.saved_training import STATES
from leakscope.engine import local
from leakscope.recipe import AnyRecipe, FunctionRecipe, Recipe
from tests.engine.functions import centroids
from tests.engine.small_population import N_MODELS, RECIPE, complete, contents, count_training
from tests.engine.test_local import TRAINERS

LONG = Recipe(net_options=(("width", 4),), epochs=40, batch_size=8)
ONE_BY_ONE: dict[str, AnyRecipe] = {
    "estimators": TRAINERS["estimators"],
    "functions": FunctionRecipe(centroids),
    "networks": TRAINERS["serial"],
}


class Stop:
    """Progress that interrupts after so many models' worth."""

    def __init__(self, n_models: float) -> None:
        self.done, self._n_models = 0.0, n_models

    def __call__(self, models: float) -> None:
        self.done += models
        if self.done > self._n_models + 1e-6:
            raise KeyboardInterrupt


def interrupt(folder: Path, recipe: AnyRecipe, n_models: float, save_seconds: float = 1e9) -> None:
    with pytest.raises(KeyboardInterrupt):
        complete(folder, recipe, progress=Stop(n_models), save_seconds=save_seconds)


@pytest.mark.parametrize("recipe", ONE_BY_ONE.values(), ids=ONE_BY_ONE)
def test_no_finished_model_is_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recipe: AnyRecipe
) -> None:
    monkeypatch.setattr(local, "SECONDS_TOGETHER", 0.0)  # as if each took longer
    complete(tmp_path / "undisturbed", recipe)
    folder = tmp_path / "interrupted"
    interrupt(folder, recipe, 3.0)
    assert n_models_saved(folder) == 3
    assert saved_text(folder) == "; 3 models saved"
    trained, done = count_training(monkeypatch), []
    complete(folder, recipe, progress=done.append)
    assert trained == [[model] for model in range(3, N_MODELS)]
    assert done[0] == 3
    assert sum(done) == pytest.approx(N_MODELS)
    assert contents(folder) == contents(tmp_path / "undisturbed")


def test_a_damaged_model_is_trained_again_and_only_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "SECONDS_TOGETHER", 0.0)
    recipe = ONE_BY_ONE["functions"]
    complete(tmp_path / "undisturbed", recipe)
    interrupt(tmp_path / "damaged", recipe, 4.0)
    parts = sorted((tmp_path / "damaged").glob("blocks/*/0*"))
    assert len(parts) == 4
    parts[1].write_bytes(parts[1].read_bytes()[:-1])
    parts[2].write_bytes(parts[3].read_bytes())  # another model's file under this one's name
    trained = count_training(monkeypatch)
    complete(tmp_path / "damaged", recipe)
    assert trained == [[1], [2], [4], [5], [6]]
    assert contents(tmp_path / "damaged") == contents(tmp_path / "undisturbed")


def test_models_of_another_bank_are_not_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "SECONDS_TOGETHER", 0.0)
    recipe = ONE_BY_ONE["functions"]
    interrupt(tmp_path / "one", recipe, 3.0)
    with pytest.raises(KeyboardInterrupt):
        complete(tmp_path / "other", recipe, seed=9, progress=Stop(1.0))
    for part in (tmp_path / "one").glob("blocks/*/0*"):
        (tmp_path / "other" / part.relative_to(tmp_path / "one")).write_bytes(part.read_bytes())
    complete(tmp_path / "other", recipe, seed=9)
    complete(tmp_path / "undisturbed", recipe, seed=9)
    assert contents(tmp_path / "other") == contents(tmp_path / "undisturbed")


def test_a_run_killed_after_its_last_model_only_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = ONE_BY_ONE["functions"]
    complete(tmp_path / "undisturbed", recipe)
    with pytest.MonkeyPatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(local.Bank, "commit_parts", _interrupted)
        complete(tmp_path / "killed", recipe)
    assert n_models_saved(tmp_path / "killed") == N_MODELS
    trained = count_training(monkeypatch)
    complete(tmp_path / "killed", recipe)
    assert trained == []
    assert contents(tmp_path / "killed") == contents(tmp_path / "undisturbed")


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.fixture
def long_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such small networks are trained all at once; here by torch and epoch by epoch, as large ones are."""
    monkeypatch.setattr("leakscope.train.perceptrons.MOST_PRODUCTS", 0.0)
    monkeypatch.setattr("leakscope.train.compiled.PRODUCTS_WORTH_A_CALL", 0.0)


@pytest.mark.usefixtures("long_epochs")
def test_a_block_in_training_resumes_and_progress_adds_up(tmp_path: Path) -> None:
    complete(tmp_path / "undisturbed", LONG)
    folder = tmp_path / "interrupted"
    interrupt(folder, LONG, 5.0, save_seconds=0.0)
    assert n_models_saved(folder) == 0
    assert (folder / STATES).exists()
    assert saved_text(folder).startswith("; 0 models saved, training state saved 0 s ago")
    done: list[float] = []
    complete(folder, LONG, progress=done.append, save_seconds=0.0)
    assert 0 < done[0] <= 5.2, "it starts with what was saved"
    assert sum(done) == pytest.approx(N_MODELS)
    assert contents(folder) == contents(tmp_path / "undisturbed"), "the states are gone as well"


@pytest.mark.usefixtures("long_epochs")
def test_training_time_counts_all_processes(tmp_path: Path) -> None:
    class Pause(Stop):
        def __call__(self, models: float) -> None:
            time.sleep(0.02)
            super().__call__(models)

    with pytest.raises(KeyboardInterrupt):
        complete(tmp_path, LONG, progress=Pause(6.0), save_seconds=0.0)
    assert complete(tmp_path, LONG, save_seconds=0.0).manifest.seconds > 0.4


def test_a_leftover_state_of_a_complete_bank_is_removed(tmp_path: Path) -> None:
    complete(tmp_path, RECIPE)
    before = contents(tmp_path)
    (tmp_path / STATES / "000000-7").mkdir(parents=True)
    (tmp_path / STATES / "000000-7" / "state").write_bytes(b"anything")
    complete(tmp_path, RECIPE)
    assert contents(tmp_path) == before


def test_fast_models_are_stored_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = count_training(monkeypatch)
    monkeypatch.setattr(local, "SECONDS_TOGETHER", 1e9)
    complete(tmp_path, ONE_BY_ONE["functions"])
    assert trained == [[0], [1, 2, 3, 4, 5, 6]]
