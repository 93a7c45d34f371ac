"""How fast is DP-SGD for a population, against Opacus in a loop and against training without privacy?

The same records (digits), networks (64 perceptrons of width 128, or 8 networks of two convolutions with group
norm), batch size, number of steps, clipping and noise, in one process. Opacus trains one model after the
other, twice: with its own data loader, and with batches taken by index from tensors. Rounds alternate, as
machines are noisy; ratios are of medians, of CPU time with one thread. `--wall` is for a machine with nothing
else to do: time on the clock, with as many threads as torch takes. The noise alone, for every parameter of
every model at every step, is timed beside them: it is the floor of any implementation.

    python benchmarks/dp_against_opacus.py [--net cnn]
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from leakscope.data.registry import load
from leakscope.design import make_design
from leakscope.privacy.settings import Privacy, Sampling
from leakscope.recipe import Recipe
from leakscope.train.loop import Inputs, initial_nets, inputs_from, train_block
from leakscope.train.noise import Noise
from leakscope.types import Design

SEED = 0
MLP = Recipe(net="mlp", optimizer="sgd", lr=0.5, batch_size=64, epochs=10,
             privacy=Privacy(noise_multiplier=1.0))  # fmt: skip
CNN = replace(MLP, net="cnn", net_options=(("norm", "group"),), epochs=2)


class Case(NamedTuple):
    """What is trained."""

    recipe: Recipe
    trainer: str
    inputs: Inputs
    design: Design

    @property
    def n_steps(self) -> int:
        return self.recipe.epochs * Sampling.of(self.design, self.recipe.batch_size).steps_per_epoch


def case_of(net: str) -> Case:
    recipe, n_models, trainer = (MLP, 64, "dense") if net == "mlp" else (CNN, 8, "stacked")
    shape = (64,) if net == "mlp" else (1, 8, 8)
    records = load("digits")
    pictures = replace(records, features=records.features.reshape(-1, *shape))
    design = make_design("balanced", n_models, len(records), 0)
    return Case(recipe, trainer, inputs_from(pictures, torch.device("cpu")), design)


def ours(case: Case, recipe: Recipe) -> None:
    models = np.arange(case.design.n_models)
    train_block(case.inputs, case.design, recipe, models, SEED, ("loss",), case.trainer)


def noise_alone(case: Case) -> None:
    n_models = case.design.n_models
    (net,) = initial_nets(case.recipe, case.inputs, np.arange(1), SEED)
    shapes = [tuple(p.shape) for p in net.parameters()]
    noise = Noise(SEED, np.arange(n_models), shapes, 1.0, torch.device("cpu"))
    gradients = [torch.zeros(n_models, *shape) for shape in shapes]
    for _ in range(case.n_steps):
        noise.add_(gradients)


def opacus_loader(case: Case, model: int) -> None:
    """Opacus as its documentation shows it."""
    from opacus import PrivacyEngine

    inputs, recipe = case.inputs, case.recipe
    (net,) = initial_nets(recipe, inputs, np.array([model]), SEED)
    members = torch.from_numpy(case.design.members(model))
    records = torch.utils.data.TensorDataset(inputs.x[members], inputs.y[members])
    loader = torch.utils.data.DataLoader(records, batch_size=recipe.batch_size)
    optimizer = torch.optim.SGD(net.parameters(), lr=recipe.lr)
    net, optimizer, loader = PrivacyEngine().make_private(
        module=net, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0
    )
    for _ in range(recipe.epochs):
        for x, y in loader:
            optimizer.zero_grad()
            functional.cross_entropy(net(x), y).backward()
            optimizer.step()
    _query(net, inputs)


def opacus_indexed(case: Case, model: int) -> None:
    """Opacus's gradients and optimizer, without its data loader."""
    from opacus.grad_sample import GradSampleModule
    from opacus.optimizers import DPOptimizer

    inputs, recipe = case.inputs, case.recipe
    (net,) = initial_nets(recipe, inputs, np.array([model]), SEED)
    sampling = Sampling.of(case.design, recipe.batch_size)
    members = torch.from_numpy(case.design.members(model))
    module = GradSampleModule(net)
    optimizer = DPOptimizer(
        torch.optim.SGD(net.parameters(), lr=recipe.lr),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        expected_batch_size=sampling.batch_size,
    )
    for _ in range(case.n_steps):
        batch = members[torch.rand(len(members)) < sampling.rate]
        optimizer.zero_grad()
        functional.cross_entropy(module(inputs.x[batch]), inputs.y[batch]).backward()
        optimizer.step()
    _query(net, inputs)


def _query(net: nn.Module, inputs: Inputs) -> None:
    with torch.no_grad():
        net.eval()(inputs.x)


def seconds_of(work: Callable[[], object], clock: Callable[[], float]) -> float:
    started = clock()
    work()
    return clock() - started


def work_of(case: Case, n_opacus: int) -> dict[str, tuple[Callable[[], object], float]]:
    """What is timed, and what the time is multiplied by."""
    times, some = case.design.n_models / n_opacus, range(n_opacus)
    plain = replace(case.recipe, privacy=None)
    work: dict[str, tuple[Callable[[], object], float]] = {
        "without privacy": (lambda: ours(case, plain), 1.0),
        "DP-SGD": (lambda: ours(case, case.recipe), 1.0),
        "noise alone": (lambda: noise_alone(case), 1.0),
    }
    try:
        import opacus
    except ImportError:
        print("opacus is not installed: timed without it")
        return work
    print(f"opacus {opacus.__version__}, torch {torch.__version__}")
    work["Opacus, batches by index"] = (lambda: [opacus_indexed(case, m) for m in some], times)
    work["Opacus, its data loader"] = (lambda: [opacus_loader(case, m) for m in some], times)
    return work


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--net", choices=("mlp", "cnn"), default="mlp")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--opacus-models", type=int, default=2, help="the others cost as much")
    arguments.add_argument("--wall", action="store_true", help="time on the clock, all cores")
    options = arguments.parse_args()
    clock, unit = (time.perf_counter, "seconds") if options.wall else (time.process_time, "CPU seconds")
    if not options.wall:
        torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    case = case_of(options.net)
    work = work_of(case, options.opacus_models)
    found: dict[str, list[float]] = {name: [] for name in work}
    for lap in range(options.rounds + 1):
        for name, (run, factor) in work.items():
            seconds = seconds_of(run, clock) * factor
            if lap:  # the first one loads libraries
                found[name].append(seconds)
    medians = {name: statistics.median(seconds) for name, seconds in found.items()}
    print(f"{case.design.n_models} networks ({options.net}) on digits, {case.recipe.epochs} epochs, "
          f"{torch.get_num_threads()} threads, {unit} (median of {options.rounds}; range)")  # fmt: skip
    for name, seconds in found.items():
        print(f"  {name:26s} {medians[name]:8.2f}  ({min(seconds):.2f} to {max(seconds):.2f})   "
              f"{medians[name] / medians['DP-SGD']:6.2f} times DP-SGD")  # fmt: skip
    print(f"DP-SGD takes {medians['DP-SGD'] / medians['without privacy']:.2f} times as long as training "
          "without privacy")  # fmt: skip


if __name__ == "__main__":
    main()
