"""Puts the claim of a training with Opacus to the test: the lines marked `# test` are all that is added.

pip install 'leakscope[opacus]'
python examples/opacus_claim.py
"""

import torch
from opacus import PrivacyEngine
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import leakscope  # test

EPOCHS, BATCH_SIZE, NOISE, DELTA = 2, 256, 1.0, 1e-5

x, y = load_digits(return_X_y=True)
dataset = TensorDataset(torch.tensor(x / 16, dtype=torch.float32), torch.tensor(y))
canaries = leakscope.dp.Canaries(1000)  # test
dataset = canaries.plant(dataset)  # test

model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
engine = PrivacyEngine(accountant="rdp")
model, optimizer, loader = engine.make_private(
    module=model,
    optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
    data_loader=DataLoader(dataset, batch_size=BATCH_SIZE),
    noise_multiplier=NOISE,
    max_grad_norm=1.0,
)
canaries.attach(model, optimizer)  # test

for _ in range(EPOCHS):
    for batch, labels in loader:
        optimizer.zero_grad()
        functional.cross_entropy(model(batch), labels).backward()
        optimizer.step()

epsilon = engine.get_epsilon(DELTA)
print(f"epsilon = {epsilon:.2f}")
print(canaries.audit(leakscope.dp.Claim(epsilon=epsilon, delta=DELTA)))  # test
