"""Puts a loop of your own with DP-SGD to the test: the lines marked `# test` are all that is added.

    python examples/own_loop_claim.py

Set NOISE_ADDED below NOISE, and see the claim refuted.
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

import leakscope  # test

STEPS, CLIP, DELTA = 4, 1.0, 1e-5
NOISE = 1.5
NOISE_ADDED = NOISE

x, y = load_digits(return_X_y=True)
x, y = torch.tensor(x / 16, dtype=torch.float32), torch.tensor(y)
canaries = leakscope.dp.Canaries(1000)  # test
x, y = canaries.plant(x, y)  # test

model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
canaries.attach(model)  # test


def loss(parameters, features, label):
    output = torch.func.functional_call(model, parameters, (features[None],))
    return functional.cross_entropy(output, label[None])


gradients_of_records = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))

for _ in range(STEPS):
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    gradients = gradients_of_records(parameters, x, y)  # on all records: the sampling rate is 1
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in gradients.values()]).norm(dim=0)
    factors = (CLIP / norms.clamp(min=1e-12)).clamp(max=1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            clipped = torch.einsum("i,i...->...", factors, gradients[name])
            parameter -= 0.5 / len(x) * (clipped + NOISE_ADDED * CLIP * torch.randn_like(clipped))

claim = leakscope.dp.Claim(noise_multiplier=NOISE, sampling_rate=1.0, steps=STEPS, delta=DELTA)  # test
print(canaries.audit(claim))  # test
