"""Early warning with PyTorch Lightning: python examples/lightning_monitor.py

The lines that end with `# leakscope`, and `callbacks=[watch]`, are all you add. 5% of the labels were flipped
on purpose: records that can only be memorized, which is what the monitor should detect.
"""

import numpy as np
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


pl.seed_everything(0)
x, y = load_digits(return_X_y=True)
flipped = np.random.default_rng(0).choice(len(y), len(y) // 20, replace=False)
y[flipped] = (y[flipped] + 1) % 10
train_set = TensorDataset(torch.tensor(x / 16, dtype=torch.float32), torch.tensor(y))
watch = lightning.monitor_callback()  # leakscope
trainer = pl.Trainer(
    max_epochs=5,
    callbacks=[watch],
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    accelerator="cpu",
)
trainer.fit(Digits(), DataLoader(train_set, batch_size=64, shuffle=True))
print(f"flipped labels in the top 5%: {np.isin(watch.monitor.top(0.05), flipped).mean():.0%}")  # leakscope
