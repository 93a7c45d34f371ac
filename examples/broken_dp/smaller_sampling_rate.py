"""Wrong: the accountant is given a smaller sampling rate than the loader uses. With Opacus.

A batch is too large for memory, so Opacus's `BatchMemoryManager` splits it into about 8 parts. The noise for
epsilon = 1 is computed for the sampling rate of a part, 1/32. A step uses the whole batch: its rate is 1/4.

Why it breaks the claim: a record is in eight times as many batches as the accountant assumes. For a rate of
1/4, the accountant says epsilon = 6.8 instead of 1.

    python examples/broken_dp/smaller_sampling_rate.py
"""

from __future__ import annotations

import warnings

import torch
from auditing import audit_with_canaries, show
from dp_sgd import load_records, make_net
from opacus import PrivacyEngine
from opacus.accountants.utils import get_noise_multiplier
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from leakscope.dp import Canaries, Claim
from leakscope.dp.verdict import ClaimVerdict

EPSILON, DELTA, CLIP = 1.0, 1e-5, 1.0
EPOCHS, BATCHES_PER_EPOCH, PARTS_PER_BATCH = 10, 4, 8


def train(canaries: Canaries) -> None:
    dataset = canaries.plant(TensorDataset(*load_records()))
    batch_size = len(dataset) // BATCHES_PER_EPOCH
    part_size = batch_size // PARTS_PER_BATCH
    noise_multiplier = get_noise_multiplier(
        target_epsilon=EPSILON,
        target_delta=DELTA,
        sample_rate=part_size / len(dataset),  # Wrong: a step samples batch_size / len(dataset).
        steps=EPOCHS * BATCHES_PER_EPOCH,
    )
    net = make_net(64)
    net, optimizer, loader = PrivacyEngine().make_private(
        module=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=0.5),
        data_loader=DataLoader(dataset, batch_size=batch_size),
        noise_multiplier=noise_multiplier,
        max_grad_norm=CLIP,
    )
    canaries.attach(net, optimizer)
    for _ in range(EPOCHS):
        with BatchMemoryManager(
            data_loader=loader, max_physical_batch_size=part_size, optimizer=optimizer
        ) as parts:
            for x, y in parts:
                optimizer.zero_grad()
                functional.cross_entropy(net(x), y).backward()
                optimizer.step()


def audit(seed: int) -> ClaimVerdict:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Opacus warns about its generator of noise
        return audit_with_canaries(train, Claim(epsilon=EPSILON, delta=DELTA), seed)


if __name__ == "__main__":
    show(audit)
