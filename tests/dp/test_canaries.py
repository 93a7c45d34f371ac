"""Gradient canaries go through somebody else's loop: sampled, clipped, summed and noised as any record."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import leakscope
from leakscope.errors import InputError
from tests.dp.loops import private_gradients, records, small_net

NUMBER = 300
CLAIM = leakscope.dp.Claim(noise_multiplier=1.0, sampling_rate=1.0, steps=1)


def planted(number: int = NUMBER, **options: Any) -> tuple[leakscope.dp.Canaries, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    canaries = leakscope.dp.Canaries(number, seed=1, **options)
    return canaries, *canaries.plant(*records())


def step(model: nn.Module, optimizer: torch.optim.Optimizer, gradients: dict[str, torch.Tensor]) -> None:
    for name, parameter in model.named_parameters():
        parameter.grad = gradients[name]
    optimizer.step()


def trained(
    noise: float, make_optimizer: Any = torch.optim.SGD, steps: int = 1, **options: Any
) -> leakscope.dp.Canaries:
    canaries, x, y = planted()
    model = small_net()
    optimizer = make_optimizer(model.parameters(), lr=0.1, **options)
    canaries.attach(model, optimizer)
    for _ in range(steps):
        step(model, optimizer, private_gradients(model, x, y, noise))
    return canaries


class NoiseInStep(torch.optim.SGD):
    """Adds the noise where no hook before the step can see it."""

    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad += torch.randn_like(parameter)
        super().step()


@pytest.mark.slow
def test_a_correct_loop_is_consistent_with_its_claim_and_the_bound_comes_close() -> None:
    verdict = trained(noise=1.0).audit(CLAIM)
    assert verdict.status == "consistent"
    assert 2 < verdict.evidence[0].epsilon < verdict.epsilon


@pytest.mark.slow
def test_too_little_noise_is_refuted() -> None:
    verdict = trained(noise=0.3).audit(CLAIM)
    assert verdict.status == "refuted"
    assert str(verdict).startswith(
        "The claim of epsilon = 4.38 at delta = 1e-05 is refuted with 95% confidence"
    )


def test_a_clipping_norm_above_the_one_of_the_noise_is_refuted() -> None:
    canaries, x, y = planted()
    model = small_net()
    canaries.attach(model)
    gradients = private_gradients(model, x, y, noise=1 / 100, clip=100.0)  # noise of 1, gradients up to 100
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter -= gradients[name]
    assert canaries.audit(CLAIM).status == "refuted"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("optimizer", "options"), [(torch.optim.Adam, {}), (torch.optim.SGD, {"momentum": 0.9})], ids=str
)
def test_optimizers_with_memory_show_the_gradient_of_each_step(optimizer: Any, options: Any) -> None:
    claim = leakscope.dp.Claim(noise_multiplier=1.0, sampling_rate=1.0, steps=3)
    plain = trained(1.0, steps=3).audit(claim).evidence[0].epsilon
    other = trained(1.0, optimizer, steps=3, **options).audit(claim).evidence[0].epsilon
    assert other == pytest.approx(plain, rel=0.05)


@pytest.mark.slow
def test_noise_that_an_optimizer_adds_in_its_step_is_seen() -> None:
    assert trained(0.0, NoiseInStep).audit(CLAIM).status == "consistent"


@pytest.mark.slow
def test_parameters_that_the_optimizer_does_not_train_are_not_read() -> None:
    canaries, x, y = planted(number=100)
    model = small_net()
    head = model[2]
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    canaries.attach(model, optimizer)
    gradients = private_gradients(model, x, y, 1.0)
    for name, parameter in model.named_parameters():
        parameter.grad = gradients[name] if name.startswith("2") else 1e6 * torch.ones_like(parameter)
    optimizer.step()
    assert canaries.audit(CLAIM).status == "consistent"


@pytest.mark.slow
def test_a_loop_without_gradients_per_sample() -> None:
    canaries, x, y = planted()
    model = small_net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    canaries.attach(model, optimizer)
    functional.cross_entropy(model(x), y).backward()  # clipping as a batch: no record is bounded
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for parameter in model.parameters():
        assert parameter.grad is not None
        parameter.grad += torch.randn_like(parameter) / len(x)
    optimizer.step()
    assert canaries.audit(CLAIM).status == "refuted"


def test_updates_without_noise_are_named() -> None:
    assumed = trained(0.0).audit(CLAIM).evidence[0].assumed
    assert any(sentence.startswith("In 1 of 1 updates, next to no noise was seen") for sentence in assumed)
    assert not any("no noise" in s for e in trained(1.0).audit(CLAIM).evidence for s in e.assumed)


def test_a_loop_that_never_saw_a_canary_gets_no_verdict() -> None:
    canaries, _, _ = planted()
    model = small_net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    canaries.attach(model, optimizer)
    x, y = records()  # the user forgot to use what plant() returned
    functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    with pytest.raises(InputError, match="no canary reached the model"):
        canaries.audit(CLAIM)


def test_canaries_in_features_that_were_changed_later_do_not_count_as_seen() -> None:
    canaries, x, y = planted()
    model = small_net()
    canaries.attach(model)
    functional.cross_entropy(model((x - x.mean()) / x.std()), y).backward()
    with pytest.raises(InputError, match="plant after steps that change the features"):
        canaries.audit(CLAIM)


def test_parameters_outside_the_model_have_to_be_observed() -> None:
    canaries, x, y = planted()
    model = small_net()
    canaries.attach(model)
    gradients = private_gradients(model, x, y, 1.0)
    with pytest.raises(InputError, match="no update was observed"):
        canaries.audit(CLAIM)
    canaries.observe(gradients)
    assert canaries.audit(CLAIM).status == "consistent"


def test_gradients_per_sample_without_canaries_get_no_verdict() -> None:
    canaries, x, _ = planted()
    model = small_net()
    canaries.attach(model)
    for parameter in model.parameters():  # somebody's hooks compute them, and nobody called insert()
        parameter.grad_sample = torch.zeros(len(x), *parameter.shape)  # type: ignore[attr-defined]
    model(x)
    with pytest.raises(InputError, match="call insert"):
        canaries.audit(CLAIM)


def test_more_canaries_than_parameters_are_refused() -> None:
    canaries, _, _ = planted(number=1000)
    with pytest.raises(InputError, match="1,000 canaries, but the model has 484 trainable parameters"):
        canaries.attach(small_net())


@pytest.mark.parametrize("silence_others", [True, False])
def test_other_records_are_silent_or_as_usual(silence_others: bool) -> None:
    canaries, x, y = planted(silence_others=silence_others)
    model = small_net()
    usual = copy.deepcopy(model)
    canaries.attach(model)
    x, y = x[:100], y[:100]
    functional.cross_entropy(model(x), y).backward()
    functional.cross_entropy(usual(x), y).backward()
    for parameter, other in zip(model.parameters(), usual.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, 0 * other.grad if silence_others else other.grad)


def test_an_evaluation_is_left_alone() -> None:
    canaries, x, _ = planted()
    model = small_net()
    with torch.no_grad():
        before = model(x)
        canaries.attach(model)
        torch.testing.assert_close(model(x), before)


def test_a_batch_may_be_empty() -> None:
    canaries, x, y = planted()
    model = small_net()
    canaries.attach(model)
    functional.cross_entropy(model(x[:0]), y[:0], reduction="sum").backward()


def test_each_canary_has_a_gradient_of_its_own_and_no_other() -> None:
    canaries, x, y = planted()
    model = small_net()
    canaries.attach(model)
    rows = []
    for row in range(100, len(x)):
        gradient = torch.autograd.grad(
            functional.cross_entropy(model(x[row : row + 1]), y[:1]), model.parameters()
        )
        rows.append(torch.cat([g.flatten() for g in gradient]))
    nonzero = torch.stack(rows) != 0
    assert (nonzero.sum(dim=1) == 1).all()
    assert nonzero.sum(dim=0).max() == 1
    assert torch.stack(rows).max(dim=1).values.min() > 1e5


def test_dataset_with_placeholders_only_of_canaries_that_are_in() -> None:
    canaries = leakscope.dp.Canaries(NUMBER, seed=1)
    dataset = canaries.plant(TensorDataset(*records(50)))
    assert len(dataset) == 50 + canaries.is_in.sum()
    batches = list(DataLoader(dataset, batch_size=16, shuffle=True))
    assert sum(len(x) for x, _ in batches) == len(dataset)
    assert 0.4 < canaries.is_in.mean() < 0.6


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (TensorDataset(torch.zeros(3, 2).half()), "float16"),
        ([torch.zeros(2)], "tuples"),
        (iter([1]), r"len\(\) and \[index\]"),
    ],
)
def test_datasets_without_room_for_canaries_are_refused(dataset: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        leakscope.dp.Canaries(10).plant(dataset)


def test_the_order_of_calls_matters() -> None:
    with pytest.raises(InputError, match="plant canaries"):
        leakscope.dp.Canaries(10).attach(small_net())
    with pytest.raises(InputError, match="attach the canaries"):
        leakscope.dp.Canaries(10).audit(CLAIM)


def test_coins_that_training_did_not_use_give_no_evidence() -> None:
    canaries = trained(0.1)
    coins = np.random.default_rng(5).random(NUMBER) < 0.5
    verdict = leakscope.dp.audit_scores(canaries.scores, coins, CLAIM, white_box=True)
    assert verdict.evidence[0].epsilon < 0.5


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(InputError, match="seed=-1"):
        leakscope.dp.Canaries(20, seed=-1)
    net = small_net()
    canaries, _, _ = planted(20)
    canaries.attach(net)
    gradients = {name: torch.zeros_like(p) for name, p in net.named_parameters()}
    name = next(iter(gradients))
    with pytest.raises(InputError, match=f"no gradient of {name}"):
        canaries.observe({other: g for other, g in gradients.items() if other != name})
    with pytest.raises(InputError, match="shapes"):
        canaries.observe([gradient.flatten() for gradient in gradients.values()])
    with pytest.raises(InputError, match="shapes"):
        canaries.observe(list(gradients.values())[:-1])


@pytest.mark.parametrize(
    ("make_optimizer", "options"),
    [(torch.optim.SGD, {"weight_decay": 9.0}),
     (torch.optim.SGD, {"weight_decay": 9.0, "momentum": 0.9, "dampening": 0.5}),
     (torch.optim.Adam, {"weight_decay": 10.0}), (torch.optim.AdamW, {"weight_decay": 1.0}),
     (torch.optim.SGD, {"weight_decay": 9.0, "momentum": 0.9, "maximize": True})],
)  # fmt: skip
def test_weight_decay_hides_nothing(make_optimizer: Any, options: dict[str, Any]) -> None:
    """Scores are those of the same training without it."""
    plain = {name: value for name, value in options.items() if name != "weight_decay"}
    with_decay, without = (trained(1.0, make_optimizer, 3, **some).scores for some in (options, plain))
    assert np.corrcoef(with_decay, without)[0, 1] > 0.999


@pytest.mark.slow
def test_too_little_noise_in_many_updates_is_refuted_however_high_the_claim() -> None:
    claim = leakscope.dp.Claim(noise_multiplier=1.0, sampling_rate=1.0, steps=20)
    assert claim.claimed_epsilon() > 25
    assert trained(noise=1.0, steps=20).audit(claim).status == "consistent"
    assert trained(noise=0.4, steps=20).audit(claim).status == "refuted"


def test_an_optimizer_that_rescales_gradients_is_named() -> None:
    (evidence, *_) = trained(1.0, torch.optim.RMSprop, 2).audit(CLAIM).evidence
    assert any("The optimizer rescales gradients" in sentence for sentence in evidence.assumed)
