"""How often is correct DP-SGD refuted, and how close do bounds from one run come to its epsilon?

Trainings that spend epsilon = 4 at delta = 1e-5, with 1,000 canaries: leakscope's own trainer, and Opacus
with a small perceptron. A verdict with 95% confidence may refute 5% of them.

    python benchmarks/dp_claims_of_correct_code.py --runs 100
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import leakscope
from leakscope.dp.verdict import ClaimVerdict
from leakscope.privacy.accounting import noise_multiplier
from leakscope.privacy.settings import Privacy, Sampling

EPSILON, DELTA, CANARIES = 4.0, 1e-5, 1000
OTHERS, FEATURES, CLASSES = 500, 20, 5
ALL = 10**6


def ours(batch_size: int, epochs: int, seed: int) -> ClaimVerdict:
    privacy = leakscope.Privacy(epsilon=EPSILON, delta=DELTA)
    recipe = leakscope.Recipe(optimizer="sgd", lr=1.0, batch_size=batch_size, epochs=epochs, privacy=privacy)
    return leakscope.dp.audit_recipe(recipe, number=CANARIES, seed=seed)


def with_opacus(batch_size: int, epochs: int, seed: int, silence_others: bool = True) -> ClaimVerdict:
    from opacus import PrivacyEngine

    torch.manual_seed(seed)
    canaries = leakscope.dp.Canaries(CANARIES, seed=seed + 1, silence_others=silence_others)
    dataset = TensorDataset(torch.randn(OTHERS, FEATURES), torch.randint(0, CLASSES, (OTHERS,)))
    dataset = canaries.plant(dataset)
    loader = DataLoader(dataset, batch_size=min(batch_size, len(dataset)))
    rate, steps = 1 / len(loader), len(loader) * epochs
    noise = noise_multiplier(
        Privacy(epsilon=EPSILON, delta=DELTA), Sampling(len(dataset), batch_size, rate, len(loader)), epochs
    )
    net = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Linear(64, CLASSES))
    model, optimizer, loader = PrivacyEngine().make_private(
        module=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=0.5),
        data_loader=loader,
        noise_multiplier=noise,
        max_grad_norm=1.0,
    )
    canaries.attach(model, optimizer)
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    claim = leakscope.dp.Claim(noise_multiplier=noise, sampling_rate=rate, steps=steps, delta=DELTA)
    return canaries.audit(claim)


TRAININGS: dict[str, Callable[[int], ClaimVerdict]] = {
    "leakscope, 1 step on all records": lambda seed: ours(ALL, 1, seed),
    "leakscope, 25 steps on a fifth": lambda seed: ours(100, 5, seed),
    "Opacus, 1 step on all records": lambda seed: with_opacus(ALL, 1, seed),
    "Opacus, 25 steps on a fifth": lambda seed: with_opacus(200, 5, seed),
    "Opacus, 25 steps on a fifth, model trained as usual": lambda seed: with_opacus(200, 5, seed, False),
}


def bounds_by_method(verdicts: list[ClaimVerdict]) -> dict[str, list[float]]:
    bounds: dict[str, list[float]] = {}
    for verdict in verdicts:
        for evidence in verdict.evidence:
            name = evidence.method.split(";")[0].split(" (")[0].split(",")[0]
            if "Mahloujifar" in evidence.method:
                name += ", Gaussian"
            bounds.setdefault(name, []).append(evidence.epsilon)
    return bounds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--only", default="", help="trainings whose name contains this")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for name, training in TRAININGS.items():
        if arguments.only not in name:
            continue
        verdicts = [training(seed) for seed in range(arguments.runs)]
        refuted = sum(verdict.status == "refuted" for verdict in verdicts)
        highest = [verdict.evidence[0].epsilon for verdict in verdicts]
        print(
            f"{name}: {refuted} of {arguments.runs} refuted; median of the highest {np.median(highest):.2f}"
        )
        for method, bounds in sorted(bounds_by_method(verdicts).items()):
            print(f"    {np.median(bounds):.2f}  {method}", flush=True)


if __name__ == "__main__":
    main()
