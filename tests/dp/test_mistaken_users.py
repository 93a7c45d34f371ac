"""Users who plant twice, swap weights, change rates on the way or misstate steps are not misled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import leakscope
from leakscope.errors import InputError
from tests.dp.loops import FEATURES, private_gradients, records, small_net

NUMBER = 300
CLAIM = leakscope.dp.Claim(noise_multiplier=1.0, sampling_rate=1.0, steps=3)
Optimizer = Callable[[nn.Module], torch.optim.Optimizer]


def planted() -> tuple[leakscope.dp.Canaries, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    canaries = leakscope.dp.Canaries(NUMBER, seed=3)
    return canaries, *canaries.plant(*records())


def sgd(model: nn.Module, **options: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, **options)


def trained(
    make_optimizer: Optimizer = sgd,
    noise: float = 1.0,
    after_step: Callable[[nn.Module, torch.optim.Optimizer], None] = lambda *_: None,
    dtype: torch.dtype = torch.float32,
) -> leakscope.dp.Canaries:
    canaries, x, y = planted()
    model = small_net()
    optimizer = make_optimizer(model)
    canaries.attach(model, optimizer)
    for _ in range(3):
        gradients = private_gradients(model, x, y, noise)
        for name, parameter in model.named_parameters():
            parameter.grad = gradients[name]
        optimizer.step()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(parameter.to(dtype))  # weights that are stored in fewer digits
        after_step(model, optimizer)
    return canaries


def test_canaries_are_planted_once() -> None:
    canaries, x, y = planted()
    with pytest.raises(InputError, match="planted already"):
        canaries.plant(x, y)
    dataset = TensorDataset(*records())
    canaries = leakscope.dp.Canaries(20)
    canaries.plant(dataset)
    with pytest.raises(InputError, match="planted already"):
        canaries.plant(dataset)


def test_canaries_of_two_objects_in_one_training_set_are_refused() -> None:
    _, x, y = planted()
    second = leakscope.dp.Canaries(NUMBER, seed=2)
    x, y = second.plant(x, y)
    model = small_net()
    second.attach(model)
    with pytest.raises(InputError, match="canaries of another Canaries object"):
        model(x)


def noisy_weights(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)


def test_noise_that_is_added_between_steps_of_an_optimizer_with_memory_is_asked_for() -> None:
    canaries = trained(lambda model: sgd(model, momentum=0.9), noise=0.0, after_step=noisy_weights)
    with pytest.raises(InputError, match="changed between its steps"):
        canaries.audit(CLAIM)


@pytest.mark.slow
def test_noise_that_is_added_to_weights_after_a_plain_step_is_seen() -> None:
    assert trained(noise=0.0, after_step=noisy_weights).audit(CLAIM).status == "consistent"


def test_weights_that_are_averaged_for_an_evaluation_are_no_update() -> None:
    def evaluate_average(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        own = [parameter.detach().clone() for parameter in model.parameters()]
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(0.5)
            model(torch.zeros(3, FEATURES))
            for parameter, value in zip(model.parameters(), own, strict=True):
                parameter.copy_(value)

    np.testing.assert_array_equal(trained(after_step=evaluate_average).scores, trained().scores)


def changes_rates(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for group in optimizer.param_groups:
        group["lr"] *= 0.1
        if group.get("momentum"):
            group["momentum"] -= 0.1
        if "betas" in group:
            group["betas"] = (group["betas"][0] - 0.1, group["betas"][1])


@pytest.mark.parametrize(
    "make_optimizer",
    [sgd, lambda model: sgd(model, momentum=0.9), lambda model: sgd(model, weight_decay=2.0),
     lambda model: sgd(model, momentum=0.9, weight_decay=2.0),
     lambda model: torch.optim.Adam(model.parameters(), weight_decay=2.0)],
    ids=["SGD", "momentum", "weight decay", "both", "Adam"],
)  # fmt: skip
def test_schedules_of_rates_and_momentum_hide_nothing(make_optimizer: Optimizer) -> None:
    scheduled, plain = trained(make_optimizer, after_step=changes_rates), trained()
    assert np.corrcoef(scheduled.scores, plain.scores)[0, 1] > 0.999


def groups_with_and_without_momentum(model: nn.Module) -> torch.optim.Optimizer:
    first, *rest = model.parameters()
    groups = [{"params": [first], "momentum": 0.9}, {"params": rest, "momentum": 0.5}]
    return torch.optim.SGD(groups, lr=0.1)


def test_groups_may_have_momentum_of_their_own() -> None:
    scores = trained(groups_with_and_without_momentum).scores
    assert np.corrcoef(scores, trained().scores)[0, 1] > 0.999


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_weights_of_fewer_digits_do_not_refute_a_true_claim(dtype: torch.dtype) -> None:
    verdict = trained(dtype=dtype).audit(CLAIM)
    assert verdict.status == "consistent"
    assert not any("no noise was seen" in s for e in verdict.evidence for s in e.assumed)


def test_a_wrong_number_of_steps_is_named() -> None:
    claim = leakscope.dp.Claim(noise_multiplier=1.0, sampling_rate=1.0, steps=5)
    (evidence, *_) = trained().audit(claim).evidence
    assert "The claim has 5 steps; 3 updates were observed." in evidence.assumed


@pytest.mark.slow
def test_canaries_that_are_never_drawn_are_named() -> None:
    canaries = leakscope.dp.Canaries(NUMBER, seed=3)
    dataset = canaries.plant(TensorDataset(*records()))
    model = small_net()
    canaries.attach(model)
    (x, y), *_ = DataLoader(
        dataset, batch_size=len(dataset) - 40, drop_last=True
    )  # in order: the last are lost
    with torch.no_grad():
        for parameter, gradient in zip(
            model.parameters(), private_gradients(model, x, y, 1.0).values(), strict=True
        ):
            parameter -= gradient
    n_in = canaries.is_in.sum()
    assert (
        f"Only {n_in - 40} of the {n_in} canaries that are in were drawn, which weakens the test."
        in canaries.audit(CLAIM).evidence[0].assumed
    )
