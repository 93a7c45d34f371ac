"""Are batches that are dealt out taken for Poisson samples? Three ways to draw them, one claim.

A correct loop of DP-SGD (per-example clipping, Gaussian noise) on 3,000 made-up records with 600 canaries.
The claim is accounted for Poisson sampling, which only the first way is.

    python benchmarks/dp_sampling.py --runs 40 --dealt-runs 4
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional

import leakscope
from leakscope.dp.verdict import ClaimVerdict

RECORDS, CANARIES, FEATURES, CLASSES = 3_000, 600, 20, 4
STEPS, N_BATCHES, NOISE, CLIP = 40, 10, 0.8, 1.0
Draw = Callable[[int, int], Tensor]
"""Step, number of records -> bool (records,), who is in the batch."""


def poisson() -> Draw:
    return lambda _, number: torch.rand(number) < 1 / N_BATCHES


def dealt(epochs_per_order: int) -> Draw:
    """Batches from an order of the records that lasts for some epochs."""
    orders: list[Tensor] = []

    def draw(step: int, number: int) -> Tensor:
        if step % (N_BATCHES * epochs_per_order) == 0:
            orders.append(torch.randperm(number))
        drawn = torch.zeros(number, dtype=torch.bool)
        drawn[orders[-1][step % N_BATCHES :: N_BATCHES]] = True
        return drawn

    return draw


WAYS: dict[str, Callable[[], Draw]] = {
    "Poisson samples": poisson,
    "one order, dealt out again and again": lambda: dealt(STEPS),
    "a new order in each epoch": lambda: dealt(1),
}


def audited(way: str, seed: int) -> ClaimVerdict:
    """One training with canaries, and what it says about the claim."""
    torch.manual_seed(seed)
    canaries = leakscope.dp.Canaries(CANARIES, seed=seed)
    x, y = canaries.plant(torch.randn(RECORDS, FEATURES), torch.randint(0, CLASSES, (RECORDS,)))
    model = nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, CLASSES))
    canaries.attach(model)

    def loss(parameters: dict[str, Tensor], features: Tensor, label: Tensor) -> Tensor:
        return functional.cross_entropy(functional_call(model, parameters, (features[None],)), label[None])

    gradients, draw = vmap(grad(loss), in_dims=(None, 0, 0)), WAYS[way]()
    for step in range(STEPS):
        drawn = draw(step, len(x))
        own = gradients({name: p.detach() for name, p in model.named_parameters()}, x[drawn], y[drawn])
        norms = torch.stack([part.flatten(1).norm(dim=1) for part in own.values()]).norm(dim=0)
        factor = (CLIP / norms.clamp(min=1e-12)).clamp(max=1)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                total = torch.einsum("i,i...->...", factor, own[name])
                noisy = total + NOISE * CLIP * torch.randn_like(total)
                parameter -= 0.5 * N_BATCHES / RECORDS * noisy
    return canaries.audit(
        leakscope.dp.Claim(noise_multiplier=NOISE, sampling_rate=1 / N_BATCHES, steps=STEPS, delta=1e-5)
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=40, help="with Poisson samples")
    parser.add_argument("--dealt-runs", type=int, default=4, help="with each other way")
    options = parser.parse_args()
    print("| batches | runs | refuted | unsupported | consistent |\n|---|---:|---:|---:|---:|")
    for way in WAYS:
        n = options.runs if WAYS[way] is poisson else options.dealt_runs
        found = Counter(audited(way, seed).status for seed in range(n))
        cells = " | ".join(str(found[status]) for status in ("refuted", "unsupported", "consistent"))
        print(f"| {way} | {n} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
