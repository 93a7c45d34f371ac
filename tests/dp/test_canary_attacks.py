"""Attacks on the test itself: code that hides from canaries is named, and other noise is not refuted."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import leakscope
from leakscope.dp.one_run import audit_scores
from leakscope.dp.planted import DAMAGED, FIRST_CODE, canaries_in
from leakscope.errors import InputError

CLAIM = leakscope.dp.Claim(noise_multiplier=1.0, sampling_rate=1.0, steps=5)


def audited(sign=-1.0, sigma=0.01, label=1.0, optimizer=None, rates=None, **given):
    """A loop that clips the gradients of a full batch per record, with too little noise."""
    torch.manual_seed(0)
    x, y = torch.randn(40, 8), torch.full((40, 1), label)
    canaries = leakscope.dp.Canaries(200, seed=3)
    x, y = canaries.plant(x, y)
    model = nn.Sequential(nn.Linear(8, 40), nn.Linear(40, 1))
    parameters = list(model.parameters())
    groups = [{"params": parameters[:2], "lr": (rates or (0.1, 0.1))[0]},
              {"params": parameters[2:], "lr": (rates or (0.1, 0.1))[1]}]  # fmt: skip
    stepper = optimizer(groups, **given) if optimizer else None
    canaries.attach(model, *([stepper] if stepper else []))
    for _ in range(CLAIM.steps):
        summed = [torch.zeros_like(p) for p in parameters]
        for one, target in zip(x, y, strict=True):
            loss = functional.mse_loss(model(one[None]), target[None])
            gradients = torch.autograd.grad(loss, parameters)
            scale = 1 / max(1.0, float(sum(g.pow(2).sum() for g in gradients).sqrt()))
            summed = [s + scale * g for s, g in zip(summed, gradients, strict=True)]
        with torch.no_grad():
            for p, s in zip(parameters, summed, strict=True):
                noisy = s + sigma * torch.randn_like(s)
                if stepper:
                    p.grad = noisy
                else:
                    p += sign * 0.1 * noisy
            if stepper:
                stepper.step()
    return canaries.audit(CLAIM)


@pytest.mark.slow
def test_a_loop_that_descends_is_refuted_and_one_that_ascends_is_named():
    assert audited().status == "refuted"
    with pytest.raises(InputError, match="opposite sign"):
        audited(sign=1.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("optimizer", "given"),
    [(torch.optim.SGD, {"maximize": True}), (torch.optim.SGD, {"maximize": True, "momentum": 0.9}),
     (torch.optim.Adam, {"maximize": True}), (torch.optim.SGD, {"rates": (0.1, 1.0)})],
)  # fmt: skip
def test_ascent_and_several_learning_rates_hide_nothing(optimizer, given):
    verdict = audited(optimizer=optimizer, **given)
    assert verdict.status == "refuted"
    assert any(
        "settings of DP-SGD" in e.method and e.epsilon > CLAIM.claimed_epsilon() for e in verdict.evidence
    )


@pytest.mark.slow
def test_a_loss_without_a_slope_at_canaries_is_named():
    with pytest.raises(InputError, match="does not depend on the outputs of canaries"):
        audited(label=0.5)


def test_placeholders_that_were_changed_are_noticed():
    whole = torch.full((1, 3, 4, 4), float(FIRST_CODE - 7))
    padded = whole.clone()
    padded[..., 0] = 0.0
    assert canaries_in(torch.cat([whole, padded, torch.zeros(1, 3, 4, 4)]), 10).tolist() == [7, DAMAGED, -1]
    with pytest.raises(InputError, match="cannot be distinguished"):
        canaries_in(whole.bfloat16(), 10)
    canaries = leakscope.dp.Canaries(50, seed=0)
    x, _ = canaries.plant(torch.zeros(5, 3, 4, 4), torch.zeros(5))
    model = nn.Sequential(nn.Flatten(), nn.Linear(48, 2))
    canaries.attach(model)
    with pytest.raises(InputError, match="parts of a canary"):
        model(functional.pad(x, (1, 1, 1, 1))[:, :, :4, :4])


@pytest.mark.slow
@pytest.mark.parametrize("n_steps", [8, 40])
def test_a_private_training_by_laplace_noise_is_not_refuted(n_steps):
    """Sums over steps look Gaussian; each step is epsilon = 8 / steps, and the whole claim is true."""
    refuted = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        is_in = rng.random(1000) < 0.5
        updates = is_in + rng.laplace(0, n_steps / 8, (n_steps, 1000))
        for delta in (1e-5, 0.0):
            claim = leakscope.dp.Claim(8.0, delta=delta)
            verdict = audit_scores(updates.sum(axis=0), is_in, claim, white_box=True, updates=updates)
            refuted += verdict.status == "refuted"
    assert refuted <= 2  # of 80


@pytest.mark.parametrize(("n_updates", "status"), [(1, "not testable"), (2, "refuted"), (3, "refuted")])
def test_updates_without_noise_refute_what_one_of_them_cannot(n_updates, status):
    is_in = np.random.default_rng(0).random(1000) < 0.5
    updates = np.tile(is_in.astype(float), (n_updates, 1))
    claim = leakscope.dp.Claim(8.0)
    verdict = audit_scores(updates.sum(axis=0), is_in, claim, white_box=True, updates=updates)
    assert verdict.status == status
    assert ("cannot refute epsilon = 8" in verdict.needed) == (status == "not testable")


@pytest.mark.parametrize("wrong", [{"number": 3}, {"number": 1000.0}, {"norm": 0.0}, {"norm": float("nan")}])
def test_canaries_that_test_nothing_are_refused(wrong):
    with pytest.raises(InputError):
        leakscope.dp.Canaries(**wrong)


def test_labels_have_a_row_per_record():
    with pytest.raises(InputError, match="one row per record"):
        leakscope.dp.Canaries(20).plant(torch.zeros(5, 3), torch.zeros(3))
