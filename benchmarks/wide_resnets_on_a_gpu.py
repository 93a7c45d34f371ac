"""How fast do WRN-28-2 networks train on a GPU, against the loop anybody would write, in the same run?

Both train on 32 x 32 images with flips and 4-pixel crops, bfloat16, batches of 256, SGD with momentum;
records stay on the device. The plain loop trains one network eagerly with channels last; ours trains a block
side by side, one captured graph a step. Both see the same made-up records of ten classes, and their
accuracies at the end are compared.

    python benchmarks/wide_resnets_on_a_gpu.py
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import torch
from torch.nn import functional

from leakscope.design import make_design
from leakscope.models.registry import build
from leakscope.recipe import Recipe
from leakscope.train import loop
from leakscope.train.losses import PLAIN
from leakscope.train.plan import BatchPlan
from leakscope.train.queries import evaluate
from leakscope.train.side_by_side import SideBySide, compiled_loss
from leakscope.types import Records

RECORDS, MODELS, BATCH, EPOCHS = 20_000, 8, 256, 12
RECIPE = Recipe(net="wide_resnet", optimizer="sgd", lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4,
                schedule="cosine", flips=True, crop=4, precision="bfloat16", batch_size=BATCH,
                epochs=EPOCHS)  # fmt: skip


def learnable_records() -> Records:
    """Ten classes, each a faint pattern under noise."""
    rng = np.random.default_rng(0)
    labels = np.arange(RECORDS) % 10
    patterns = rng.normal(size=(10, 3, 8, 8)).repeat(4, axis=2).repeat(4, axis=3)
    pixels = 128 + 12 * patterns[labels] + rng.normal(0, 50, (RECORDS, 3, 32, 32))
    names = tuple(str(c) for c in range(10))
    return Records(
        pixels.clip(0, 255).astype(np.uint8), labels, np.arange(RECORDS).astype(str), class_names=names
    )


def plain_loop(inputs: loop.Inputs, members: np.ndarray, epochs: int) -> tuple[float, torch.nn.Module]:
    """(images a second, the network) of one eager network."""
    torch.manual_seed(0)
    net = build(RECIPE, inputs.shape, 10).to(inputs.x.device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)
    images, members_there = (
        functional.pad(inputs.x, (4, 4, 4, 4)),
        torch.from_numpy(members).to(inputs.x.device),
    )
    n_steps = -(-len(members) // BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * n_steps)
    for epoch in range(epochs):
        if epoch == 1:  # the first warms up
            torch.cuda.synchronize()
            started = time.perf_counter()
        order = members_there[torch.randperm(len(members), device=inputs.x.device)]
        for index in order.split(BATCH):
            top, left = torch.randint(9, (2,)).tolist()
            x = images[index, :, top : top + 32, left : left + 32]
            mirrored = torch.rand(len(index), device=x.device) < 0.5
            x = torch.where(mirrored[:, None, None, None], x.flip(3), x)
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", torch.bfloat16):
                outputs = net(x.contiguous(memory_format=torch.channels_last))
            functional.cross_entropy(outputs.float(), inputs.y[index]).backward()
            optimizer.step()
            schedule.step()
    torch.cuda.synchronize()
    return (epochs - 1) * len(members) / (time.perf_counter() - started), net.eval()


def ours(inputs: loop.Inputs, design, epochs: int) -> tuple[float, float, loop.Stack]:
    """(images a second, seconds to prepare, the block)."""
    recipe, models = replace(RECIPE, epochs=epochs), np.arange(MODELS)
    plan = BatchPlan(design, models, BATCH, 0)
    started = time.perf_counter()
    nets = loop.initial_nets(recipe, inputs, models, 0)
    stack = SideBySide(nets, PLAIN, inputs.x.device, compiled_loss())
    for epoch in loop.train(stack, inputs, plan, recipe):
        if epoch == 1:
            torch.cuda.synchronize()
            prepared, started = time.perf_counter() - started, time.perf_counter()
    torch.cuda.synchronize()
    n_images = (epochs - 1) * int(design.in_mask[:MODELS].sum())
    return n_images / (time.perf_counter() - started), prepared, stack


def main() -> None:
    if not torch.cuda.is_available():
        print("wide_resnets_on_a_gpu: needs a CUDA device, none here")
        return
    records, device = learnable_records(), torch.device("cuda")
    inputs, design = loop.inputs_from(records, device), make_design("balanced", MODELS, RECORDS, 0)
    plain, net = plain_loop(inputs, design.members(0), EPOCHS)
    fast, prepared, stack = ours(inputs, design, EPOCHS)
    plain_again, _ = plain_loop(inputs, design.members(0), 3)
    labels = records.labels
    with torch.no_grad():
        theirs = torch.cat([net(x).argmax(1) for x in inputs.x.split(2000)]).cpu().numpy() == labels
    found = evaluate(stack, inputs, design, ("correct",))["correct"]
    print(f"WRN-28-2, batch {BATCH}, bfloat16, {torch.cuda.get_device_name()}, torch {torch.__version__}")
    print(f"plain eager loop, one network   {plain:10,.0f} images/s (again: {plain_again:,.0f})")
    print(f"ours, {MODELS} networks side by side  {fast:10,.0f} images/s   {fast / plain:.1f} times "
          f"(first epoch with compilation: {prepared:.0f} s)")  # fmt: skip
    others = [float(found[m][~design.in_mask[m]].mean()) for m in range(MODELS)]
    print(f"accuracy on non-members after {EPOCHS} epochs: plain {theirs[~design.in_mask[0]].mean():.4f}, "
          f"ours {np.mean(others):.4f} (sd over models {np.std(others):.4f})")  # fmt: skip


if __name__ == "__main__":
    main()
