"""Wrong: features are standardized by all records before a private training. With Opacus.

`StandardScaler` is fitted on the training set, and Opacus trains on its output. The released model consists
of both: nobody can use the network without the means and the scales of its inputs.

Why it breaks the claim: the accountant counts what gradients reveal. The means of the scaler are released as
well. One record moves them by its value divided by the number of records, and no noise hides it: epsilon is
infinite. Right: take means and scales from public records, or from known ranges of the features.

    python examples/broken_dp/fitted_preprocessing.py
"""

from __future__ import annotations

import warnings

import torch
from auditing import audit_with_marked_records, show
from dp_sgd import make_net
from opacus import PrivacyEngine
from sklearn.preprocessing import StandardScaler
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from leakscope.array_types import FloatArray
from leakscope.dp import Claim
from leakscope.dp.verdict import ClaimVerdict

EPSILON, DELTA, CLIP, EPOCHS = 2.0, 1e-5, 1.0, 4


def train(x: Tensor, y: Tensor) -> FloatArray:
    """The means of the scaler that belongs to the trained network."""
    # Wrong: the scaler is fitted on private records, without noise.
    scaler = StandardScaler().fit(x.numpy())
    standardized = torch.tensor(scaler.transform(x.numpy()), dtype=torch.float32)
    net = make_net(x.shape[1])
    net, optimizer, loader = PrivacyEngine().make_private_with_epsilon(
        module=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=0.5),
        data_loader=DataLoader(TensorDataset(standardized, y), batch_size=len(x) // 4),
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
    means: FloatArray = scaler.mean_
    return means


def audit(seed: int) -> ClaimVerdict:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Opacus warns about its generator of noise
        return audit_with_marked_records(train, Claim(epsilon=EPSILON, delta=DELTA), seed)


if __name__ == "__main__":
    show(audit)
