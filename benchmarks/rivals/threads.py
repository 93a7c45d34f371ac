"""Microseconds of one training step of a small PyTorch network, printed: `python -m rivals.threads`.

With batches of 32 records a second thread can cost more than it brings. The rivals train one network after
the other, so the driver runs this with one thread and with all, and gives them what is faster.
"""

from __future__ import annotations

import time

import torch
from torch.utils.data import DataLoader, TensorDataset

from rivals.net import Net
from rivals.train import train

N_RECORDS, N_INPUTS, BATCH, EPOCHS = 3_200, 100, 32, 5


def microseconds_a_step() -> float:
    """The shortest of three trainings, by step."""
    records = TensorDataset(torch.randn(N_RECORDS, N_INPUTS), torch.randint(0, 2, (N_RECORDS,)))
    taken = []
    for _ in range(3):
        started = time.perf_counter()
        train(Net(N_INPUTS, 2, 32, 2), DataLoader(records, BATCH, shuffle=True), EPOCHS, lr=0.003)
        taken.append(time.perf_counter() - started)
    return 1e6 * min(taken) / (EPOCHS * N_RECORDS // BATCH)


if __name__ == "__main__":
    print(microseconds_a_step())
