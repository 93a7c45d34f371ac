"""Canaries in trainings with Opacus, whose clipping they have to reach."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import leakscope
from leakscope.dp.verdict import ClaimVerdict
from leakscope.errors import InputError
from tests.dp.loops import records, small_net

pytestmark = pytest.mark.filterwarnings("ignore")  # Opacus warns about its own defaults

CLAIM = leakscope.dp.Claim(noise_multiplier=1.0, sampling_rate=1.0, steps=1)


@pytest.fixture(autouse=True, scope="module")
def opacus() -> None:
    """Imported where these tests run, not in every process that collects them."""
    pytest.importorskip("opacus", reason="opacus is not installed")


class Training:
    """One private step on all records."""

    def __init__(self, noise: float, **options: Any) -> None:
        from opacus import PrivacyEngine

        torch.manual_seed(0)
        self.canaries = leakscope.dp.Canaries(300, seed=1)
        dataset = self.canaries.plant(TensorDataset(*records()))
        model = small_net()
        made, self.optimizer, self.loader = PrivacyEngine().make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=DataLoader(dataset, batch_size=len(dataset)),
            noise_multiplier=noise,
            max_grad_norm=1.0,
            **options,
        )
        self.model = made if options.get("wrap_model", True) else model
        self.canaries.attach(self.model, self.optimizer)

    def run(self, loader: Any = None, parts: int = 1) -> ClaimVerdict:
        for x, y in loader or self.loader:
            self.optimizer.zero_grad()
            for part in torch.arange(len(x)).chunk(parts):  # gradients accumulate over backward passes
                functional.cross_entropy(self.model(x[part]), y[part]).backward()
            self.optimizer.step()
        return self.canaries.audit(CLAIM)


@pytest.mark.parametrize("wrap_model", [True, False])
def test_a_true_claim_is_consistent_and_the_bound_comes_close(wrap_model: bool) -> None:
    verdict = Training(1.0, wrap_model=wrap_model).run()
    assert verdict.status == "consistent"
    assert verdict.evidence[0].epsilon > 2


@pytest.mark.slow
@pytest.mark.parametrize("wrap_model", [True, False])
def test_too_little_noise_is_refuted(wrap_model: bool) -> None:
    assert Training(0.4, wrap_model=wrap_model).run().status == "refuted"


@pytest.mark.slow
def test_canaries_in_several_backward_passes_reach_the_clipping() -> None:
    assert Training(0.4, poisson_sampling=False).run(parts=3).status == "refuted"


@pytest.mark.slow
def test_canaries_in_parts_of_a_batch_that_fit_into_memory_reach_the_clipping() -> None:
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    training = Training(0.4)
    with BatchMemoryManager(
        data_loader=training.loader, max_physical_batch_size=100, optimizer=training.optimizer
    ) as loader:
        assert training.run(loader).status == "refuted"


def test_ghost_clipping_is_refused_because_canaries_cannot_reach_it() -> None:
    from opacus import PrivacyEngine

    canaries = leakscope.dp.Canaries(300, seed=1)
    dataset = canaries.plant(TensorDataset(*records()))
    model = small_net()
    made, optimizer, _, _ = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(dataset, batch_size=len(dataset)),
        criterion=torch.nn.CrossEntropyLoss(),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        grad_sample_mode="ghost",
    )
    with pytest.raises(InputError, match="ghost clipping"):
        canaries.attach(made, optimizer)
