"""How much faster is a stacked population than a plain loop over models?

The 60 models of the scaling study (5 widths x 3 repeats x (1 target + 3 shadows)), same records,
recipe, process and threads. The rival is a plain PyTorch loop: one model after the other,
`torch.optim.Adam`, batches by tensor indexing (a DataLoader, which most tools use, is slower and
is timed beside it). Both sides include initialisation and asking the models about their records.
Rounds alternate between the two, because machines are noisy; the ratio is of medians. CPU seconds are
those of all threads: on a busy machine their ratio says more. `LEAKSCOPE_COMPILE=0` trains without
compiled steps.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from leakscope.studies.scaling.config import ScalingConfig, recipe
from leakscope.studies.scaling.population import population
from leakscope.train.compiled_check import is_right
from leakscope.train.compiler import library
from leakscope.train.dense import DenseStack
from leakscope.train.loop import Inputs, initial_nets, inputs_from, train, train_block
from leakscope.train.losses import PLAIN
from leakscope.train.plan import BatchPlan
from leakscope.train.side_by_side import SerialModel
from leakscope.types import Design

CONFIG = ScalingConfig(n_reference=0)
KEPT = ("correct", "log_odds", "logits", "loss")
SEED = 42


def stacked(inputs: Inputs, design: Design) -> None:
    models = np.arange(design.n_models)
    for width in CONFIG.hidden_widths:
        train_block(inputs, design, recipe(width), models, SEED, KEPT, "dense")


def plain_loop(inputs: Inputs, design: Design, loader: bool = False) -> None:
    assert design.columns is not None
    for width in CONFIG.hidden_widths:
        for model in range(design.n_models):
            torch.manual_seed(model)
            net = nn.Sequential(nn.Linear(10, width), nn.ReLU(), nn.Linear(width, 5))
            members = torch.from_numpy(design.members(model))
            _train_alone(net, inputs.x[members], inputs.y[members], loader)
            with torch.no_grad():
                net(inputs.x[torch.from_numpy(design.columns[model])])


def _train_alone(net: nn.Module, x: Tensor, y: Tensor, loader: bool) -> None:
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    criterion = nn.CrossEntropyLoss()
    records = torch.utils.data.TensorDataset(x, y)
    batches = torch.utils.data.DataLoader(records, batch_size=64, shuffle=True)
    for _ in range(50):
        for xb, yb in batches if loader else _indexed(x, y):
            optimizer.zero_grad()
            criterion(net(xb), yb).backward()
            optimizer.step()


def _indexed(x: Tensor, y: Tensor) -> list[tuple[Tensor, Tensor]]:
    return [(x[part], y[part]) for part in torch.randperm(len(x)).split(64)]


class Taken(NamedTuple):
    """Seconds of one round."""

    wall: float
    cpu: float


def taken_by(work: Callable[[], None]) -> Taken:
    """Seconds on the clock, and of all threads together."""
    before = time.process_time()
    return Taken(seconds(work), time.process_time() - before)


def seconds(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def parameter_difference(inputs: Inputs, design: Design) -> float:
    """Largest difference between stacked and serial parameters after one epoch from the same start."""
    largest = 0.0
    for width in CONFIG.hidden_widths:
        short = dataclasses.replace(recipe(width), epochs=1)
        models = np.arange(design.n_models)
        cpu = torch.device("cpu")
        together = DenseStack(initial_nets(short, inputs, models, SEED), PLAIN, cpu)
        list(train(together, inputs, BatchPlan(design, models, 64, SEED), short))
        for m in models:
            alone = SerialModel(initial_nets(short, inputs, models[m : m + 1], SEED), PLAIN, cpu)
            list(train(alone, inputs, BatchPlan(design, models[m : m + 1], 64, SEED), short))
            for name, value in alone.state().items():
                largest = max(largest, float((together.state()[name][m] - value[0]).abs().max()))
    return largest


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=3)
    rounds = arguments.parse_args().rounds
    records, design = population(CONFIG)
    inputs = inputs_from(records, torch.device("cpu"))
    stacked(inputs, design)  # warm-up
    ways: dict[str, Callable[[], None]] = {
        "stacked": lambda: stacked(inputs, design),
        "plain loop": lambda: plain_loop(inputs, design),
        "loop with a DataLoader": lambda: plain_loop(inputs, design, loader=True),
    }
    times: dict[str, list[Taken]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            times[name] += [taken_by(way) for _ in range(3 if name == "stacked" else 1)]
    n_models, how = (
        design.n_models * len(CONFIG.hidden_widths),
        "" if library("perceptrons", is_right) else "not ",
    )
    print(f"{n_models} models, {torch.get_num_threads()} threads, torch {torch.__version__}, {how}compiled")
    ours = Taken(*map(statistics.median, zip(*times["stacked"], strict=True)))
    for name, taken in times.items():
        wall, cpu = map(statistics.median, zip(*taken, strict=True))
        spread = f"min {min(taken).wall:.3f}, max {max(taken).wall:.3f}"
        ratios = f"{wall / ours.wall:6.1f}x; CPU {cpu:7.3f} s {cpu / ours.cpu:6.1f}x"
        print(f"  {name:24s} {wall:7.3f} s ({spread}) {ratios}")
    apart = parameter_difference(inputs, design)
    print(f"  stacked and serial parameters after one epoch are at most {apart:.1e} apart")


if __name__ == "__main__":
    main()
