"""Adapters side by side: what a model becomes does not depend on the models trained beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from leakscope.adapter_recipe import AdapterRecipe, Lora
from leakscope.array_types import IntArray
from leakscope.errors import InputError
from leakscope.models.language import linear_layers, load_base
from leakscope.privacy.settings import Privacy
from leakscope.train.adapters.choice import choose_language_trainer, language_stack
from leakscope.train.adapters.layers import dropped
from leakscope.train.adapters.network import network_of
from leakscope.train.adapters.stack import AdapterStack
from leakscope.train.block import BlockSignals
from leakscope.train.loop import inputs_from, train, train_block
from leakscope.train.losses import PLAIN
from leakscope.train.poisson import plan_of
from leakscope.types import Design, Records, digest_arrays
from tests.train.adapters.bases import (
    documents,
    random_halves,
    saved_bert,
    saved_gpt2,
    saved_llama,
    transformers,
)

CPU, SEED = torch.device("cpu"), 5
SIGNALS = ("base_gap", "log_odds", "loss")


def recipe_for(base: str, **options: Any) -> AdapterRecipe:
    settings = {"lora": Lora(rank=4, alpha=8.0), "batch_size": 3, "epochs": 2, "lr": 5e-3}
    return AdapterRecipe(base=base, **{**settings, **options})


def adapters(recipe: AdapterRecipe, records: Records, design: Design, models: IntArray) -> list[Tensor]:
    """The parameters of these models after training."""
    stack = language_stack(recipe, inputs_from(records, CPU), models, SEED, PLAIN)
    plan = plan_of(design, records.copies, models, recipe, SEED)
    list(train(stack, inputs_from(records, CPU), plan, recipe))
    return stack.parameters


def block(recipe: AdapterRecipe, records: Records, design: Design, models: IntArray) -> BlockSignals:
    signals = SIGNALS if records.is_language else ("log_odds", "loss")
    trainer = "serial" if recipe.full else "adapters"
    return train_block(inputs_from(records, CPU), design, recipe, models, SEED, signals, trainer)


def digest_of(model: Any) -> str:
    return digest_arrays(*(t.numpy() for t in model.state_dict().values()))


def distance(given: Tensor, expected: Tensor) -> float:
    return float((given - expected).norm() / expected.norm())


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    return saved_gpt2(tmp_path_factory.mktemp("base"))


ROUNDING = 5e-5
"""What 8 steps in float32 may differ by between blocks of other sizes, relative to the norm of a factor.

Blocks of other sizes sum the same products in another order. Adam divides gradients by their own size, so
that small ones carry the difference on. Measured over 5 seeds, with and without dropout, blocks of 1 and 4
against 16: 5e-8 to 5e-6. The bound is ten times the largest.
"""


@pytest.mark.parametrize("dropout", [0.0, 0.25])
def test_blocks_of_1_4_and_16_models_give_the_same_adapters(base: str, dropout: float) -> None:
    records, design = documents(24), random_halves(16, 24)
    recipe = recipe_for(base, lora=Lora(rank=4, alpha=8.0, dropout=dropout))
    together = adapters(recipe, records, design, np.arange(16))
    for models in (np.array([5]), np.array([11]), np.arange(8, 12)):
        alone = adapters(recipe, records, design, models)
        for own, whole in zip(alone, together, strict=True):
            assert distance(own, whole[models]) < ROUNDING
    assert all(distance(whole[5], whole[11]) > 0.1 for whole in together)


def test_dropout_drops_its_share_of_inputs_and_other_ones_at_every_step(base: str) -> None:
    inputs = inputs_from(documents(8), CPU)
    stack = language_stack(recipe_for(base, lora=Lora(dropout=0.25)), inputs, np.arange(2), SEED, PLAIN)
    ones, masks = torch.ones(16, 24, 32), []
    for _ in range(2):
        masks.append(dropped(ones, 0.25, stack.buffers[0]))
        stack.gradients(inputs.x[None].expand(2, -1, -1), torch.zeros(2, 8), torch.full((2, 8), 1 / 8))
    n = ones.numel()
    for mask in masks:
        assert sorted(set(mask.flatten().tolist())) == pytest.approx([0, 4 / 3])
        assert abs(share_of(mask == 0) - 1 / 4) < 5 * (3 / 16 / n) ** 0.5
    first, second = (mask == 0 for mask in masks)
    assert abs(share_of(first & second) - 1 / 16) < 5 * (1 / 16 / n) ** 0.5, "two steps"
    assert abs(share_of(first[0] & first[1]) - 1 / 16) < 5 * (1 / n) ** 0.5, "two documents of a model"
    assert abs(share_of(first[0] & first[8]) - 1 / 16) < 5 * (1 / n) ** 0.5, "two models"


def share_of(is_so: Tensor) -> float:
    return float(is_so.float().mean())


@pytest.mark.parametrize("setting", [{"accumulation": 2}, {"gradient_checkpointing": True}])
def test_settings_of_memory_change_no_adapter(base: str, setting: dict[str, Any]) -> None:
    records, design, models = documents(20), random_halves(3, 20), np.arange(3)
    recipe = recipe_for(base, lora=Lora(rank=4, dropout=0.1))
    plain = adapters(recipe, records, design, models)
    other = adapters(replace(recipe, **setting), records, design, models)
    assert all(distance(a, b) < ROUNDING for a, b in zip(other, plain, strict=True))


def test_tokens_behind_the_end_of_a_document_change_nothing(base: str) -> None:
    records, design, models = documents(16), random_halves(2, 16), np.arange(2)
    wider = replace(records, features=np.pad(records.features, ((0, 0), (0, 0)), constant_values=-1))
    longest = int((records.features >= 0).sum(1).max())
    narrow = replace(records, features=np.ascontiguousarray(records.features[:, :longest]))
    given, expected = (block(recipe_for(base), r, design, models) for r in (wider, narrow))
    for name in SIGNALS:
        np.testing.assert_allclose(given.signals[name], expected.signals[name], rtol=1e-4, atol=1e-5)


def norms_of(stack: AdapterStack, x: Tensor) -> list[float]:
    """The norm of each document's gradient, one document of one model at a time."""
    norms = []
    for model in range(len(x)):
        for document in range(x.shape[1]):
            one = torch.zeros(x.shape[:2])
            one[model, document] = 1.0
            own = stack.gradients(x, torch.zeros(x.shape[:2]), one)
            norms.append(float(torch.cat([g[model].flatten() for g in own]).double().norm()))
    return norms


def naive_clipped(stack: AdapterStack, x: Tensor, weight: Tensor, clip: float) -> list[Tensor]:
    """The weighted sum of clipped gradients, one document of one model at a time."""
    sums = [torch.zeros_like(p) for p in stack.parameters]
    for model in range(len(x)):
        for document in range(x.shape[1]):
            one = torch.zeros_like(weight)
            one[model, document] = 1.0
            own = [g[model] for g in stack.gradients(x, torch.zeros(x.shape[:2]), one)]
            norm = float(torch.cat([g.flatten() for g in own]).double().norm())
            factor = float(weight[model, document]) * min(1.0, clip / norm)
            for total, g in zip(sums, own, strict=True):
                total[model] += factor * g
    return sums


@pytest.mark.parametrize("accumulation", [1, 2])
def test_per_document_clipping_agrees_with_one_document_at_a_time(base: str, accumulation: int) -> None:
    recipe = recipe_for(base, accumulation=accumulation, privacy=Privacy(noise_multiplier=1.0))
    x = torch.from_numpy(documents(10, shortest=3).features).view(2, 5, -1)
    stack = language_stack(recipe, inputs_from(documents(10), CPU), np.arange(2), SEED, PLAIN)
    rng = torch.Generator().manual_seed(0)
    for p in stack.parameters:
        p.add_(torch.randn(p.shape, generator=rng) * 0.1)
    weight = torch.rand(2, 5, generator=rng)
    weight[1, 4] = 0.0  # nobody
    norms = norms_of(stack, x)
    clip = float(np.median(norms))  # half of the documents are clipped
    given = stack.clipped_gradients(x[:, :, None], torch.zeros(2, 5), weight, clip)
    for a, b in zip(given, naive_clipped(stack, x, weight, clip), strict=True):
        assert distance(a, b) < 1e-5


def test_dp_lora_trains_with_poisson_batches_and_noise_whatever_is_beside_it(base: str) -> None:
    records, design = documents(24), random_halves(4, 24)
    recipe = recipe_for(base, privacy=Privacy(noise_multiplier=0.5, clip=0.1, delta=1e-2))
    together = adapters(recipe, records, design, np.arange(4))
    alone = adapters(recipe, records, design, np.array([2]))
    assert all(distance(a[0], b[2]) < ROUNDING for a, b in zip(alone, together, strict=True))
    without = adapters(replace(recipe, privacy=None), records, design, np.array([2]))
    assert all(distance(a, b) > 0.1 for a, b in zip(alone, without, strict=True))


def test_signals_are_those_of_the_model_with_its_adapter_merged(base: str) -> None:
    """W + alpha / rank * up @ down, written into the weights of an ordinary model of transformers."""
    records, design, recipe = documents(12), random_halves(2, 12), recipe_for(base)
    signals = block(recipe, records, design, np.arange(2)).signals
    stack = language_stack(recipe, inputs_from(records, CPU), np.arange(2), SEED, PLAIN)
    plan = plan_of(design, None, np.arange(2), recipe, SEED)
    list(train(stack, inputs_from(records, CPU), plan, recipe))
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32).eval()
    state = stack.state()
    for name in {n.rpartition(".")[0] for n in state}:
        added = state[f"{name}.up"][1] @ state[f"{name}.down"][1] * 2
        model.get_submodule(name).weight.data += added.T
    for record, tokens in enumerate(records.features):
        ids = torch.from_numpy(tokens[tokens >= 0])[None].long()
        with torch.no_grad():
            loss = float(model(input_ids=ids, labels=ids).loss)
        assert signals["loss"][1, 0, record] == pytest.approx(loss, rel=1e-4)


def test_full_fine_tuning_moves_all_weights_and_starts_from_the_base(base: str) -> None:
    records, design = documents(12), random_halves(2, 12)
    recipe = recipe_for(base, full=True, lora=Lora(), lr=1e-3)
    before = digest_of(load_base(base, None).model)
    trained = block(recipe, records, design, np.arange(2))
    gaps = trained.signals["base_gap"][:, 0]
    assert trained.trainer == "serial"
    assert gaps[design.in_mask].mean() > gaps[~design.in_mask].mean()
    alone = block(recipe, records, design, np.array([1]))
    np.testing.assert_array_equal(alone.signals["loss"][0], trained.signals["loss"][1])
    assert digest_of(load_base(base, None).model) == before, "the shared base stays as it is"


@pytest.mark.slow
@pytest.mark.parametrize("save", [saved_gpt2, saved_bert, saved_llama])
def test_classifiers_learn_labels_with_a_head_of_their_own(save: Any, tmp_path: Path) -> None:
    records, design = documents(20, classes=2), random_halves(2, 20)
    recipe = recipe_for(save(tmp_path), epochs=12, lr=1e-2)
    trained = block(recipe, records, design, np.arange(2))
    loss = trained.signals["loss"][:, 0]
    assert loss[design.in_mask].mean() < 0.5 * loss[~design.in_mask].mean()
    alone = block(recipe, records, design, np.array([1]))
    np.testing.assert_allclose(alone.signals["loss"][0], trained.signals["loss"][1], rtol=1e-3, atol=1e-4)


def test_a_base_that_mixes_documents_is_trained_one_model_at_a_time(
    base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a mixture of experts does, which sorts the tokens of all documents."""
    recipe, inputs = recipe_for(base), inputs_from(documents(8), CPU)
    assert choose_language_trainer(recipe, inputs) == ("adapters", None)
    layer = transformers.models.gpt2.modeling_gpt2.GPT2MLP
    forward = layer.forward
    monkeypatch.setattr(layer, "forward", lambda self, x: forward(self, x.flip(0)))
    network_of.cache_clear()
    trainer, note = choose_language_trainer(recipe, inputs)
    assert trainer == "serial" and note is not None and "mix the documents" in note
    private = replace(recipe, privacy=Privacy(noise_multiplier=1.0))
    with pytest.raises(InputError, match=r"privacy: .* mix the documents"):
        choose_language_trainer(private, inputs)


def test_adapters_are_beside_every_linear_layer_of_the_blocks_or_those_named(base: str) -> None:
    model = load_base(base, None).model
    names = [
        f"transformer.h.{i}.{n}"
        for i in range(2)
        for n in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
    ]
    assert list(linear_layers(model)) == names
    assert list(linear_layers(model, ("mlp.c_proj",))) == [n for n in names if n.endswith("mlp.c_proj")]
    assert "lm_head" in linear_layers(model, ("lm_head",))
    with pytest.raises(InputError, match=r"lora.targets='q_proj': no linear layer has it; there are c_attn"):
        linear_layers(model, ("q_proj",))
