"""Wrong: the noise is not scaled by the clipping norm.

The noise multiplier is a standard deviation in units of the clipping norm. This program adds noise of
standard deviation `noise_multiplier`, whatever the clipping norm is. With a clipping norm of 1, nobody would
notice. Here it is 10.

Why it breaks the claim: one record moves the sum by up to `clip` = 10, and the noise has a standard
deviation of 3. The noise multiplier is 0.3, a tenth of what the accountant was given. For 0.3, the
accountant says epsilon = 118 instead of 2.3.

    python examples/broken_dp/noise_without_clip.py
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

SETTINGS = Settings(clip=10.0, lr=0.05)


def train(canaries: Canaries) -> None:
    x, y = canaries.plant(*load_records())
    net = make_net(x.shape[1])
    optimizer = torch.optim.SGD(net.parameters(), lr=SETTINGS.lr)
    canaries.attach(net, optimizer)
    for _ in range(SETTINGS.steps):
        batch = poisson_batch(len(x), SETTINGS.sampling_rate)
        sums = clipped_sums(gradients_per_record(net, x[batch], y[batch]), SETTINGS.clip)
        # Wrong: the standard deviation has to be noise_multiplier * clip.
        sums = with_noise(sums, SETTINGS.noise_multiplier)
        descend(optimizer, sums, SETTINGS.sampling_rate * len(x))


def audit(seed: int) -> ClaimVerdict:
    return audit_with_canaries(train, SETTINGS.claim(), seed)


if __name__ == "__main__":
    show(audit)
