"""Adapters side by side on a CUDA device: the same adapters as on the CPU, captured or not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from leakscope.adapter_recipe import AdapterRecipe, Lora
from leakscope.privacy.settings import Privacy
from leakscope.train import launch
from leakscope.train.adapters import choice
from leakscope.train.adapters.choice import choose_language_trainer, planned_stack
from leakscope.train.adapters.network import network_of
from leakscope.train.block import BlockSignals
from leakscope.train.loop import inputs_from, train, train_block
from leakscope.train.losses import PLAIN
from leakscope.train.poisson import plan_of
from leakscope.train.state import unsaved
from leakscope.types import Records
from tests.train.adapters.bases import documents, random_halves, saved_bert, saved_gpt2, saved_llama

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

CPU, CUDA, SEED = torch.device("cpu"), torch.device("cuda"), 5
N_MODELS = 4
MODELS, DESIGN = np.arange(N_MODELS), random_halves(N_MODELS, 24)
OTHER_ORDER = 5e-4
"""What 8 steps in float32 may differ by between devices, relative to the norm of a factor.

Blocks of other sizes on a CPU differ by at most 5e-6 (tests/train/adapters/test_stack.py). A GPU sums the
products of every layer in another order, not those of the adapters alone: a hundred times as much is allowed.
Models of one block differ by more than a tenth.
"""
OPTIONS: dict[str, dict[str, Any]] = {
    "adamw": {},
    "dropout": {"lora": Lora(rank=4, alpha=8.0, dropout=0.25)},
    "accumulation": {"accumulation": 2},
    "checkpoints": {"gradient_checkpointing": True},
    "DP-LoRA": {"privacy": Privacy(noise_multiplier=0.5, clip=0.1, delta=1e-2)},
}
BASES = {"gpt2": saved_gpt2, "llama": saved_llama}


def recipe_for(base: str, **options: Any) -> AdapterRecipe:
    settings = {"lora": Lora(rank=4, alpha=8.0), "batch_size": 3, "epochs": 2, "lr": 5e-3}
    return AdapterRecipe(base=base, **{**settings, **options})


def trained(recipe: AdapterRecipe, records: Records, device: torch.device) -> tuple[list[Tensor], str]:
    """The adapters of all models after training, and what did not go as planned."""
    network_of.cache_clear()
    inputs, state = inputs_from(records, device), unsaved(N_MODELS)
    assert choose_language_trainer(recipe, inputs) == ("adapters", None)
    plan = plan_of(DESIGN, records.copies, MODELS, recipe, SEED)
    stack = planned_stack(recipe, inputs, plan, PLAIN)
    list(train(stack, inputs, plan, recipe, state))
    return [p.detach().cpu() for p in stack.parameters], "; ".join(state.notes)


def block(recipe: AdapterRecipe, records: Records, device: torch.device, *signals: str) -> BlockSignals:
    network_of.cache_clear()
    return train_block(inputs_from(records, device), DESIGN, recipe, MODELS, SEED, signals, "adapters")


def assert_same(given: list[Tensor], expected: list[Tensor], within: float = OTHER_ORDER) -> None:
    for own, other in zip(given, expected, strict=True):
        assert float((own - other).norm() / other.norm()) < within
        assert float((own[0] - own[1]).norm() / own[1].norm()) > 0.1, "the test can tell models apart"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    return saved_gpt2(tmp_path_factory.mktemp("base"))


@pytest.mark.parametrize("name", OPTIONS)
def test_adapters_are_those_of_the_cpu(base: str, name: str) -> None:
    recipe, records = recipe_for(base, **OPTIONS[name]), documents(24)
    (expected, _), (given, note) = (trained(recipe, records, device) for device in (CPU, CUDA))
    assert note == "", "every step was captured"
    assert_same(given, expected)


@pytest.mark.parametrize("name", BASES)
def test_signals_of_documents_are_those_of_the_cpu(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    recipe = recipe_for(BASES[name](tmp_path_factory.mktemp(name)))
    names = ("base_gap", "log_odds", "loss")
    expected, given = (block(recipe, documents(24), device, *names) for device in (CPU, CUDA))
    assert given.note == ""
    for signal in names:
        np.testing.assert_allclose(given.signals[signal], expected.signals[signal], rtol=1e-3, atol=1e-3)


def test_labels_by_a_head_of_its_own_are_those_of_the_cpu(tmp_path_factory: pytest.TempPathFactory) -> None:
    recipe = recipe_for(saved_bert(tmp_path_factory.mktemp("bert")))
    records = documents(24, classes=2)
    expected, given = (block(recipe, records, device, "log_odds") for device in (CPU, CUDA))
    assert given.note == ""
    np.testing.assert_allclose(given.signals["log_odds"], expected.signals["log_odds"], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", OPTIONS)
def test_a_captured_step_ends_where_a_launched_one_ends(
    base: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, records = recipe_for(base, **OPTIONS[name]), documents(24)
    captured, note = trained(recipe, records, CUDA)
    assert note == ""
    monkeypatch.setattr(launch, "CapturedSteps", _refuse)
    launched, note = trained(recipe, records, CUDA)
    assert "not captured" in note
    assert_same(captured, launched)


@pytest.mark.filterwarnings("ignore")  # of torch's own compiler, about itself
def test_a_compiled_step_ends_where_the_eager_one_ends(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, records = recipe_for(base), documents(24)
    eager, _ = trained(recipe, records, CUDA)
    monkeypatch.setattr(choice, "_COMPILED_FROM", 0)
    compiled, note = trained(recipe, records, CUDA)
    assert note == ""
    assert_same(compiled, eager)


def test_bfloat16_is_near_float32_and_is_another_computation(base: str) -> None:
    exact, rough = (
        block(replace(recipe_for(base), precision=precision), documents(24), CUDA, "loss").signals["loss"]
        for precision in ("float32", "bfloat16")
    )
    assert 0 < np.abs(rough - exact).mean() < 0.05


def _refuse(*_: object) -> None:
    raise RuntimeError("refused")
