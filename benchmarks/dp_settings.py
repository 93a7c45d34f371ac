"""Which batch size and learning rate does DP-SGD take? Accuracy on non-members, at three budgets.

Perceptrons of width 128 on digits, 20 epochs, clipping norm 1, delta 1e-5; the mean of 6 models.

    python benchmarks/dp_settings.py
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from leakscope.data.registry import load
from leakscope.design import make_design
from leakscope.privacy.settings import Privacy
from leakscope.recipe import Recipe
from leakscope.train.loop import Inputs, inputs_from, train_block
from leakscope.types import Design

MODELS = 6
SGD = Recipe(net="mlp", optimizer="sgd", momentum=0.9, epochs=20)
ADAM = Recipe(net="mlp", optimizer="adam", epochs=20)
STEPS = {
    **{f"SGD {lr:g}": replace(SGD, lr=lr) for lr in (0.1, 0.3, 1.0, 3.0)},
    **{f"Adam {lr:g}": replace(ADAM, lr=lr) for lr in (0.001, 0.005, 0.02)},
}


def accuracy(inputs: Inputs, design: Design, recipe: Recipe) -> float:
    block = train_block(inputs, design, recipe, np.arange(MODELS), 0, ("correct",), "dense")
    return float(block.signals["correct"][:, 0][~design.in_mask].mean())


def main() -> None:
    torch.set_num_threads(1)
    records = load("digits")
    inputs = inputs_from(records, torch.device("cpu"))
    design = make_design("balanced", MODELS, len(records), 0)
    print("epsilon  batch  " + "  ".join(f"{name:>10s}" for name in STEPS))
    for epsilon in (1.0, 8.0, 50.0):
        for batch_size in (64, 256, 1024):
            private = {"batch_size": batch_size, "privacy": Privacy(epsilon=epsilon)}
            found = [accuracy(inputs, design, replace(recipe, **private)) for recipe in STEPS.values()]
            shown = "  ".join(f"{share:10.1%}" for share in found)
            print(f"{epsilon:7g}  {batch_size:5d}  {shown}", flush=True)


if __name__ == "__main__":
    main()
