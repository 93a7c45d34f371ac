"""An audit of a LightningModule: python examples/lightning_audit.py

The lines that end with `# leakscope` are all you add: they train 16 models on random halves of the training
set, and attack them.
"""

import pytorch_lightning as pl
import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from leakscope.integrations import lightning  # leakscope


class Digits(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, _):
        x, y = batch
        return cross_entropy(self(x), y)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.003)


def make_trainer():
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    return pl.Trainer(max_epochs=10, accelerator="cpu", enable_model_summary=False, **quiet)


x, y = load_digits(return_X_y=True)
train_set = TensorDataset(torch.tensor(x / 16, dtype=torch.float32), torch.tensor(y))
make_trainer().fit(Digits(), DataLoader(train_set, batch_size=64, shuffle=True))
verdict = lightning.audit(Digits, make_trainer, train_set, 64, out="runs/lightning", models=16)  # leakscope
print(verdict)  # leakscope
