"""Canaries in trainings with Opacus, whose clipping they have to reach."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import leakscope
from leakscope.dp.verdict import ClaimVerdict
from tests.dp.loops import records, small_net

pytest.importorskip("opacus", reason="opacus is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")  # Opacus warns about its own defaults


def audited(noise: float, *, claimed: float = 1.0, parts: int = 1, wrap_model: bool = True) -> ClaimVerdict:
    from opacus import PrivacyEngine

    torch.manual_seed(0)
    canaries = leakscope.dp.Canaries(300, seed=1)
    dataset = canaries.plant(TensorDataset(*records()))
    model = small_net()
    wrapped, optimizer, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(dataset, batch_size=len(dataset)),
        noise_multiplier=noise,
        max_grad_norm=1.0,
        wrap_model=wrap_model,
    )
    called = wrapped if wrap_model else model
    canaries.attach(called, optimizer)
    for x, y in loader:
        optimizer.zero_grad()
        for part in torch.arange(len(x)).chunk(parts):  # gradients accumulate over backward passes
            functional.cross_entropy(called(x[part]), y[part]).backward()
        optimizer.step()
    return canaries.audit(leakscope.dp.Claim(noise_multiplier=claimed, sampling_rate=1.0, steps=1))


@pytest.mark.parametrize("wrap_model", [True, False])
def test_a_true_claim_is_consistent_and_the_bound_comes_close(wrap_model: bool) -> None:
    verdict = audited(1.0, wrap_model=wrap_model)
    assert verdict.status == "consistent"
    assert verdict.evidence[0].epsilon > 2


@pytest.mark.parametrize("wrap_model", [True, False])
def test_too_little_noise_is_refuted(wrap_model: bool) -> None:
    assert audited(0.4, wrap_model=wrap_model).status == "refuted"


def test_canaries_in_several_backward_passes_reach_the_clipping() -> None:
    whole, parts = audited(0.4), audited(0.4, parts=2)
    assert parts.status == "refuted"
    assert parts.evidence[0].epsilon == pytest.approx(whole.evidence[0].epsilon, rel=0.05)
