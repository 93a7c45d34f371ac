"""Early warning inside your own torch loop: python examples/monitor_torch.py

The lines with `monitor` and `losses` are all you add. 5% of the labels were flipped on purpose: records that
can only be memorized, which is what the monitor should detect.
"""

import numpy as np
import torch
from torch.nn.functional import cross_entropy

import leakscope

torch.manual_seed(0)
digits = leakscope.load("digits")
x, y = torch.from_numpy(digits.features).flatten(1), torch.from_numpy(digits.labels.copy())
flipped = np.random.default_rng(0).choice(len(y), len(y) // 20, replace=False)
y[flipped] = (y[flipped] + 1) % 10

net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
optimizer = torch.optim.Adam(net.parameters(), lr=0.003)
monitor = leakscope.Monitor(n_records=len(y))
losses = torch.empty(len(y))
for epoch in range(1, 16):
    for rows in torch.randperm(len(y)).split(64):
        batch_losses = cross_entropy(net(x[rows]), y[rows], reduction="none")
        optimizer.zero_grad()
        batch_losses.mean().backward()
        optimizer.step()
        losses[rows] = batch_losses.detach()
    monitor.update(losses)
    if epoch in (1, 5, 15):
        share_flipped = np.isin(monitor.top(0.05), flipped).mean()
        print(f"epoch {epoch}: {share_flipped:.0%} of the top 5% have a flipped label (chance: 5%)")
print("look at these first:", ", ".join(digits.ids[monitor.top(0.003)]))
