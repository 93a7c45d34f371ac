"""Wrong: noise is added in the first step of each epoch only.

The accountant counts every step as a noisy one. With a sampling rate of 1/4, an epoch has four steps, and
three of them add no noise.

Why it breaks the claim: the updates of these three steps are exact sums of clipped gradients. The guarantee
of DP-SGD covers the weights after every step, and here they show a record's gradient without noise: epsilon
is infinite. Even if the weights were released at the ends of epochs only, one record would move the sum of
an epoch by up to 4 x `clip`, against the noise of one step.

    python examples/broken_dp/noise_once_per_epoch.py
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
STEPS_PER_EPOCH = round(1 / SETTINGS.sampling_rate)


def train(canaries: Canaries) -> None:
    x, y = canaries.plant(*load_records())
    net = make_net(x.shape[1])
    optimizer = torch.optim.SGD(net.parameters(), lr=SETTINGS.lr)
    canaries.attach(net, optimizer)
    for step in range(SETTINGS.steps):
        batch = poisson_batch(len(x), SETTINGS.sampling_rate)
        sums = clipped_sums(gradients_per_record(net, x[batch], y[batch]), SETTINGS.clip)
        # Wrong: every step releases a sum, so every step needs noise.
        if step % STEPS_PER_EPOCH == 0:
            sums = with_noise(sums, SETTINGS.noise_multiplier * SETTINGS.clip)
        descend(optimizer, sums, SETTINGS.sampling_rate * len(x))


def audit(seed: int) -> ClaimVerdict:
    return audit_with_canaries(train, SETTINGS.claim(), seed)


if __name__ == "__main__":
    show(audit)
