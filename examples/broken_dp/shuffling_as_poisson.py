"""Wrong: batches come from a shuffled order, and are accounted as Poisson samples.

`DataLoader(shuffle=True)` deals out all records once per epoch, in batches of fixed size. The accountant
assumes batches that each record joins independently. Opacus with `poisson_sampling=False` does the same.

Why it breaks the claim: a record takes the place of another one in its batch. If the two pull in opposite
directions, that batch's sum moves by 2 x `clip`. Without the record, one batch is shorter by one, and its
sum moves by `clip`. Both stand out from small noise, so nothing is hidden by the sampling. Epsilon is at
least 7.9 (Chua et al. 2024), and 2.0 is claimed.

The gap is wide if noise is small and batches are many. The worst case needs a training set in which all
other records pull in one direction, so one training has room for one canary. This test takes 10,000
trainings of a tiny model, with the canary in by a fair coin for each.

    python examples/broken_dp/shuffling_as_poisson.py
"""

from __future__ import annotations

import numpy as np
import torch
from auditing import audit_trainings, show
from dp_sgd import Settings
from torch import Tensor

from leakscope.dp.verdict import ClaimVerdict

N_RECORDS, BATCH_SIZE = 2000, 4
SETTINGS = Settings(
    sampling_rate=BATCH_SIZE / N_RECORDS, steps=N_RECORDS // BATCH_SIZE, noise_multiplier=0.6, lr=1e-6
)
N_TRAININGS, AT_ONCE = 10_000, 1000
FEATURE = 1000.0


def train(n_trainings: int, has_canary: bool) -> Tensor:
    """Logistic regressions on one feature for one epoch, side by side; the noisy sums (trainings, steps).

    All records have the same feature. Ordinary records have the label 0, the canary has 1.
    """
    y = torch.zeros(N_RECORDS if has_canary else N_RECORDS - 1)
    y[N_RECORDS - 1 :] = 1
    weight = torch.zeros(n_trainings, 1)
    # Wrong: each record would have to join each batch independently.
    order = torch.rand(n_trainings, len(y)).argsort(dim=1)
    released = []
    for batch in order.split(BATCH_SIZE, dim=1):
        gradients = (torch.sigmoid(weight * FEATURE) - y[batch]) * FEATURE  # (trainings, records)
        sums = gradients.clamp(-SETTINGS.clip, SETTINGS.clip).sum(dim=1, keepdim=True)
        sums += SETTINGS.noise_multiplier * SETTINGS.clip * torch.randn_like(sums)
        weight -= SETTINGS.lr * sums / BATCH_SIZE
        released.append(sums)
    return torch.cat(released, dim=1)


def scores_of(sums: Tensor) -> np.ndarray:
    """The strongest pull of a step in the canary's direction."""
    return -sums.amin(dim=1).double().numpy()


def audit(seed: int) -> ClaimVerdict:
    torch.manual_seed(seed)
    is_in = np.random.default_rng(seed).random(N_TRAININGS) < 0.5
    scores = np.empty(N_TRAININGS)
    for side in (True, False):
        at = np.flatnonzero(is_in == side)
        for some in np.array_split(at, -(-len(at) // AT_ONCE)):
            scores[some] = scores_of(train(len(some), side))
    return audit_trainings(scores, is_in, SETTINGS.claim())


if __name__ == "__main__":
    show(audit)
