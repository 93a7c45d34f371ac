"""Gradient canaries go through somebody else's loop: sampled, clipped, summed and noised as any record."""

import pytest
import torch
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import leakscope
from leakscope.errors import InputError
from tests.dp.loops import private_gradients, records, small_net

NUMBER = 300


def trained(canaries: leakscope.dp.Canaries, *, noise: float, clip: float = 1.0, steps: int = 1) -> None:
    torch.manual_seed(0)
    x, y = canaries.plant(*records())
    model = small_net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    canaries.attach(model, optimizer)
    for _ in range(steps):
        gradients = private_gradients(model, x, y, noise, clip)
        for name, parameter in model.named_parameters():
            parameter.grad = gradients[name]
        optimizer.step()


def test_a_correct_loop_is_consistent_with_its_claim_and_the_bound_comes_close() -> None:
    canaries = leakscope.dp.Canaries(NUMBER, seed=1)
    trained(canaries, noise=1.0)
    verdict = canaries.audit(leakscope.dp.Claim(noise_multiplier=1.0, sampling_rate=1.0, steps=1))
    assert verdict.status == "consistent"
    assert verdict.evidence[0].epsilon > 1.5


def test_too_little_noise_is_refuted() -> None:
    canaries = leakscope.dp.Canaries(NUMBER, seed=1)
    trained(canaries, noise=0.3)
    verdict = canaries.audit(leakscope.dp.Claim(noise_multiplier=1.0, sampling_rate=1.0, steps=1))
    assert verdict.status == "refuted"
    assert str(verdict).startswith("Refuted: epsilon = 4.38 at delta = 1e-05. Epsilon is at least")


def test_a_loop_that_never_saw_a_canary_gets_no_verdict() -> None:
    canaries = leakscope.dp.Canaries(NUMBER, seed=1)
    canaries.plant(*records())
    model = small_net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    canaries.attach(model, optimizer)
    x, y = records()  # the user forgot to use what plant() returned
    functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    with pytest.raises(InputError, match="no canary reached the model"):
        canaries.audit(leakscope.dp.Claim(epsilon=1.0))


def test_dataset_with_placeholders_only_of_canaries_that_are_in() -> None:
    canaries = leakscope.dp.Canaries(NUMBER, seed=1)
    planted = canaries.plant(TensorDataset(*records(50)))
    assert len(planted) == 50 + canaries.is_in.sum()
    batches = list(DataLoader(planted, batch_size=16, shuffle=True))
    assert sum(len(x) for x, _ in batches) == len(planted)
