"""What does DP-SGD cost on a GPU? WRN-28-2 with group norm, with privacy and without, in the same run.

Both train a block of networks side by side on 32 x 32 images with flips and 4-pixel crops, in batches of 256
(expected ones with privacy), each step captured as one graph and not compiled. Rates are of images that are
trained on, not of rows that fill a batch up. A small network then checks that a captured step and one that is
launched operation by operation end with the same parameters, and that the noise on the device is normal.

    python benchmarks/dp_on_a_gpu.py
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import torch

from leakscope.design import make_design
from leakscope.privacy.settings import Privacy
from leakscope.recipe import Recipe
from leakscope.train import loop
from leakscope.train.captured import CapturedSteps
from leakscope.train.losses import PLAIN
from leakscope.train.noise import normal_numbers
from leakscope.train.orders import epochs_of
from leakscope.train.poisson import NOBODY, plan_of
from leakscope.train.side_by_side import SideBySide
from leakscope.train.state import unsaved
from leakscope.train.steps import Epoch, HostSteps
from leakscope.types import Design, Records

RECORDS, MODELS, BATCH = 8_000, 4, 256
PRIVACY = Privacy(noise_multiplier=1.0)
GROUPED = Recipe(net="wide_resnet", net_options=(("norm", "group"),), optimizer="sgd", lr=0.1, momentum=0.9,
                 flips=True, crop=4, batch_size=BATCH, epochs=3)  # fmt: skip


def made_up_records(n: int, side: int) -> Records:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (n, 3, side, side)).astype(np.uint8)
    names = tuple(str(c) for c in range(10))
    return Records(pixels, np.arange(n) % 10, np.arange(n).astype(str), class_names=names)


def images_per_second(inputs: loop.Inputs, design: Design, recipe: Recipe) -> tuple[float, str]:
    """After a first epoch that captures the step, and what did not go as planned."""
    models = np.arange(MODELS)
    plan, state = plan_of(design, None, models, recipe, 0), unsaved(MODELS)
    stack = SideBySide(loop.initial_nets(recipe, inputs, models, 0), PLAIN, inputs.x.device)
    n_images = sum(
        int((order != NOBODY).sum()) for order in plan_of(design, None, models, recipe, 0).epochs(3, 1)
    )
    if recipe.privacy is None:
        n_images = (recipe.epochs - 1) * int(design.in_mask[:MODELS].sum())
    for epoch in loop.train(stack, inputs, plan, recipe, state):
        if epoch == 1:
            torch.cuda.synchronize()
            started = time.perf_counter()
    torch.cuda.synchronize()
    assert all(p.isfinite().all() for p in stack.parameters)
    return n_images / (time.perf_counter() - started), "; ".join(state.notes) or "captured"


def largest_difference(inputs: loop.Inputs, design: Design) -> float:
    """Between captured steps and steps launched one by one, relative to the largest parameter."""
    recipe = Recipe(net="cnn", net_options=(("norm", "group"),), optimizer="sgd", lr=0.1, batch_size=32,
                    epochs=2, flips=True, crop=1, privacy=replace(PRIVACY, views=2))  # fmt: skip
    ended = []
    for kind in (CapturedSteps, HostSteps):
        plan = plan_of(design, None, np.arange(2), recipe, 0)
        stack = SideBySide(loop.initial_nets(recipe, inputs, np.arange(2), 0), PLAIN, inputs.x.device)
        steps = kind(stack, inputs.x, inputs.y, plan, recipe)
        for epoch, (order, views) in enumerate(epochs_of(plan, recipe, 0, recipe.epochs)):
            steps.start(epoch * plan.steps)
            steps.run_epoch(Epoch(order, [recipe.lr] * plan.steps, views=views))
        torch.cuda.synchronize()
        ended.append(torch.cat([p.detach().flatten() for p in stack.parameters]))
    return float((ended[0] - ended[1]).abs().max() / ended[1].abs().max())


def main() -> None:
    if not torch.cuda.is_available():
        print("dp_on_a_gpu: needs a CUDA device, none here")
        return
    device = torch.device("cuda")
    print(f"WRN-28-2 with group norm, {MODELS} networks side by side, batch {BATCH}, "
          f"{torch.cuda.get_device_name()}, torch {torch.__version__}", flush=True)  # fmt: skip
    keys, step = torch.arange(64, device=device)[:, None], torch.zeros(1, dtype=torch.int64, device=device)
    numbers = normal_numbers(keys, step, 250_000).double()
    fourth = float((numbers**4).mean())
    print(f"noise on the device: mean {float(numbers.mean()):.5f}, variance {float(numbers.var()):.5f}, "
          f"fourth moment {fourth:.4f} (3)", flush=True)  # fmt: skip
    small = made_up_records(400, 12)
    different = largest_difference(loop.inputs_from(small, device), make_design("balanced", 2, 400, 0))
    print(f"captured against launched one by one: largest relative difference {different:.1e}", flush=True)
    inputs = loop.inputs_from(made_up_records(RECORDS, 32), device)
    design = make_design("balanced", MODELS, RECORDS, 0)
    for precision in ("bfloat16", "float32"):
        plain = replace(GROUPED, precision=precision)
        without, note = images_per_second(inputs, design, plain)
        print(f"{precision}: without privacy {without:10,.0f} images/s ({note})", flush=True)
        private, note = images_per_second(inputs, design, replace(plain, privacy=PRIVACY))
        print(f"{precision}: DP-SGD          {private:10,.0f} images/s, {without / private:.1f} times slower "
              f"({note})", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
