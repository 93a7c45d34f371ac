"""A stack of adapters against PEFT, which trains one of them alone on the same batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from leakscope.adapter_recipe import AdapterRecipe, Lora
from leakscope.train.adapters.choice import language_stack
from leakscope.train.adapters.stack import AdapterStack
from leakscope.train.loop import Inputs, inputs_from, train
from leakscope.train.losses import PLAIN
from leakscope.train.plan import BatchPlan
from leakscope.types import Design, Records
from tests.train.adapters.bases import documents, random_halves, saved_gpt2, saved_llama, transformers

pytestmark = pytest.mark.slow  # PEFT takes seconds to import
CPU, SEED = torch.device("cpu"), 3


def recipe_for(base: str, **options: Any) -> AdapterRecipe:
    settings = {
        "lora": Lora(rank=4, alpha=8.0),
        "batch_size": 3,
        "epochs": 5,
        "lr": 5e-3,
        "weight_decay": 0.01,
    }
    return AdapterRecipe(base=base, **{**settings, **options})


def trained(
    recipe: AdapterRecipe, records: Records, design: Design, models: np.ndarray
) -> tuple[AdapterStack, AdapterStack]:
    """The stack of these models as it begins, and trained."""
    inputs = inputs_from(records, CPU)
    before = language_stack(recipe, inputs, models, SEED, PLAIN)
    stack = language_stack(recipe, inputs, models, SEED, PLAIN)
    plan = BatchPlan(design, models, recipe.batch_size, SEED)
    assert list(train(stack, inputs, plan, recipe)) == list(range(1, recipe.epochs + 1))
    return before, stack


def peft_model(recipe: AdapterRecipe, state: dict[str, Tensor], model: int) -> tuple[Any, list[Tensor]]:
    """PEFT's model with the adapter that a model of the stack has, and its parameters in the same order."""
    peft = pytest.importorskip("peft", reason="leakscope[text] is not installed")
    own = transformers.AutoModelForCausalLM.from_pretrained(recipe.base, dtype=torch.float32)
    names = sorted({name.rpartition(".")[0].rpartition(".")[2] for name in state})
    config = peft.LoraConfig(
        r=recipe.lora.rank, lora_alpha=recipe.lora.alpha, target_modules=names, lora_dropout=0.0,
        fan_in_fan_out=type(own).__name__.startswith("GPT2"),
    )  # fmt: skip
    adapted = peft.get_peft_model(own, config).eval()
    named, parameters = dict(adapted.named_parameters()), []
    for name, values in state.items():
        layer, _, part = name.rpartition(".")
        letter = {"down": "A", "up": "B"}[part]
        parameter = named[f"base_model.model.{layer}.lora_{letter}.default.weight"]
        parameter.data.copy_(values[model])
        parameters.append(parameter)
    assert len(parameters) == sum(p.requires_grad for p in adapted.parameters())
    return adapted, parameters


def peft_loss(adapted: Any, tokens: Tensor) -> Tensor:
    """The mean over documents of the mean over their tokens."""
    ids, mask = tokens.clamp(min=0).long(), tokens >= 0
    logits = adapted(input_ids=ids, attention_mask=mask.long()).logits[:, :-1]
    losses = F.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")
    counted = mask[:, 1:]
    return ((losses * counted).sum(1) / counted.sum(1)).mean()


def trained_by_peft(
    recipe: AdapterRecipe, inputs: Inputs, state: dict[str, Tensor], plan: BatchPlan, model: int
) -> list[Tensor]:
    adapted, parameters = peft_model(recipe, state, model)
    optimizer = torch.optim.AdamW(parameters, lr=recipe.lr, weight_decay=recipe.weight_decay)
    n_steps = 0
    for order in plan.epochs(recipe.epochs):
        for rows, weights in zip(order[:, model], plan.weights(order)[:, model], strict=True):
            loss = peft_loss(adapted, inputs.x[torch.from_numpy(rows[weights > 0])])
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            n_steps += 1
    assert n_steps == 20
    return parameters


def distance(given: list[Tensor], expected: list[Tensor]) -> float:
    """Norm of the difference of all tensors, relative to that of the expected ones."""
    apart = sum(float((a - b).detach().double().square().sum()) for a, b in zip(given, expected, strict=True))
    return float((apart / sum(float(b.detach().double().square().sum()) for b in expected)) ** 0.5)


@pytest.mark.parametrize("save", [saved_gpt2, saved_llama])
def test_an_adapter_of_a_stack_is_the_one_that_peft_trains_alone(save: Any, tmp_path: Path) -> None:
    recipe, records = recipe_for(save(tmp_path)), documents(22)
    design, models = random_halves(3, len(records)), np.arange(3)
    before, after = trained(recipe, records, design, models)
    for model in (0, 2):
        plan = BatchPlan(design, models, recipe.batch_size, SEED)
        alone = trained_by_peft(recipe, inputs_from(records, CPU), before.state(), plan, model)
        moved = [p[model] for p in after.parameters]
        assert distance(moved, alone) < 1e-4
        # Adapters of `up` begin at zero: what they became is all training.
        ups = slice(1, None, 2)
        assert distance(moved[ups], alone[ups]) < 1e-4
        others = [p[1] for p in after.parameters]
        assert distance(others, alone) > 0.1, "the test can tell adapters apart"


def test_documents_of_one_length_have_the_loss_of_transformers(tmp_path: Path) -> None:
    recipe, records = recipe_for(saved_gpt2(tmp_path)), documents(6, shortest=24)
    stack = language_stack(recipe, inputs_from(records, CPU), np.arange(1), SEED, PLAIN)
    adapted, parameters = peft_model(recipe, stack.state(), 0)
    tokens = torch.from_numpy(records.features)
    loss = adapted(input_ids=tokens.long(), labels=tokens.long()).loss
    given = stack.gradients(tokens[None], torch.zeros(1, 6), torch.full((1, 6), 1 / 6))
    expected = torch.autograd.grad(loss, parameters)
    assert distance([g[0] for g in given[1::2]], list(expected[1::2])) < 1e-5
