"""Wrong: batch norm in a network that is trained with DP-SGD.

The network standardizes its inputs by the mean and the variance of the batch. Gradients are then computed
per record, clipped and noised as they should be.

Why it breaks the claim: clipping bounds what a record does through its own gradient. Through the mean and
the variance of the batch, the record also changes the gradients of all other records in the batch. The sum
may move by 2 x `clip` for each of them. Besides, batch norm stores running means, and the model is released
with them. They contain no noise, so epsilon is infinite. Group norm and layer norm avoid both: they look at
one record at a time.

    python examples/broken_dp/batch_norm.py
"""

from __future__ import annotations

import torch
from auditing import audit_with_marked_records, show
from dp_sgd import (
    Settings,
    clipped_sums,
    descend,
    gradients_per_record,
    make_net,
    poisson_batch,
    with_noise,
)
from torch import Tensor, nn

from leakscope.array_types import FloatArray
from leakscope.dp.verdict import ClaimVerdict

SETTINGS = Settings()


def train(x: Tensor, y: Tensor) -> FloatArray:
    """The running means of the trained network."""
    # Wrong: outputs of this layer depend on all records of the batch, and its buffers have no noise.
    norm = nn.BatchNorm1d(x.shape[1], affine=False)
    net = make_net(x.shape[1])
    optimizer = torch.optim.SGD(net.parameters(), lr=SETTINGS.lr)
    for _ in range(SETTINGS.steps):
        batch = poisson_batch(len(x), SETTINGS.sampling_rate)
        gradients = gradients_per_record(net, norm(x[batch]), y[batch])
        sums = with_noise(clipped_sums(gradients, SETTINGS.clip), SETTINGS.noise_multiplier * SETTINGS.clip)
        descend(optimizer, sums, SETTINGS.sampling_rate * len(x))
    assert norm.running_mean is not None
    return norm.running_mean.double().numpy()


def audit(seed: int) -> ClaimVerdict:
    return audit_with_marked_records(train, SETTINGS.claim(), seed)


if __name__ == "__main__":
    show(audit)
