"""Compiled steps end where torch's end, know what they do not know, and are never needed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from leakscope.privacy.settings import Privacy
from leakscope.recipe import Recipe
from leakscope.train import compiled, compiler
from leakscope.train import compiled_steps as adapted
from leakscope.train.compiled_check import is_right
from leakscope.train.compiled_steps import CompiledSteps, compiled_steps
from leakscope.train.compiler import SWITCH, library, load, processor_has
from leakscope.train.dense import DenseStack
from leakscope.train.loop import initial_nets, inputs_from, train_block
from leakscope.train.losses import Objective
from leakscope.train.plan import BatchPlan, Lesson
from leakscope.train.poisson import PoissonPlan
from leakscope.train.steps import Epoch, HostSteps
from leakscope.types import Records

from .problems import (
    CPU,
    assert_same_state,
    class_records,
    mlp_recipe,
    plain_state,
    real_records,
    trained_state,
    unequal_design,
)
from .test_trainers import SETTINGS, recipe_of

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")

SIZES = (21, 8, 3, 16)
PRIVACY = Privacy(noise_multiplier=0.7, clip=0.8)
UNKNOWN = {
    "mixup": {"mixup": 0.4},
    "relaxed": {"relax_loss": 1.0},
    "entropy": {"entropy_weight": 0.1},
    "sharpness": {"sam_rho": 0.1},
    "flips": {"flips": True},
    "crops": {"crop": 1},
}
"""Settings that the compiled code does not know."""


def steps_for(recipe: Recipe, records: Records, net: nn.Module | None = None) -> CompiledSteps | None:
    inputs, design = inputs_from(records, CPU), unequal_design(SIZES, len(records))
    nets = initial_nets(recipe, inputs, np.arange(4), 3) if net is None else [net] * 4
    plan = BatchPlan(design, np.arange(4), recipe.batch_size, 3)
    stack = DenseStack(nets, Objective.of(recipe), CPU)
    return compiled_steps(stack, inputs.x, inputs.y, plan, recipe)


def parameters(
    recipe: Recipe, records: Records, by_torch: bool, lesson: Lesson | None = None
) -> list[Tensor]:
    inputs, design = inputs_from(records, CPU), unequal_design(SIZES, len(records))
    kind = BatchPlan if recipe.privacy is None else PoissonPlan
    plan = kind(design, np.arange(4), recipe.batch_size, 3, lesson)
    stack = DenseStack(initial_nets(recipe, inputs, np.arange(4), 3), Objective.of(recipe), CPU)
    known = (stack, inputs.x, inputs.y, plan, recipe)
    steps = HostSteps(*known) if by_torch else compiled_steps(*known)
    assert steps is not None, "the compiled code knows this recipe"
    for epoch, order in enumerate(plan.epochs(recipe.epochs)):
        lr = [recipe.lr * recipe.lr_factor(epoch + step / plan.steps) for step in range(plan.steps)]
        steps.run_epoch(Epoch(order, lr))
    steps.finish()
    return stack.parameters


KNOWN = {
    **{
        name: recipe_of(name)
        for name in SETTINGS
        if name not in ("mixup", "relaxed", "soft labels and entropy")
    },
    "labels of some entropy": mlp_recipe(label_entropy=0.6),
    "wide": mlp_recipe(options={"width": 70, "depth": 2}, optimizer="adam", lr=0.01),
    "long": mlp_recipe(
        optimizer="adamw", lr=0.01, weight_decay=0.1, epochs=30, options={"activation": "tanh"}
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_it_ends_where_torch_ends(name: str) -> None:
    ours, theirs = (parameters(KNOWN[name], class_records(), by_torch) for by_torch in (False, True))
    for own, wanted in zip(ours, theirs, strict=True):
        torch.testing.assert_close(own, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_numeric_labels_end_where_torch_ends(optimizer: str) -> None:
    recipe = mlp_recipe(optimizer=optimizer, lr=0.02, epochs=3)
    ours, theirs = (parameters(recipe, real_records(), by_torch) for by_torch in (False, True))
    for own, wanted in zip(ours, theirs, strict=True):
        torch.testing.assert_close(own, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
@pytest.mark.parametrize("batch_size", [1, 8, 1000])
def test_dp_sgd_ends_where_torch_ends(optimizer: str, batch_size: int) -> None:
    """Batches of no record, of some, and of all members; noise included."""
    recipe = mlp_recipe(optimizer=optimizer, batch_size=batch_size, lr=0.02, epochs=3, privacy=PRIVACY)
    for records in (class_records(), real_records()):
        ours, theirs = (parameters(recipe, records, by_torch) for by_torch in (False, True))
        for own, wanted in zip(ours, theirs, strict=True):
            torch.testing.assert_close(own, wanted, rtol=2e-5, atol=2e-5)


def test_rows_that_are_clipped_more_end_where_torch_ends() -> None:
    design, rng = unequal_design(SIZES, 40), np.random.default_rng(0)
    members = [design.members(model) for model in range(4)]
    lesson = Lesson(members, 21, clip=rng.random((4, 40), dtype=np.float32))
    recipe = mlp_recipe(epochs=2, privacy=PRIVACY)
    ours, theirs = (parameters(recipe, class_records(), by_torch, lesson) for by_torch in (False, True))
    for own, wanted, whole in zip(ours, theirs, parameters(recipe, class_records(), False), strict=True):
        torch.testing.assert_close(own, wanted, rtol=1e-5, atol=1e-5)
        assert (own - whole).abs().max() > 1e-3, "the norms matter"


def test_private_records_on_disk_end_where_those_in_memory_end(tmp_path: Path) -> None:
    np.save(tmp_path / "features.npy", class_records().features)
    on_disk = replace(class_records(), features=np.load(tmp_path / "features.npy", mmap_mode="r"))
    recipe = mlp_recipe(epochs=3, privacy=PRIVACY)
    assert inputs_from(on_disk, CPU).on_disk is not None
    blocks = [
        train_block(
            inputs_from(records, CPU),
            unequal_design(SIZES, 40),
            recipe,
            np.arange(4),
            3,
            ("logits",),
            "dense",
        ).signals["logits"]
        for records in (class_records(), on_disk)
    ]
    np.testing.assert_array_equal(*blocks)


def test_a_record_that_is_not_a_number_makes_its_private_models_diverge() -> None:
    """As by torch: clipping must not turn it into a record of no gradient, which nobody would notice."""
    records = class_records()
    records.features[records.labels == 0] = np.nan
    (design, recipe) = unequal_design(SIZES, 40), mlp_recipe(epochs=3, batch_size=1000, privacy=PRIVACY)
    block = train_block(inputs_from(records, CPU), design, recipe, np.arange(4), 3, ("logits",), "dense")
    assert (block.diverged_at > 0).all()


def test_records_that_weigh_less_end_where_torch_ends() -> None:
    design, rng = unequal_design(SIZES, 40), np.random.default_rng(0)
    members = [design.members(model) for model in range(4)]
    lesson = Lesson(members, 21, rng.random((4, 40), dtype=np.float32))
    recipe = mlp_recipe(epochs=2)
    ours, theirs = (parameters(recipe, class_records(), by_torch, lesson) for by_torch in (False, True))
    for own, wanted, whole in zip(ours, theirs, parameters(recipe, class_records(), False), strict=True):
        torch.testing.assert_close(own, wanted, rtol=1e-5, atol=1e-5)
        assert (own - whole).abs().max() > 1e-3, "the weights matter"


@pytest.mark.parametrize("name", SETTINGS)
def test_torch_alone_ends_where_a_plain_loop_ends(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests of perceptrons take compiled steps where they can."""
    monkeypatch.setenv(SWITCH, "0")
    records, design = class_records(), unequal_design(SIZES, 40)
    found = trained_state(DenseStack, records, design, recipe_of(name))
    assert_same_state(found, plain_state(records, design, recipe_of(name)), rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_setting_it_does_not_know_is_left_to_torch(name: str) -> None:
    changed = replace(mlp_recipe(), **UNKNOWN[name])
    assert steps_for(changed, class_records()) is None
    assert steps_for(mlp_recipe(), class_records()) is not None


def test_every_setting_of_a_recipe_is_either_known_or_left_to_torch() -> None:
    """A new setting fails here until somebody decides."""
    elsewhere = {"net", "net_options", "lr", "schedule", "step_epochs", "step_factor", "batch_size", "epochs",
                 "checkpoints", "trainer", "treatment", "distillation", "deduplicate"}  # fmt: skip
    known = {"optimizer", "momentum", "nesterov", "weight_decay", "label_smoothing", "label_entropy",
             "privacy"}  # fmt: skip
    other_stack_or_plan = {"precision"}
    unknown = {name for changes in UNKNOWN.values() for name in changes}
    assert set(Recipe.__dataclass_fields__) == elsewhere | known | other_stack_or_plan | unknown


def test_networks_that_do_not_fit_the_records_are_left_to_torch() -> None:
    """Else labels without an output, or inputs that are not there, would be read from foreign memory."""
    assert steps_for(mlp_recipe(), class_records(), nn.Sequential(nn.Linear(5, 3))) is not None
    for sizes in ((5, 2), (4, 3), (6, 3)):
        assert steps_for(mlp_recipe(), class_records(), nn.Sequential(nn.Linear(*sizes))) is None
    assert steps_for(mlp_recipe(), real_records(), nn.Sequential(nn.Linear(5, 2))) is None
    large = nn.Sequential(nn.Linear(5, compiled.MOST_PARAMETERS // 8), nn.ReLU(), nn.Linear(
        compiled.MOST_PARAMETERS // 8, 3))  # fmt: skip
    assert steps_for(mlp_recipe(), class_records(), large) is None


def signals_of(models: list[int], recipe: Recipe) -> dict[int, bytes]:
    records = class_records()
    arguments = (inputs_from(records, CPU), unequal_design((21, 8, 3, 16, 20, 11, 9), 40), recipe)
    block = train_block(*arguments, np.array(models), 3, ("logits",), "dense")
    return {model: block.signals["logits"][at].tobytes() for at, model in enumerate(models)}


@pytest.mark.parametrize("privacy", [None, PRIVACY], ids=["plain", "private"])
def test_no_byte_depends_on_threads_neighbours_or_steps_taken_together(
    privacy: Privacy | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = mlp_recipe(optimizer="adam", epochs=4, privacy=privacy)
    n_threads = torch.get_num_threads()
    together = signals_of([*range(7)], recipe)
    monkeypatch.setattr(compiled, "_PRODUCTS_OF_A_THREAD", 1.0)
    try:
        torch.set_num_threads(3)
        assert signals_of([*range(7)], recipe) == together
    finally:
        torch.set_num_threads(n_threads)
    monkeypatch.setattr(compiled, "PRODUCTS_AT_ONCE", 1.0)
    assert signals_of([*range(7)], recipe) == together
    assert {model: signals_of([model], recipe)[model] for model in range(7)} == together


@pytest.mark.skipif(not processor_has("AVX512F"), reason="this processor has no wider vectors")
@pytest.mark.parametrize("privacy", [None, PRIVACY], ids=["plain", "private"])
def test_no_byte_depends_on_the_width_of_vectors(
    privacy: Privacy | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Machines of a cluster may differ in it."""
    recipe = mlp_recipe(optimizer="adam", epochs=4, options={"width": 70, "depth": 2}, privacy=privacy)
    wide = signals_of([*range(7)], recipe)
    monkeypatch.setattr(compiler, "processor_has", lambda *features: "AVX512F" not in features)
    narrow = load(tmp_path, "perceptrons", is_right)
    assert narrow is not None
    monkeypatch.setattr(adapted, "perceptron_library", lambda: narrow)
    assert signals_of([*range(7)], recipe) == wide


def test_a_model_that_diverges_is_not_finite() -> None:
    recipe = mlp_recipe(lr=1e30, epochs=3)
    block = train_block(
        inputs_from(class_records(), CPU),
        unequal_design(SIZES, 40),
        recipe,
        np.arange(4),
        3,
        ("logits",),
        "dense",
    )
    assert (block.diverged_at > 0).all()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a library just compiled."""
    made = tmp_path_factory.mktemp("compiled")
    assert load(made, "perceptrons", is_right) is not None
    return made


def test_it_is_compiled_once_and_loaded_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = list(folder.iterdir())
    monkeypatch.setenv("CC", "there-is-no-such-compiler")
    assert load(folder, "perceptrons", is_right) is not None
    assert list(folder.iterdir()) == before
    assert sorted(path.suffix for path in before) == [".sha256", ".so"], "nothing else is left behind"


def test_it_is_loaded_again_where_files_are_written_for_a_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else torch would train from the second process on, more slowly and with other last digits."""
    before = os.umask(0o002)
    try:
        assert load(tmp_path / "compiled", "noise", lambda _library: True) is not None
    finally:
        os.umask(before)
    monkeypatch.setenv("CC", "there-is-no-such-compiler")
    assert load(tmp_path / "compiled", "noise", lambda _library: True) is not None


def _missing(path: Path) -> str:
    return "there-is-no-such-compiler"


def _failing(path: Path) -> str:
    return "false"


def _wrong(path: Path) -> str:
    """A compiler whose programs compute something else: the second moment of Adam decays too fast."""
    script = path / "wrong-cc"
    change = 'case "$a" in *.c) sed -i "s/BETA2 0.999/BETA2 0.9/" "$a";; esac'
    script.write_text(f'#!/bin/sh\nfor a; do {change}; done\nexec cc "$@"\n')
    script.chmod(0o700)
    return str(script)


@pytest.mark.parametrize("broken", [_missing, _failing, pytest.param(_wrong, marks=pytest.mark.slow)])
def test_a_compiler_that_is_broken_is_not_used(
    broken: Callable[[Path], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", broken(tmp_path))
    assert load(tmp_path / "cache", "perceptrons", is_right) is None
    assert load(tmp_path / "cache", "perceptrons", is_right) is None


def test_a_library_that_somebody_else_may_have_written_is_not_loaded(folder: Path) -> None:
    for path in (*folder.iterdir(), folder):
        before = path.stat().st_mode
        path.chmod(0o777)
        assert load(folder, "perceptrons", is_right) is None
        path.chmod(before)
    assert load(folder, "perceptrons", is_right) is not None


@pytest.mark.slow
def test_a_damaged_library_is_not_loaded_but_made_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loading half a library would end the process."""
    damaged = Path(shutil.copytree(folder, tmp_path / "copy"))
    (library_there,) = damaged.glob("*.so")
    library_there.write_bytes(library_there.read_bytes()[:2000])
    monkeypatch.setenv("CC", "there-is-no-such-compiler")
    assert load(damaged, "perceptrons", is_right) is None
    monkeypatch.delenv("CC")
    assert load(damaged, "perceptrons", is_right) is not None
    assert library_there.stat().st_size > 2000


def test_the_check_leaves_torch_s_random_numbers_alone() -> None:
    loaded = library("perceptrons", is_right)
    assert loaded is not None
    torch.manual_seed(5)
    wanted = torch.rand(1)
    torch.manual_seed(5)
    assert is_right(loaded)
    assert torch.rand(1) == wanted


def test_it_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "0")
    assert steps_for(mlp_recipe(), class_records()) is None
