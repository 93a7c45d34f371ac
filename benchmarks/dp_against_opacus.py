"""How fast is DP-SGD for a population, against Opacus in a loop and against training without privacy?

The same records (digits), network (a perceptron of width 128), batch size,
number of steps, clipping and noise, in one process with one thread. Opacus trains one model after the other,
twice: with its own data loader, and with batches taken by index from tensors, which is the faster way to use
it. Rounds alternate, because machines are noisy; ratios are of the medians of CPU time. The noise alone, for
every parameter of every model at every step, is timed beside them: it is the floor of any implementation.

    python benchmarks/dp_against_opacus.py
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from leakscope.data.registry import load
from leakscope.design import make_design
from leakscope.privacy.settings import Privacy, Sampling
from leakscope.recipe import Recipe
from leakscope.train.loop import Inputs, initial_nets, inputs_from, train_block
from leakscope.train.noise import HostNoise
from leakscope.types import Design

MODELS, EPOCHS, SEED = 64, 10, 0
PRIVATE = Recipe(net="mlp", optimizer="sgd", lr=0.5, batch_size=64, epochs=EPOCHS,
                 privacy=Privacy(noise_multiplier=1.0))  # fmt: skip


def ours(inputs: Inputs, design: Design, recipe: Recipe) -> None:
    train_block(inputs, design, recipe, np.arange(MODELS), SEED, ("loss",), "dense")


def noise_alone(inputs: Inputs, design: Design) -> None:
    (net,) = initial_nets(PRIVATE, inputs, np.arange(1), SEED)
    shapes = [tuple(p.shape) for p in net.parameters()]
    noise = HostNoise(SEED, np.arange(MODELS), shapes, 1.0, torch.device("cpu"))
    gradients = [torch.zeros(MODELS, *shape) for shape in shapes]
    for _ in range(EPOCHS * Sampling.of(design, PRIVATE.batch_size).steps_per_epoch):
        noise.add_(gradients)


def opacus_loader(inputs: Inputs, design: Design, model: int) -> None:
    """Opacus as its documentation shows it."""
    from opacus import PrivacyEngine

    (net,) = initial_nets(PRIVATE, inputs, np.array([model]), SEED)
    members = torch.from_numpy(design.members(model))
    records = torch.utils.data.TensorDataset(inputs.x[members], inputs.y[members])
    loader = torch.utils.data.DataLoader(records, batch_size=PRIVATE.batch_size)
    optimizer = torch.optim.SGD(net.parameters(), lr=PRIVATE.lr)
    engine = PrivacyEngine()
    net, optimizer, loader = engine.make_private(
        module=net, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0
    )
    for _ in range(EPOCHS):
        for x, y in loader:
            optimizer.zero_grad()
            functional.cross_entropy(net(x), y).backward()
            optimizer.step()
    _query(net, inputs)


def opacus_indexed(inputs: Inputs, design: Design, model: int) -> None:
    """Opacus's gradients and optimizer, without its data loader."""
    from opacus.grad_sample import GradSampleModule
    from opacus.optimizers import DPOptimizer

    (net,) = initial_nets(PRIVATE, inputs, np.array([model]), SEED)
    sampling, members = Sampling.of(design, PRIVATE.batch_size), torch.from_numpy(design.members(model))
    module = GradSampleModule(net)
    optimizer = DPOptimizer(
        torch.optim.SGD(net.parameters(), lr=PRIVATE.lr),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        expected_batch_size=sampling.batch_size,
    )
    for _ in range(EPOCHS * sampling.steps_per_epoch):
        batch = members[torch.rand(len(members)) < sampling.rate]
        optimizer.zero_grad()
        functional.cross_entropy(module(inputs.x[batch]), inputs.y[batch]).backward()
        optimizer.step()
    _query(net, inputs)


def _query(net: nn.Module, inputs: Inputs) -> None:
    with torch.no_grad():
        net.eval()(inputs.x)


def cpu_seconds(work: Callable[[], None]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--opacus-models", type=int, default=2, help="of the 64; the others cost as much")
    options = arguments.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    records = load("digits")
    inputs, design = (
        inputs_from(records, torch.device("cpu")),
        make_design("balanced", MODELS, len(records), 0),
    )
    times = MODELS / options.opacus_models
    some = range(options.opacus_models)
    work: dict[str, tuple[Callable[[], object], float]] = {
        "without privacy": (lambda: ours(inputs, design, replace(PRIVATE, privacy=None)), 1.0),
        "DP-SGD": (lambda: ours(inputs, design, PRIVATE), 1.0),
        "noise alone": (lambda: noise_alone(inputs, design), 1.0),
    }
    try:
        import opacus

        work["Opacus, batches by index"] = (
            lambda: [opacus_indexed(inputs, design, m) for m in some], times
        )  # fmt: skip
        work["Opacus, its data loader"] = (lambda: [opacus_loader(inputs, design, m) for m in some], times)
        print(f"opacus {opacus.__version__}, torch {torch.__version__}")
    except ImportError:
        print("opacus is not installed: timed without it")
    found: dict[str, list[float]] = {name: [] for name in work}
    for lap in range(options.rounds + 1):
        for name, (run, factor) in work.items():
            seconds = cpu_seconds(run) * factor  # type: ignore[arg-type]
            if lap:  # the first one loads libraries
                found[name].append(seconds)
    medians = {name: statistics.median(seconds) for name, seconds in found.items()}
    print(f"{MODELS} perceptrons on digits, {EPOCHS} epochs, one thread, CPU seconds (median of "
          f"{options.rounds}; range)")  # fmt: skip
    for name, seconds in found.items():
        print(f"  {name:26s} {medians[name]:8.2f}  ({min(seconds):.2f} to {max(seconds):.2f})   "
              f"{medians[name] / medians['DP-SGD']:6.2f} times DP-SGD")  # fmt: skip
    print(f"DP-SGD takes {medians['DP-SGD'] / medians['without privacy']:.2f} times as long as training "
          "without privacy")  # fmt: skip


if __name__ == "__main__":
    main()
