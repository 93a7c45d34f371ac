"""The parts of DP-SGD that are right, shared by the programs of this folder.

Each program has a training loop of its own, made of these parts, and one mistake.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from leakscope.dp import Claim

N_RECORDS, N_CLASSES, WIDTH = 600, 10, 16


@dataclass(frozen=True)
class Settings:
    """What a user of DP-SGD chooses.

    Attributes:
        sampling_rate: probability with which a record joins a batch.
        steps: number of steps.
        noise_multiplier: standard deviation of the noise, in units of `clip`.
        clip: largest norm of one record's gradient.
        lr: learning rate.
    """

    sampling_rate: float = 0.25
    steps: int = 40
    noise_multiplier: float = 3.0
    clip: float = 1.0
    lr: float = 0.5

    def claim(self) -> Claim:
        """What these settings guarantee if the code is right."""
        return Claim(
            noise_multiplier=self.noise_multiplier, sampling_rate=self.sampling_rate, steps=self.steps
        )


def load_records() -> tuple[Tensor, Tensor]:
    """Handwritten digits: features (600, 64) between 0 and 1, and labels."""
    digits = load_digits()
    x = torch.tensor(digits.data[:N_RECORDS] / 16, dtype=torch.float32)
    return x, torch.tensor(digits.target[:N_RECORDS])


def make_net(n_features: int) -> nn.Sequential:
    """A perceptron with one hidden layer."""
    return nn.Sequential(nn.Linear(n_features, WIDTH), nn.ReLU(), nn.Linear(WIDTH, N_CLASSES))


def poisson_batch(n_records: int, rate: float) -> Tensor:
    """Indices of a batch, which each record joins independently of the others."""
    return torch.nonzero(torch.rand(n_records) < rate).flatten()


def gradients_per_record(net: nn.Module, x: Tensor, y: Tensor) -> list[Tensor]:
    """The gradient of each record's loss; one tensor (records, *parameter) for each parameter."""
    parameters = {name: parameter.detach() for name, parameter in net.named_parameters()}

    def loss(parameters: dict[str, Tensor], features: Tensor, label: Tensor) -> Tensor:
        outputs = functional_call(net, parameters, (features[None],))
        return functional.cross_entropy(outputs, label[None])

    return list(vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, y).values())


def clipped_sums(gradients: Sequence[Tensor], clip: float) -> list[Tensor]:
    """Sums over records of gradients that were scaled down to norm `clip`, over all parameters together."""
    norms = torch.stack([gradient.flatten(1).norm(dim=1) for gradient in gradients]).norm(dim=0)  # (records,)
    factors = (clip / norms.clamp_min(1e-12)).clamp_max(1.0)
    return [torch.einsum("r,r...->...", factors, gradient) for gradient in gradients]


def with_noise(sums: Sequence[Tensor], deviation: float) -> list[Tensor]:
    """Adds Gaussian noise of this standard deviation to every entry."""
    return [total + deviation * torch.randn_like(total) for total in sums]


def descend(optimizer: torch.optim.Optimizer, sums: Sequence[Tensor], batch_size: float) -> None:
    """One step of the optimizer along the sums, divided by the expected batch size."""
    (group,) = optimizer.param_groups
    for parameter, total in zip(group["params"], sums, strict=True):
        parameter.grad = total / batch_size
    optimizer.step()
