"""Wrong: the gradient of the whole batch is clipped, not that of each record.

`loss.backward()` gives the mean gradient of a batch, and `clip_grad_norm_` scales it down to norm `clip`.
The noise is that of DP-SGD for a mean: `noise_multiplier` x `clip` / batch size.

Why it breaks the claim: a single record can turn the gradient of a batch around. The clipped mean then moves
by up to 2 x `clip`, not by `clip` / batch size. The noise is too small by a factor of up to twice the batch
size. With 275 records in a batch, the noise multiplier is 3 / 550 in the worst case, and epsilon is above
10,000.

    python examples/broken_dp/clipping_by_batch.py
"""

from __future__ import annotations

import torch
from auditing import audit_with_canaries, show
from dp_sgd import Settings, load_records, make_net, poisson_batch
from torch.nn import functional

from leakscope.dp import Canaries
from leakscope.dp.verdict import ClaimVerdict

SETTINGS = Settings()


def train(canaries: Canaries) -> None:
    x, y = canaries.plant(*load_records())
    net = make_net(x.shape[1])
    optimizer = torch.optim.SGD(net.parameters(), lr=SETTINGS.lr)
    canaries.attach(net, optimizer)
    deviation = SETTINGS.noise_multiplier * SETTINGS.clip / (SETTINGS.sampling_rate * len(x))
    for _ in range(SETTINGS.steps):
        batch = poisson_batch(len(x), SETTINGS.sampling_rate)
        optimizer.zero_grad()
        functional.cross_entropy(net(x[batch]), y[batch]).backward()
        # Wrong: this clips the mean gradient of the batch, not the gradient of each record.
        torch.nn.utils.clip_grad_norm_(net.parameters(), SETTINGS.clip)
        for parameter in net.parameters():
            assert parameter.grad is not None
            parameter.grad += deviation * torch.randn_like(parameter)
        optimizer.step()


def audit(seed: int) -> ClaimVerdict:
    return audit_with_canaries(train, SETTINGS.claim(), seed)


if __name__ == "__main__":
    show(audit)
