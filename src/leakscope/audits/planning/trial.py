"""The timed trial: a few seconds of the real recipe, and the whole training from them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, log, prod
from statistics import median
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from leakscope.adapter_recipe import AdapterRecipe
from leakscope.array_types import IntArray
from leakscope.engine.local import SECONDS_TO_START_PROCESSES, SECONDS_WORTH_PROCESSES, side_by_side
from leakscope.engine.request import TrainingRequest, device_of
from leakscope.engine.worker import Worker, threads_limited
from leakscope.models.language import activations_of_a_token
from leakscope.recipe import EstimatorRecipe, FunctionRecipe, Recipe
from leakscope.report.phrases import counted
from leakscope.train import loop
from leakscope.train.adapters.choice import base_of
from leakscope.train.adapters.losses import LOGITS_AT_ONCE
from leakscope.train.plan import DRAWN_AT_ONCE
from leakscope.train.poisson import plan_of
from leakscope.train.queries import EVALUATED_AT_ONCE, evaluate
from leakscope.train.steps import GATHERED_AT_ONCE
from leakscope.types import Design, Records

_STEPS_TRIAL, _ORDERS_TRIAL, _QUERIES_TRIAL, _FITS_TRIAL = 1.5, 0.2, 0.5, 2.0  # s
_UNSEEN = 0.25  # what a few seconds do not show (other load, heat); widens the range both ways
_MOST_ROUNDS = 20

Work = Callable[[], object]
_WorkOf = Callable[[int], Work]


@dataclass(frozen=True)
class Training:
    """How the models will be trained; `parameters` are one network's, None for an estimator."""

    trainer: str
    device: str
    block_size: int
    blocks: int
    parameters: int | None = None
    note: str | None = None


@dataclass(frozen=True)
class Seconds:
    """A duration and the range it should fall in."""

    expected: float
    low: float
    high: float

    def __add__(self, other: Seconds) -> Seconds:
        return Seconds(self.expected + other.expected, self.low + other.low, self.high + other.high)

    def __mul__(self, times: float) -> Seconds:
        return Seconds(self.expected * times, self.low * times, self.high * times)

    def widened(self) -> Seconds:
        """With a range for what a short trial does not show."""
        return Seconds(self.expected, self.low * (1 - _UNSEEN), self.high * (1 + _UNSEEN))


class TrainingBytes(NamedTuple):
    """Memory of the models trained at once: what is trained, with gradients and moments, and the rest."""

    parameters: int
    workspace: int


def block_size_of(request: TrainingRequest) -> int:
    """Models in a full block."""
    return len(request.identity.blocks[0])


class Networks:
    """A block of the recipe's networks, to be timed and measured."""

    def __init__(self, request: TrainingRequest, recipe: Recipe) -> None:
        started = time.perf_counter()
        self._request, self._recipe, self._seed = request, recipe, request.seed
        self._device = device_of(request.device)
        self._inputs = loop.with_standard_labels(loop.inputs_from(request.records, self._device))
        trainer, note = loop.choose_trainer(recipe, self._inputs)
        self._preparing = time.perf_counter() - started
        self._models = np.arange(1 if trainer == "serial" else block_size_of(request))
        self._in_mask = request.design.in_mask[self._models]
        trained_on = self._inputs.trained_on(request.design, recipe)
        self._batches = plan_of(*trained_on, self._models, recipe, self._seed)
        size = self._n_parameters()
        self.training = Training(
            trainer, str(self._device), block_size_of(request), len(request.identity.blocks), size, note
        )

    def seconds(self) -> Seconds:
        """All epochs, checkpoints and blocks, from a few steps, orders of records and queries."""
        recipe, n_records, n_steps = self._recipe, len(self._request.records), self._batches.steps
        set_up = elapsed(self._make_stack)
        most_orders = max(1, DRAWN_AT_ONCE // (4 * n_steps * self._batches.batch * len(self._models)))
        order = seconds_a_unit(self._orders, 1, min(most_orders, recipe.epochs), _ORDERS_TRIAL)
        step = seconds_a_unit(self._steps, 1, n_steps, _STEPS_TRIAL)
        query = seconds_a_unit(self._queries, min(64, n_records), n_records, _QUERIES_TRIAL)
        block = (step * n_steps + order) * recipe.epochs_of_all_stages + Seconds(set_up, set_up, set_up)
        block += query * (n_records * (len(recipe.evaluated_epochs) + recipe.early_reads))
        preparing = Seconds(self._preparing, self._preparing, self._preparing)
        return block * (self._request.design.n_models / len(self._models)) + preparing

    def how(self) -> str:
        """How `seconds` was measured."""
        recipe = self._recipe
        return (
            f"training steps and queries of {counted(len(self._models), 'model')} at once, times "
            f"{counted(recipe.epochs_of_all_stages, 'epoch')} of {counted(self._batches.steps, 'step')}, "
            f"{counted(len(recipe.evaluated_epochs), 'checkpoint')} and all models"
        )

    def memory(self) -> TrainingBytes:
        """Batches and outputs of layers in training, or in queries if these need more, are workspace."""
        recipe, n_steps, n_inputs = self._recipe, self._batches.steps, prod(self._inputs.shape)
        n_moments = 2 if recipe.optimizer != "sgd" else int(recipe.momentum > 0)
        parameters = 4 * (2 + n_moments) * len(self._models) * int(self.training.parameters or 0)
        rows, layers = len(self._models) * self._batches.batch, self._layer_outputs()
        gathered = min(max(GATHERED_AT_ONCE, rows * n_inputs), n_steps * rows * n_inputs)
        orders = min(max(DRAWN_AT_ONCE, n_steps * rows), recipe.epochs * n_steps * rows)
        training = 8 * (gathered + orders + n_steps * rows) + 4 * rows * sum(layers)
        most_rows = max(1, EVALUATED_AT_ONCE // (len(self._models) * max(1, n_inputs)))
        queried_rows = len(self._models) * min(most_rows, len(self._request.records))
        neighbours = max(map(sum, zip(layers, [*layers[1:], 0], strict=True)), default=0)
        querying = 4 * queried_rows * (n_inputs + neighbours + 3 * self._inputs.n_outputs)
        return TrainingBytes(parameters, max(training, querying))

    def _layer_outputs(self) -> list[int]:
        """Numbers that each layer of the network puts out for one row."""
        counts: list[int] = []
        layers = [module for module in self._net.modules() if not list(module.children())]
        hooks = [m.register_forward_hook(lambda *call: counts.append(_n_numbers(call[2]))) for m in layers]
        rows = self._inputs.x[:2].cpu()
        with torch.no_grad():
            self._net.eval()(rows)
        for hook in hooks:
            hook.remove()
        return [count // len(rows) for count in counts]

    @cached_property
    def _net(self) -> nn.Module:
        return loop.initial_nets(self._recipe, self._inputs, self._models[:1], self._seed)[0]

    def _n_parameters(self) -> int:
        """Parameters of one network that are trained."""
        return sum(p.numel() for p in self._net.parameters())

    def _make_stack(self) -> None:
        self._stack = loop.new_stack(self._inputs, self._batches, self._recipe, self.training.trainer)

    def _orders(self, n_epochs: int) -> Work:
        return lambda: list(self._batches.epochs(n_epochs))

    def _steps(self, n_steps: int) -> Work:
        """Epochs of so many steps: every model has so many batches of members."""
        n_before = self._in_mask.cumsum(axis=1) - self._in_mask
        some = Design(self._in_mask & (n_before < n_steps * self._batches.batch))
        recipe = replace(self._recipe, epochs=self._recipe.epochs + _MOST_ROUNDS)
        if recipe.privacy is not None:  # any noise takes as long
            recipe = replace(recipe, privacy=replace(recipe.privacy, epsilon=None, noise_multiplier=1.0))
        batches = plan_of(some, None, self._models, recipe, self._seed)
        epochs = loop.train(self._stack, self._inputs, batches, recipe)
        return lambda: self._settled(next(epochs))

    def _queries(self, n_records: int) -> Work:
        x, y = self._inputs.x[:n_records], self._inputs.y[:n_records]
        some = loop.Inputs(x, y, self._inputs.n_outputs, queries=self._request.asked.queries)
        if self._request.records.is_language:
            some = replace(some, records=self._request.records.take(np.arange(n_records)))
        design, names = Design(self._in_mask[:, :n_records]), self._request.signal_names
        return lambda: self._settled(evaluate(self._stack, some, design, names))

    def _settled(self, done: object) -> object:
        """`done`, when the device has really done it."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return done


class Adapters(Networks):
    """A block of language models, to be timed and measured."""

    def memory(self) -> TrainingBytes:
        """The base, activations and logits at once are workspace."""
        recipe, models = self._recipe, len(self._models)
        assert isinstance(recipe, AdapterRecipe), "made for language models only"
        n_moments = 2 if recipe.optimizer != "sgd" else int(recipe.momentum > 0)
        parameters = 4 * (2 + n_moments) * models * int(self.training.parameters or 0)
        base = base_of(recipe, self._request.records)
        tokens = models * ceil(self._batches.batch / recipe.accumulation) * prod(self._inputs.shape)
        activations = tokens * activations_of_a_token(base.model, recipe.gradient_checkpointing)
        logits = min(tokens * base.vocabulary, LOGITS_AT_ONCE) if base.is_causal else 0
        workspace = 4 * (base.n_parameters + activations + 3 * logits)
        return TrainingBytes(parameters, workspace)

    def _n_parameters(self) -> int:
        stack = loop.new_stack(self._inputs, self._batches, self._recipe, "serial")
        return sum(p.numel() for p in stack.parameters) // len(self._models)


class Fits:
    """One model of an estimator or of a user's own function, to be timed."""

    def __init__(self, request: TrainingRequest, recipe: EstimatorRecipe | FunctionRecipe) -> None:
        name = "estimators" if isinstance(recipe, EstimatorRecipe) else "function"
        self._request = request
        self._n_processes, self._n_threads = side_by_side(request)
        self._in_mask = request.design.in_mask[:1]
        self._most = int(self._in_mask.sum(axis=1).max())
        self._fitted = 0
        self.training = Training(name, "cpu", block_size_of(request), len(request.identity.blocks))

    def seconds(self) -> Seconds:
        """All models, from a few fits on some or all of the members; in processes where that pays off."""
        start = min(self._most, 20 * self._request.records.n_classes)
        fit, self._fitted, _ = grown(self._fits, start, self._most, _FITS_TRIAL)
        alone = fit * self._request.design.n_models
        if self._n_processes == 1 or alone.expected < SECONDS_WORTH_PROCESSES:
            return alone
        rounds = fit * ceil(self._request.design.n_models / self._n_processes)
        # Processes share caches and memory, which one model alone does not show.
        shared = Seconds(rounds.expected, rounds.low, 1.5 * rounds.high)
        return shared + Seconds(*[SECONDS_TO_START_PROCESSES] * 3)

    def how(self) -> str:
        """How `seconds` was measured."""
        return f"1 model fitted on {self._fitted:,} of {self._most:,} members, times all"

    def memory(self) -> TrainingBytes:
        """The processes' copies of their members, and outputs; the memory of the models is unknown."""
        records = self._request.records
        n_outputs = block_size_of(self._request) * len(records) * records.n_classes
        inputs = records.features if records.frame is None else records.frame
        return TrainingBytes(0, self._n_processes * inputs.nbytes // 2 + 8 * n_outputs)

    def _fits(self, n_members: int) -> Work:
        """One model on so many of its members, queried about as large a share of the other records.

        Querying all records would be a fixed cost of every trial, however few members it has.
        """
        r, in_mask = self._request, self._in_mask[0]
        rng = np.random.default_rng(r.seed)
        members = shuffled(np.flatnonzero(in_mask), r.records, rng)[:n_members]
        others = rng.permutation(np.flatnonzero(~in_mask))
        some = np.sort(np.concatenate([members, others[: len(others) * n_members // self._most]]))
        smaller = replace(r, records=r.records.take(some), design=Design(np.isin(some, members)[None]))
        worker = Worker(smaller, r.device)
        return lambda: self._fit(worker)

    def _fit(self, worker: Worker) -> None:
        with threads_limited(self._n_threads):
            worker.train(np.arange(1))


def shuffled(index: IntArray, records: Records, rng: np.random.Generator) -> IntArray:
    """In random order, but one of each class first: any head of it will do to fit and to judge."""
    order = rng.permutation(index)
    if not records.is_classification:
        return order
    first = np.unique(records.labels[order], return_index=True)[1]
    return np.concatenate([order[first], np.delete(order, first)])


def elapsed(work: Work) -> float:
    """Seconds that work takes by the clock."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def seconds_a_unit(work_of: _WorkOf, start: int, most: int, trial: float) -> Seconds:
    """Seconds of one unit, from rounds of as many of them (`most` at most) as a short trial allows."""
    first = _rounds(work_of(start), trial / 4)
    n = min(max(int(start * trial / (8 * max(median(first), 1e-9))), start), most)
    rounds = first if n == start else _rounds(work_of(n), trial)
    return Seconds(median(rounds), min(rounds), max(rounds)) * (1 / n)


def _rounds(work: Work, trial: float) -> list[float]:
    """Seconds of each round; the first one warms up, and counts only where it took the whole trial."""
    rounds, started = [elapsed(work)], time.perf_counter()
    while rounds[0] < trial and time.perf_counter() - started < trial and len(rounds) < _MOST_ROUNDS:
        rounds.append(elapsed(work))
    return rounds[1:] or rounds


class Grown(NamedTuple):
    """Seconds of the full size; the largest size tried, and its seconds."""

    full: Seconds
    largest: int
    measured: float


def grown(work_of: _WorkOf, start: int, full: int, trial: float) -> Grown:
    """The size is doubled while the trial lasts, and extrapolated from there."""
    work_of(start)()  # warms up
    sizes, seconds = [start], [elapsed(work_of(start))]
    while sizes[-1] < full and sum(seconds) + 2 * seconds[-1] * (len(sizes) > 1) < trial:
        sizes.append(min(2 * sizes[-1], full))
        seconds.append(elapsed(work_of(sizes[-1])))
    return Grown(extrapolated(sizes[-2:], seconds[-2:], full), sizes[-1], seconds[-1])


def extrapolated(sizes: list[int], seconds: list[float], full: int) -> Seconds:
    """Seconds of the full size, from the last one or two sizes.

    Twice the size in less than twice the time: a fixed cost and a linear one. In more: a power of
    the size, at most its square. The range is from the former to half a power more than the latter.
    """
    ratio, growth, affine = full / sizes[-1], 1.0, seconds[-1] * full / sizes[-1]
    if len(sizes) == 2:
        growth = log(seconds[1] / seconds[0]) / log(sizes[1] / sizes[0])
        slope = max(seconds[1] - seconds[0], 0.0) / (sizes[1] - sizes[0])
        affine = seconds[1] + slope * (full - sizes[1])
    power = min(max(growth, 1.0), 2.0)
    steeper = seconds[-1] * ratio ** (power + 0.5)
    return Seconds(affine if growth < 1 else seconds[-1] * ratio**power, affine, steeper)


def _n_numbers(output: object) -> int:
    return output.numel() if isinstance(output, Tensor) else 0
