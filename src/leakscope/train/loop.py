"""The training loop: one for all trainers, CPU and CUDA.

A block of models goes through the same steps in lockstep, each with its own initialisation,
records and batch order, and is asked about every record at the recipe's checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from leakscope.errors import InputError
from leakscope.models.registry import build
from leakscope.randomness import Purpose, seed_integer
from leakscope.recipe import Recipe
from leakscope.signals import classification_signals, regression_signals
from leakscope.train.dense import DenseStack, dense_layers
from leakscope.train.dropout import seed_dropout
from leakscope.train.optimizer import Optimizer
from leakscope.train.plan import BatchPlan
from leakscope.train.serial import SerialModel
from leakscope.train.stacked import VmapStack, why_not_stackable
from leakscope.types import AnyArray, BoolArray, Design, IntArray, Records

GATHERED_AT_ONCE = 4_000_000  # numbers copied into one run of batches
EVALUATED_AT_ONCE = 8_000_000  # numbers fed to the models at once when they are asked
_STACKED_PARAMETERS = 1_000_000  # above this a model fills the device by itself

_NOTHING = nullcontext()

Progress = Callable[[float], None]
"""Called with the number of models' worth of training just done (a fraction of the block)."""


class Stack(Protocol):
    """A block of models that can be trained and asked; every tensor's first axis is the model."""

    parameters: list[Tensor]
    buffers: list[Tensor]

    def gradients(self, x: Tensor, y: Tensor, row_weight: Tensor) -> list[Tensor]:
        """Gradients of `sum(row_weight * loss)`, in the order of `parameters`."""

    def outputs(self, x: Tensor) -> Tensor:
        """(models, rows, ...) -> (models, rows, outputs)."""

    def state(self) -> dict[str, Tensor]:
        """Parameters under the module's own names and shapes."""


StackMaker = Callable[[list[nn.Module], float, torch.device], Stack]


@dataclass(frozen=True, eq=False)
class Inputs:
    """Records as tensors on the training device."""

    x: Tensor  # float32 (records, ...)
    y: Tensor  # int64 or float32 (records,)
    n_outputs: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one record."""
        return tuple(self.x.shape[1:])


@dataclass(frozen=True, eq=False)
class Answers:
    """What a trained block said.

    Attributes:
        signals: name -> (models, checkpoints, columns[, classes]).
        lost_at: int64 (models,), the first checkpoint's epoch at which a model or its answers were
            no longer finite; 0 where fine.
        trainer: "dense", "stacked", "serial" or "estimators".
    """

    signals: dict[str, AnyArray]
    lost_at: IntArray
    trainer: str


def inputs_from(records: Records, device: torch.device) -> Inputs:
    """Records on the device; images (uint8) standardised by channel."""
    x = torch.from_numpy(records.features)
    if x.dtype == torch.uint8:
        x = x.to(device).float()
        axes = (0, *range(2, x.ndim))
        spread, centre = torch.std_mean(x, dim=axes, keepdim=True)
        x = (x - centre) / spread.clamp(min=1e-6)
    return Inputs(x.to(device), torch.from_numpy(records.labels).to(device), records.n_classes)


def initial_nets(recipe: Recipe, inputs: Inputs, models: IntArray, seed: int) -> list[nn.Module]:
    """The block's freshly initialised networks, each from its own seed."""
    nets = []
    with torch.random.fork_rng(devices=[]):
        for model in models.tolist():
            # Only the CPU's generator: torch.manual_seed would also queue a call for each other device.
            torch.default_generator.manual_seed(seed_integer(seed, model, Purpose.INITIALISATION))
            net = build(recipe, inputs.shape, inputs.n_outputs)
            seed_dropout(net, seed_integer(seed, model, Purpose.DROPOUT))
            nets.append(net)
    return nets


def choose_trainer(recipe: Recipe, inputs: Inputs) -> tuple[str, str | None]:
    """("dense" | "stacked" | "serial", note): the fastest trainer that fits the recipe's network."""
    if recipe.trainer == "serial":
        return "serial", None
    nets = initial_nets(recipe, inputs, np.arange(2), seed=0)
    if dense_layers(nets[0]) is not None:
        return "dense", None
    n_parameters = sum(p.numel() for p in nets[0].parameters())
    if recipe.trainer == "auto" and n_parameters > _STACKED_PARAMETERS:
        return "serial", None
    reason = why_not_stackable(nets, inputs.x[:2], inputs.y[:2])
    if reason is None:
        return "stacked", None
    if recipe.trainer == "stacked":
        raise InputError(
            f"trainer='stacked': {recipe.net!r} cannot be stacked ({reason}); use trainer='auto'"
        )
    return "serial", f"trained one at a time: {reason}"


def train_block(
    inputs: Inputs,
    design: Design,
    recipe: Recipe,
    models: IntArray,
    seed: int,
    kept: tuple[str, ...],
    trainer: str,
    progress: Progress = lambda _: None,
) -> Answers:
    """Trains the models of one block and asks them about their records."""
    if trainer == "serial" and len(models) > 1:
        alone = [
            train_block(inputs, design, recipe, models[i : i + 1], seed, kept, trainer, progress)
            for i in range(len(models))
        ]
        return _joined(alone)
    makers: dict[str, StackMaker] = {"dense": DenseStack, "stacked": VmapStack, "serial": SerialModel}
    stack = makers[trainer](
        initial_nets(recipe, inputs, models, seed), recipe.label_smoothing, inputs.x.device
    )
    plan = BatchPlan(design, models, recipe.batch_size, seed)
    lost_at = np.zeros(len(models), dtype=np.int64)
    asked: list[dict[str, AnyArray]] = []
    with _own_randomness(seed, int(models[0]), inputs.x.device) if trainer == "serial" else nullcontext():
        for epoch in train(stack, inputs, plan, recipe):
            progress(len(models) / recipe.epochs)
            if epoch in recipe.evaluated_epochs:
                asked.append(ask(stack, inputs, design.take(models), kept))
                lost_at[(lost_at == 0) & ~_is_finite(stack, asked[-1])] = epoch
    signals = {name: np.stack([answers[name] for answers in asked], axis=1) for name in kept}
    return Answers(signals, lost_at, trainer)


def train(stack: Stack, inputs: Inputs, plan: BatchPlan, recipe: Recipe) -> Iterator[int]:
    """Trains epoch by epoch; yields the number of epochs done."""
    optimizer = Optimizer(recipe, stack.parameters)
    device = inputs.x.device
    row_weight = torch.from_numpy(plan.row_weight).to(device).unbind()
    idle = [np.flatnonzero(models) for models in plan.idle]
    for epoch, order in enumerate(plan.epochs(recipe.epochs)):
        index = torch.from_numpy(order).to(device)
        for step, (x, y) in enumerate(_batches(inputs, index)):
            lr = recipe.lr * recipe.lr_factor(epoch + step / plan.steps)
            with _frozen(idle[step], [*optimizer.tensors, *stack.buffers]) if len(idle[step]) else _NOTHING:
                optimizer.step(stack.gradients(x, y, row_weight[step]), lr)
        yield epoch + 1


def ask(stack: Stack, inputs: Inputs, design: Design, kept: tuple[str, ...]) -> dict[str, AnyArray]:
    """The block's signals on every column of the design; (models, columns[, classes]) each."""
    n_models, n_columns = design.in_mask.shape
    columns = None if design.columns is None else torch.from_numpy(design.columns).to(inputs.x.device)
    rows = max(1, EVALUATED_AT_ONCE // (n_models * max(1, inputs.x[0].numel())))
    parts: list[dict[str, Tensor]] = []
    outputs: list[Tensor] = []
    targets: list[Tensor] = []
    for start in range(0, n_columns, rows):
        if columns is None:
            x, y = inputs.x[start : start + rows], inputs.y[start : start + rows]
            x, y = x.expand(n_models, *x.shape), y.expand(n_models, *y.shape)
        else:
            x, y = inputs.x[columns[:, start : start + rows]], inputs.y[columns[:, start : start + rows]]
        z = stack.outputs(x).float()
        if y.is_floating_point():
            outputs.append(z[..., 0])
            targets.append(y)
        else:
            parts.append(classification_signals(z, y, kept))
    if outputs:
        in_mask = torch.from_numpy(design.in_mask).to(inputs.x.device)
        parts = [_regression_answers(torch.cat(outputs, 1), torch.cat(targets, 1), in_mask, kept)]
    return {name: torch.cat([part[name] for part in parts], dim=1).cpu().numpy() for name in kept}


def answers_of_outputs(
    outputs: AnyArray, labels: AnyArray, in_mask: BoolArray, kept: tuple[str, ...], trainer: str
) -> Answers:
    """Answers of models that were trained elsewhere and asked once.

    Args:
        outputs: float32 (models, columns, outputs).
        labels: (models, columns).
        in_mask: bool (models, columns).
        kept: signals to keep.
        trainer: who trained them.
    """
    z, y = torch.from_numpy(outputs), torch.from_numpy(labels)
    if y.is_floating_point():
        signals = _regression_answers(z[..., 0], y, torch.from_numpy(in_mask), kept)
    else:
        signals = classification_signals(z, y, kept)
    one_checkpoint = {name: values.numpy()[:, None] for name, values in signals.items()}
    lost_at = np.asarray(~np.isfinite(outputs).all(axis=(1, 2)), dtype=np.int64)
    return Answers(one_checkpoint, lost_at, trainer)


def _regression_answers(
    outputs: Tensor, targets: Tensor, in_mask: Tensor, kept: tuple[str, ...]
) -> dict[str, Tensor]:
    squared = (outputs - targets).square() * in_mask
    residual_sd = (squared.sum(1) / in_mask.sum(1)).sqrt().clamp(min=1e-6)
    return regression_signals(outputs, targets, residual_sd, kept)


def _batches(inputs: Inputs, index: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """The batches of one epoch; `index` is (steps, models, batch). Small ones are gathered together."""
    steps, models, batch = index.shape
    together = max(1, GATHERED_AT_ONCE // (models * batch * max(1, inputs.x[0].numel())))
    for start in range(0, steps, together):
        part = index[start : start + together]
        flat = part.reshape(-1)
        x = inputs.x.index_select(0, flat).view(*part.shape, *inputs.shape)
        y = inputs.y.index_select(0, flat).view(part.shape)
        yield from zip(x, y, strict=True)


@contextmanager
def _frozen(idle: IntArray, tensors: list[Tensor]) -> Iterator[None]:
    """Keeps models that have no batch at this step exactly where they are."""
    rows = torch.from_numpy(idle)
    before = [t[rows] for t in tensors]
    yield
    for tensor, value in zip(tensors, before, strict=True):
        tensor[rows] = value


def _is_finite(stack: Stack, answers: dict[str, AnyArray]) -> BoolArray:
    """bool (models,): parameters and answers are; finite parameters can still give infinite answers."""
    # A sum is finite only if all its terms are.
    finite = torch.stack([p.flatten(1).sum(1) for p in stack.parameters]).sum(0).isfinite().cpu().numpy()
    for values in answers.values():
        finite = finite & np.isfinite(values).all(axis=tuple(range(1, values.ndim)))
    return np.asarray(finite)


@contextmanager
def _own_randomness(seed: int, model: int, device: torch.device) -> Iterator[None]:
    """Seeds torch's global generators for one model, whose module may draw from them (functional dropout)."""
    own_seed = seed_integer(seed, model, Purpose.DROPOUT)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.default_generator.manual_seed(own_seed)
        if device.type == "cuda":
            torch.cuda.manual_seed_all(own_seed)
        yield


def _joined(alone: list[Answers]) -> Answers:
    signals = {name: np.concatenate([a.signals[name] for a in alone]) for name in alone[0].signals}
    return Answers(signals, np.concatenate([a.lost_at for a in alone]), alone[0].trainer)
