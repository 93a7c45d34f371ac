"""The training function of opacus_training.toml: a loop of your own, with DP-SGD by Opacus.

leakscope calls it once per model. It trains on the records at `indices`, and all its randomness comes from
`seed`. Install Opacus with `pip install 'leakscope[opacus]'`.
"""

from collections.abc import Callable

import numpy as np
import torch
from opacus import PrivacyEngine
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from leakscope import Records

EPOCHS, BATCH_SIZE, EPSILON, DELTA, CLIP = 10, 128, 8.0, 1e-5, 1.0


def train(records: Records, indices: np.ndarray, seed: int) -> Callable[[np.ndarray], np.ndarray]:
    torch.manual_seed(seed)
    net: nn.Module = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    x, y = torch.from_numpy(records.features[indices]), torch.from_numpy(records.labels[indices])
    loader = DataLoader(TensorDataset(x, y), batch_size=BATCH_SIZE)
    net, optimizer, loader = PrivacyEngine().make_private_with_epsilon(
        module=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=1.0),
        data_loader=loader,  # becomes Poisson sampling
        epochs=EPOCHS,
        target_epsilon=EPSILON,
        target_delta=DELTA,
        max_grad_norm=CLIP,
    )
    for _ in range(EPOCHS):
        for batch, labels in loader:
            optimizer.zero_grad()
            functional.cross_entropy(net(batch), labels).backward()
            optimizer.step()

    def predict(features: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return net.eval()(torch.from_numpy(features)).numpy()

    return predict
