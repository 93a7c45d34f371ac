"""Wrong: one layer is left out of the clipping.

The list of clipped parameters was written when the network had one layer less. The gradients of the first
layer are summed as they are. Noise is added to all layers.

Why it breaks the claim: the gradient of a linear layer grows with its input. One record with a large feature
moves the sum of the first layer by any amount. The sensitivity is not `clip`; it is unbounded, and so is
epsilon.

    python examples/broken_dp/unclipped_layer.py
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
        first_weight, first_bias, *others = gradients_per_record(net, x[batch], y[batch])
        # Wrong: the first layer's gradients count neither for the norm, nor are they scaled down.
        sums = [first_weight.sum(0), first_bias.sum(0), *clipped_sums(others, SETTINGS.clip)]
        sums = with_noise(sums, SETTINGS.noise_multiplier * SETTINGS.clip)
        descend(optimizer, sums, SETTINGS.sampling_rate * len(x))


def audit(seed: int) -> ClaimVerdict:
    return audit_with_canaries(train, SETTINGS.claim(), seed)


if __name__ == "__main__":
    show(audit)
