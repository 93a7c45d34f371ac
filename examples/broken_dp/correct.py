"""Correct DP-SGD, the control of this folder.

Each record joins a batch independently (Poisson sampling). Its gradient is scaled down to norm `clip` over
all parameters together. Every step adds noise of standard deviation `noise_multiplier` x `clip` to the sum
of these gradients.

One record more or less moves a sum by at most `clip`. So the accountant's epsilon, 2.3, holds.

    python examples/broken_dp/correct.py
"""

from __future__ import annotations

import torch
from auditing import audit_with_canaries, show
from dp_sgd import (
    Settings,
    clipped_sums,
    descend,
    gradients_per_record,
    load_records,
    make_net,
    poisson_batch,
    with_noise,
)

from leakscope.dp import Canaries
from leakscope.dp.verdict import ClaimVerdict

SETTINGS = Settings()


def train(canaries: Canaries) -> None:
    x, y = canaries.plant(*load_records())
    net = make_net(x.shape[1])
    optimizer = torch.optim.SGD(net.parameters(), lr=SETTINGS.lr)
    canaries.attach(net, optimizer)
    for _ in range(SETTINGS.steps):
        batch = poisson_batch(len(x), SETTINGS.sampling_rate)
        sums = clipped_sums(gradients_per_record(net, x[batch], y[batch]), SETTINGS.clip)
        sums = with_noise(sums, SETTINGS.noise_multiplier * SETTINGS.clip)
        descend(optimizer, sums, SETTINGS.sampling_rate * len(x))


def audit(seed: int) -> ClaimVerdict:
    return audit_with_canaries(train, SETTINGS.claim(), seed)


if __name__ == "__main__":
    show(audit)
