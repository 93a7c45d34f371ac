"""The training loop: one for all trainers, CPU and CUDA.

A block of models goes through the same steps in lockstep, each with its own initialisation,
records and batch order, and is evaluated on every record at the recipe's checkpoints.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from leakscope.array_types import AnyArray, BoolArray, IntArray
from leakscope.disk.mmap_rows import is_mapped, take_rows
from leakscope.disk.saved_training import Saving
from leakscope.disk.scratch import evict_pages
from leakscope.errors import InputError, first_line
from leakscope.models.registry import build
from leakscope.randomness import Purpose, seed_integer
from leakscope.recipe import Recipe
from leakscope.signals.functions import classification_signals, regression_signals
from leakscope.signals.residuals import label_spread
from leakscope.train.augment import Views, drawn_views, is_augmented, views_of
from leakscope.train.captured import CapturedSteps
from leakscope.train.dense import DenseStack, dense_layers
from leakscope.train.dropout import seed_dropout
from leakscope.train.losses import Objective
from leakscope.train.plan import BatchPlan
from leakscope.train.poisson import NOBODY, Plan, plan_of
from leakscope.train.row_by_row import why_not_private
from leakscope.train.side_by_side import SerialModel, SideBySide, compiled_loss
from leakscope.train.stacked import VmapStack, why_not_stackable
from leakscope.train.state import TrainingState, unsaved
from leakscope.train.steps import HostSteps, Stack
from leakscope.types import Design, Records

EVALUATED_AT_ONCE = 8_000_000  # numbers fed to the models at once when they are evaluated
_MORE_ON_CUDA = 8  # times as many: with small batches a GPU waits for launches
_STACKED_PARAMETERS = 1_000_000  # above this a model fills the device by itself

_COMPILED_FROM = 2_000_000  # rows a block is trained on, from which compiling its step pays on CUDA

Progress = Callable[[float], None]
"""Called with the number of models' worth of training just done (a fraction of the block)."""


Note = Callable[[str], None]
"""Called with what did not go as planned, for the manifest."""


class Follow(NamedTuple):
    """Who follows the training of a block: progress is called, and its state saved (None: nowhere)."""

    progress: Progress = lambda _: None
    saving: Saving | None = None


UNFOLLOWED = Follow()


StackMaker = Callable[[list[nn.Module], Objective, torch.device], Stack]

MAKERS: dict[str, StackMaker] = {
    "dense": DenseStack,
    "stacked": VmapStack,
    "serial": SerialModel,
    "side_by_side": SideBySide,
}
"""Trainer -> the block of models it trains."""


@dataclass(frozen=True, eq=False)
class Inputs:
    """Records as tensors on the training device."""

    x: Tensor  # float32 (records, ...)
    y: Tensor  # int64 or float32 (records,)
    n_outputs: int
    on_disk: AnyArray | None = None  # the memory map that x is, where it is one
    label_spread: float = 1.0  # of numeric labels, in their own unit
    y_centre: float = 0.0  # what was subtracted from numeric labels to give y,
    y_unit: float = 1.0  # and what they were divided by

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one record."""
        return tuple(self.x.shape[1:])

    def rows(self, index: Tensor) -> Tensor:
        """The records at `index`, int64 (rows,), in memory."""
        if self.on_disk is None:
            return self.x.index_select(0, index)
        return torch.from_numpy(take_rows(self.on_disk, index.numpy()))


@dataclass(frozen=True, eq=False)
class BlockSignals:
    """The signals of a trained block.

    Attributes:
        signals: name -> (models, checkpoints, columns[, classes]).
        diverged_at: int64 (models,), the first checkpoint's epoch at which a model or its outputs
            were no longer finite; 0 for a model that converged.
        trainer: "dense", "stacked", "serial", "side_by_side" or "estimators".
        note: what did not go as planned; empty: nothing.
        seconds: training time, where an earlier process did some of it; None: this one did all.
    """

    signals: dict[str, AnyArray]
    diverged_at: IntArray
    trainer: str
    note: str = ""
    seconds: float | None = None


def inputs_from(records: Records, device: torch.device) -> Inputs:
    """Records on the device; images (uint8) standardised by channel.

    On a CPU, float features that lie on disk stay there: batches are gathered from the memory map.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*not writable")  # memory maps are never written to
        x = torch.from_numpy(records.features)
    if x.dtype == torch.uint8:
        x = x.to(device).float()
        axes = (0, *range(2, x.ndim))
        spread, centre = torch.std_mean(x, dim=axes, keepdim=True)
        x = (x - centre) / spread.clamp(min=1e-6)
    is_on_disk = x.dtype == torch.float32 and device.type == "cpu" and is_mapped(records.features)
    y = torch.from_numpy(records.labels).to(device)
    on_disk = records.features if is_on_disk else None
    of_labels = 1.0 if records.is_classification else label_spread(records.labels)
    return Inputs(x.to(device), y, records.n_classes, on_disk, of_labels)


def with_standard_labels(inputs: Inputs) -> Inputs:
    """Numeric labels with median 0 and spread 1, so that no recipe depends on their unit.

    Median and spread are those of all records, members and not, so they reveal nothing about membership.
    """
    if not inputs.y.is_floating_point():
        return inputs
    centre = float(inputs.y.median())
    y = ((inputs.y.double() - centre) / inputs.label_spread).float()
    return replace(inputs, y=y, y_centre=centre, y_unit=inputs.label_spread)


def initial_nets(recipe: Recipe, inputs: Inputs, models: IntArray, seed: int) -> list[nn.Module]:
    """The block's freshly initialised networks, each from its own seed."""
    nets = []
    with torch.random.fork_rng(devices=[]):
        for model in models.tolist():
            # Only the CPU's generator: torch.manual_seed would also queue a call for each other device.
            torch.default_generator.manual_seed(seed_integer(seed, model, Purpose.INITIALISATION))
            net = build(recipe, inputs.shape, inputs.n_outputs)
            seed_dropout(net, seed_integer(seed, model, Purpose.DROPOUT))
            if recipe.precision == "bfloat16":
                _train_in_bfloat16(net, inputs.x.device.type)
            nets.append(net)
    return nets


def _train_in_bfloat16(net: nn.Module, device_type: str) -> None:
    """Makes `net` compute in bfloat16 during training, and in float32 in evaluation.

    Attacks compare outputs far out in the tails, where bfloat16's three digits would tie them.
    """
    forward = net.forward

    def mixed(x: Tensor) -> Tensor:
        with torch.autocast(device_type, torch.bfloat16, enabled=net.training):
            outputs: Tensor = forward(x)
        return outputs.float()

    net.forward = mixed


def choose_trainer(recipe: Recipe, inputs: Inputs) -> tuple[str, str | None]:
    """(a name of `MAKERS`, note): the fastest trainer that fits the recipe's network and the device."""
    if recipe.trainer == "serial" and recipe.privacy is None:
        return "serial", None
    if recipe.privacy is not None:
        _check_privacy(recipe, inputs)
    if recipe.trainer == "serial":
        return "serial", None
    nets = initial_nets(recipe, inputs, np.arange(2), seed=0)
    views = 1 if recipe.privacy is None else recipe.privacy.views
    if recipe.precision == "float32" and views == 1 and dense_layers(nets[0]) is not None:
        return "dense", None
    n_parameters = sum(p.numel() for p in nets[0].parameters())
    on_cpu = inputs.x.device.type == "cpu"
    if recipe.trainer == "auto" and n_parameters > _STACKED_PARAMETERS and on_cpu:
        return "serial", None
    has_convolutions = any(isinstance(module, nn.modules.conv._ConvNd) for module in nets[0].modules())
    side_by_side = recipe.trainer == "auto" and not on_cpu and has_convolutions
    if side_by_side:  # there precision is no obstacle; randomness shared by all models still is
        nets = initial_nets(replace(recipe, precision="float32"), inputs, np.arange(2), seed=0)
    reason = why_not_stackable(nets, inputs.x[:2], inputs.y[:2], recipe.privacy is not None)
    if reason is None:
        return "side_by_side" if side_by_side else "stacked", None
    if recipe.trainer == "stacked":
        raise InputError(
            f"trainer='stacked': {recipe.net!r} cannot be stacked ({reason}); use trainer='auto'"
        )
    return "serial", f"trained one at a time: {reason}"


def _check_privacy(recipe: Recipe, inputs: Inputs) -> None:
    """Raises when DP-SGD cannot protect the training of this network."""
    (net,) = initial_nets(replace(recipe, precision="float32"), inputs, np.arange(1), seed=0)
    reason = why_not_private(net.to(inputs.x.device), inputs.x[:2], inputs.y[:2])
    if reason is not None:
        raise InputError(f"privacy: {recipe.net!r} cannot be trained with DP-SGD: {reason}")


def train_block(
    inputs: Inputs,
    design: Design,
    recipe: Recipe,
    models: IntArray,
    seed: int,
    signal_names: tuple[str, ...],
    trainer: str,
    follow: Follow = UNFOLLOWED,
) -> BlockSignals:
    """Trains the models of one block and evaluates them on their records."""
    if trainer == "serial" and len(models) > 1:
        alone = [
            train_block(inputs, design, recipe, models[i : i + 1], seed, signal_names, trainer, follow)
            for i in range(len(models))
        ]
        return _joined(alone)
    plan = plan_of(design, models, recipe, seed)
    stack = _maker(trainer, plan, recipe)(
        initial_nets(recipe, inputs, models, seed), Objective.of(recipe), inputs.x.device
    )
    saved = follow.saving and follow.saving.of(models.tolist(), trainer)
    state = TrainingState(np.zeros(len(models), dtype=np.int64), saved, recipe.epochs, plan.steps)
    done = 0.0
    with _own_randomness(seed, int(models[0]), inputs.x.device) if trainer == "serial" else nullcontext():
        for epoch in train(stack, inputs, plan, recipe, state):
            follow.progress(len(models) * (epoch / recipe.epochs - done))
            done = epoch / recipe.epochs
            if epoch in recipe.evaluated_epochs[len(state.checkpoints) :]:
                state.checkpoints.append(evaluate(stack, inputs, design.take(models), signal_names))
                finite = _is_finite(stack, state.checkpoints[-1])
                state.diverged_at[(state.diverged_at == 0) & ~finite] = epoch
            state.passed(epoch, 0)
    follow.progress(len(models) * (1 - done))
    signals = {name: np.stack([at[name] for at in state.checkpoints], axis=1) for name in signal_names}
    return BlockSignals(signals, state.diverged_at, trainer, "; ".join(state.notes), state.seconds)


def _maker(trainer: str, plan: Plan, recipe: Recipe) -> StackMaker:
    """How to make the block. Compiling takes about a minute, which only long training repays."""
    n_rows = plan.steps * len(plan.models) * plan.batch * recipe.epochs
    if trainer == "side_by_side" and n_rows >= _COMPILED_FROM and recipe.privacy is None:
        return partial(SideBySide, loss=compiled_loss())
    return MAKERS[trainer]


def train(
    stack: Stack, inputs: Inputs, plan: Plan, recipe: Recipe, state: TrainingState | None = None
) -> Iterator[int]:
    """Trains epoch by epoch; yields the number of epochs done (on CUDA: at least queued).

    A state that was saved earlier is resumed.
    """
    state = state or unsaved(len(plan.models))
    steps = _steps(stack, inputs, plan, recipe, state.notes.append)
    state.resume(steps.tensors, stack.nets, isinstance(stack, SerialModel))
    first, first_step = state.epoch, state.step
    for epoch, (order, views) in enumerate(epochs_of(plan, recipe, first), first):
        lr = [recipe.lr * recipe.lr_factor(epoch + step / plan.steps) for step in range(plan.steps)]
        begin = first_step if epoch == first else 0
        steps.start(epoch * plan.steps + begin)
        steps.run_epoch(order, views, lr, begin, partial(_after_step, state, epoch))
        yield epoch + 1


def epochs_of(plan: Plan, recipe: Recipe, first: int) -> Iterator[tuple[IntArray, Views | None]]:
    """The records of each epoch's batches, and how to look at them."""
    orders = plan.epochs(recipe.epochs, first)
    if not is_augmented(recipe):
        yield from ((order, None) for order in orders)
    elif isinstance(plan, BatchPlan):
        shape = (plan.steps, len(plan.models), plan.batch)
        yield from zip(orders, drawn_views(recipe, plan.models, plan.seed, shape, first), strict=False)
    else:
        for epoch, order in enumerate(orders, first):
            yield order, views_of(recipe, plan.models, plan.seed, order != NOBODY, epoch)


def _after_step(state: TrainingState, epoch: int, step: int) -> None:
    """The end of an epoch is saved after its evaluation."""
    if step < state.n_steps:
        state.passed(epoch, step)


def _steps(stack: Stack, inputs: Inputs, plan: Plan, recipe: Recipe, note: Note) -> HostSteps | CapturedSteps:
    """Captured where there is a CUDA device and the step allows it."""
    arguments = (stack, inputs.x, inputs.y, plan, recipe)
    if inputs.x.device.type == "cuda" and not isinstance(stack, SerialModel):
        try:
            return CapturedSteps(*arguments)
        except (RuntimeError, NotImplementedError) as error:
            note(f"steps launched one by one, not captured: {first_line(error)}")
    return HostSteps(*arguments, inputs.rows)


def evaluate(
    stack: Stack, inputs: Inputs, design: Design, signal_names: tuple[str, ...]
) -> dict[str, AnyArray]:
    """The block's signals on every column of the design; (models, columns[, classes]) each."""
    n_models, n_columns = design.in_mask.shape
    columns = None if design.columns is None else torch.from_numpy(design.columns).to(inputs.x.device)
    at_once = EVALUATED_AT_ONCE * (_MORE_ON_CUDA if inputs.x.device.type == "cuda" else 1)
    rows = max(1, at_once // (n_models * max(1, inputs.x[0].numel())))
    parts: list[dict[str, Tensor]] = []
    for start in range(0, n_columns, rows):
        if columns is None:
            x, y = inputs.x[start : start + rows], inputs.y[start : start + rows]
            x, y = x.expand(n_models, *x.shape), y.expand(n_models, *y.shape)
        else:
            x, y = inputs.x[columns[:, start : start + rows]], inputs.y[columns[:, start : start + rows]]
        z = stack.outputs(x).float()
        if inputs.on_disk is not None:
            evict_pages(inputs.on_disk)
        if y.is_floating_point():
            outputs, labels = (inputs.y_centre + inputs.y_unit * values for values in (z[..., 0], y))
            parts.append(regression_signals(outputs, labels, inputs.label_spread, signal_names))
        else:
            parts.append(classification_signals(z, y, signal_names))
    return {name: torch.cat([part[name] for part in parts], dim=1).cpu().numpy() for name in signal_names}


def signals_of_outputs(
    outputs: AnyArray, labels: AnyArray, spread: float, signal_names: tuple[str, ...], trainer: str
) -> BlockSignals:
    """The signals of models that were trained elsewhere and evaluated once.

    Outputs are float32 (models, columns, outputs), labels are (models, columns); `spread` is that of numeric
    labels.
    """
    z, y = torch.from_numpy(outputs), torch.from_numpy(labels)
    # Model by model: the last bits of a vectorised sum depend on what is computed beside it.
    alone = [slice(model, model + 1) for model in range(len(z))]
    if y.is_floating_point():
        parts = [regression_signals(z[m, :, 0], y[m], spread, signal_names) for m in alone]
    else:
        parts = [classification_signals(z[m], y[m], signal_names) for m in alone]
    one_checkpoint = {
        name: torch.cat([part[name] for part in parts]).numpy()[:, None] for name in signal_names
    }
    diverged_at = np.asarray(~np.isfinite(outputs).all(axis=(1, 2)), dtype=np.int64)
    return BlockSignals(one_checkpoint, diverged_at, trainer)


def _is_finite(stack: Stack, signals: dict[str, AnyArray]) -> BoolArray:
    """bool (models,): parameters and signals are finite; finite parameters can give infinite outputs."""
    # A sum is finite only if all its terms are.
    finite = torch.stack([p.flatten(1).sum(1) for p in stack.parameters]).sum(0).isfinite().cpu().numpy()
    for values in signals.values():
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


def _joined(alone: list[BlockSignals]) -> BlockSignals:
    signals = {name: np.concatenate([a.signals[name] for a in alone]) for name in alone[0].signals}
    note = "; ".join(dict.fromkeys(a.note for a in alone if a.note))
    return BlockSignals(signals, np.concatenate([a.diverged_at for a in alone]), alone[0].trainer, note)
