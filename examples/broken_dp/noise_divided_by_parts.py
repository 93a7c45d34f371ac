"""Wrong: gradient accumulation divides the noise by the number of parts, in each part.

A batch is too large for memory, so it is processed in 25 parts. Each part adds noise of a 25th of the
standard deviation, in the belief that 25 of them add up to the whole.

Why it breaks the claim: variances add up, not standard deviations. The noise of all parts together has the
standard deviation sqrt(25) x `noise_multiplier` x `clip` / 25, a fifth of what is claimed. The noise
multiplier is 0.6 instead of 3. For 0.6, the accountant says epsilon = 28.6 instead of 2.3. Right: add all of
the noise once, after the last part.

    python examples/broken_dp/noise_divided_by_parts.py
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
PARTS = 25


def train(canaries: Canaries) -> None:
    x, y = canaries.plant(*load_records())
    net = make_net(x.shape[1])
    optimizer = torch.optim.SGD(net.parameters(), lr=SETTINGS.lr)
    canaries.attach(net, optimizer)
    for _ in range(SETTINGS.steps):
        sums = [torch.zeros_like(parameter) for parameter in net.parameters()]
        for part in poisson_batch(len(x), SETTINGS.sampling_rate).tensor_split(PARTS):
            part_sums = clipped_sums(gradients_per_record(net, x[part], y[part]), SETTINGS.clip)
            # Wrong: the standard deviation of a part may be divided by sqrt(PARTS) at most.
            part_sums = with_noise(part_sums, SETTINGS.noise_multiplier * SETTINGS.clip / PARTS)
            sums = [total + of_part for total, of_part in zip(sums, part_sums, strict=True)]
        descend(optimizer, sums, SETTINGS.sampling_rate * len(x))


def audit(seed: int) -> ClaimVerdict:
    return audit_with_canaries(train, SETTINGS.claim(), seed)


if __name__ == "__main__":
    show(audit)
