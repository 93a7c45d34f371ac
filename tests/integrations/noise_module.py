"""A module, its trainer and its training set; imported by tests that have Lightning."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

N = 48


class Noise(pl.LightningModule):
    """Learns labels that nothing explains."""

    def __init__(self) -> None:
        super().__init__()
        layers = torch.nn.Linear(8, 32), torch.nn.Dropout(0.1), torch.nn.ReLU(), torch.nn.Linear(32, 2)
        self.net = torch.nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        return cross_entropy(self(batch[0]), batch[1])

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.parameters(), lr=0.03)


def make_trainer(epochs: int = 3, **options: Any) -> Any:
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    return pl.Trainer(max_epochs=epochs, accelerator="cpu", enable_model_summary=False, **quiet, **options)


def make_long_trainer() -> Any:
    return make_trainer(20)


def rows() -> TensorDataset:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(N, 8, generator=generator)
    return TensorDataset(x, torch.randint(0, 2, (N,), generator=generator))


def trained(**options: Any) -> Noise:
    torch.manual_seed(1)
    module = Noise()
    loader = DataLoader(rows(), batch_size=10, shuffle=True, drop_last=True)
    make_trainer(accumulate_grad_batches=2, **options).fit(module, loader)
    return module


class Words(Noise):
    """Takes integers."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(50, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(self.words(x).mean(dim=1))
