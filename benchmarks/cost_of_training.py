"""Does the cost model of docs/scale.md hold? Predicted against measured training speed.

The model: a record in a training step takes a fixed time and a time in proportion to three times the forward
pass's floating-point operations. Both come from the two smallest sizes; three larger ones are predicted, and
measured. On a CUDA device: ResNet-50 from 64 to 224 pixels, and perceptrons on a table of 32 columns from
width 128 to 2,048; on a CPU the perceptrons alone, from width 64 to 1,024.

    python benchmarks/cost_of_training.py
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from leakscope.design import make_design
from leakscope.models.registry import build
from leakscope.recipe import Recipe
from leakscope.train import loop
from leakscope.train.plan import BatchPlan
from leakscope.types import Records

IMAGES = Recipe(net="cost_of_training:resnet50", optimizer="sgd", lr=0.1, momentum=0.9, precision="bfloat16",
                batch_size=128, epochs=4)  # fmt: skip
TABLE = Recipe(net="mlp", optimizer="sgd", lr=0.1, batch_size=1024, epochs=3)


class Case(NamedTuple):
    """One size: what is trained on how many records of which shape."""

    name: str
    recipe: Recipe
    shape: tuple[int, ...]
    n: int


def resnet50(input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """ResNet-50 (He et al. 2016) as for ImageNet: 25.6 million parameters at 1,000 classes."""
    layers: list[nn.Module] = [
        nn.Conv2d(input_shape[0], 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    ]  # fmt: skip
    n_in = 64
    for stage, n_blocks in enumerate((3, 4, 6, 3)):
        width = 64 * 2**stage
        for block in range(n_blocks):
            layers.append(Bottleneck(n_in, width, stride=2 if stage and not block else 1))
            n_in = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(n_in, n_classes))


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions and a shortcut."""

    def __init__(self, n_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(n_in, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width),
        )  # fmt: skip
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or n_in != 4 * width:
            self.shortcut = nn.Sequential(
                nn.Conv2d(n_in, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)
            )

    def forward(self, x: Tensor) -> Tensor:
        """(rows, channels, height, width) -> the same with this block's channels and stride."""
        return torch.relu(self.inner(x) + self.shortcut(x))


def flops_of_training(recipe: Recipe, shape: tuple[int, ...], n_classes: int) -> float:
    """Floating-point operations of one record in one step: three times the forward pass's."""
    net = build(recipe, shape, n_classes).eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        net(torch.zeros(1, *shape))
    return 3.0 * counter.get_total_flops()


def records_a_second(recipe: Recipe, records: Records, n_models: int, device: torch.device) -> float:
    """Of all models together, from the second epoch on, which needs no compiling."""
    inputs = loop.inputs_from(records, device)
    design, models = make_design("balanced", n_models, len(records), 0), np.arange(n_models)
    trainer, _ = loop.choose_trainer(recipe, inputs)
    nets = loop.initial_nets(recipe, inputs, models, 0)
    stack = loop.MAKERS[trainer](nets, 0.0, device)
    plan = BatchPlan(design, models, recipe.batch_size, 0)
    started = time.perf_counter()
    for epoch in loop.train(stack, inputs, plan, recipe):
        if epoch == 1:
            _wait(device)
            started = time.perf_counter()
    _wait(device)
    return (recipe.epochs - 1) * int(design.in_mask.sum()) / (time.perf_counter() - started)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def made_up(shape: tuple[int, ...], n: int, n_classes: int) -> Records:
    rng = np.random.default_rng(0)
    features = rng.integers(0, 256, (n, *shape), dtype=np.uint8) if len(shape) == 3 else rng.normal(
        size=(n, *shape)).astype(np.float32)  # fmt: skip
    labels = np.arange(n) % n_classes
    return Records(features, labels, np.arange(n).astype(str), class_names=tuple(map(str, range(n_classes))))


def table(title: str, cases: list[Case], n_classes: int, n_models: int, device: torch.device) -> None:
    """One line a size: measured, and what the two smallest predict."""
    print(f"{title}, {n_models} models, {device}, torch {torch.__version__}")
    print(
        "  size          GFLOP a record    records/s   predicted   measured/predicted   TFLOP/s", flush=True
    )
    flops, seconds = [], []
    for case in cases:
        flops.append(flops_of_training(case.recipe, case.shape, n_classes))
        speed = records_a_second(case.recipe, made_up(case.shape, case.n, n_classes), n_models, device)
        seconds.append(1 / speed)
        line = f"  {case.name:12s} {flops[-1] / 1e9:15.6g} {speed:12,.0f}"
        if len(flops) > 2:
            slope = (seconds[1] - seconds[0]) / (flops[1] - flops[0])
            predicted = 1 / (seconds[0] + slope * (flops[-1] - flops[0]))
            line += f" {predicted:11,.0f} {speed / predicted:20.2f}"
        else:
            line += " " * 33
        print(f"{line} {flops[-1] * speed / 1e12:9.3f}", flush=True)


def main() -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    on_gpu = device.type == "cuda"
    if on_gpu:
        sides = ((64, 8192), (96, 8192), (128, 4096), (160, 4096), (224, 4096))
        cases = [Case(f"{side} pixels", IMAGES, (3, side, side), n) for side, n in sides]
        table("ResNet-50, bfloat16, batches of 128", cases, 1000, 2, device)
    widths = (128, 256, 512, 1024, 2048) if on_gpu else (64, 128, 256, 512, 1024)
    n = 400_000 if on_gpu else 20_000
    cases = [Case(f"width {width}", replace(TABLE, net_options=(("width", width), ("depth", 2))), (32,), n)
             for width in widths]  # fmt: skip
    table("perceptrons of two hidden layers, 32 columns, batches of 1,024", cases, 2, 16, device)


if __name__ == "__main__":
    main()
