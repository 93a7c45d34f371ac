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

import numpy as np
import torch
from torch import Tensor, nn

from leakscope.adapter_recipe import AdapterRecipe
from leakscope.array_types import AnyArray, BoolArray, IntArray
from leakscope.disk.mmap_rows import is_mapped, take_rows
from leakscope.errors import InputError
from leakscope.models.registry import build
from leakscope.randomness import Purpose, seed_integer
from leakscope.recipe import Recipe
from leakscope.signals.asked import Query
from leakscope.signals.output_filter import NO_FILTER, OutputFilter
from leakscope.signals.residuals import label_spread
from leakscope.train.adapters.choice import choose_language_trainer, planned_stack
from leakscope.train.block import UNFOLLOWED, BlockSignals, Follow
from leakscope.train.compiled import prepare_for
from leakscope.train.dense import DenseStack, dense_layers
from leakscope.train.dropout import seed_dropout
from leakscope.train.launch import steps_of
from leakscope.train.losses import Objective
from leakscope.train.mixup import drawn_mixes
from leakscope.train.orders import epochs_of
from leakscope.train.plan import BatchPlan, trained_on
from leakscope.train.poisson import Plan
from leakscope.train.queries import evaluate, random_queries
from leakscope.train.row_by_row import why_not_private
from leakscope.train.side_by_side import SerialModel, SideBySide, compiled_loss
from leakscope.train.stacked import VmapStack, why_not_stackable
from leakscope.train.stages import Stages, stages_of
from leakscope.train.state import TrainingState, unsaved
from leakscope.train.steps import Epoch, Stack
from leakscope.types import Design, Records

_STACKED_PARAMETERS = 1_000_000  # above this a model fills the device by itself
_COMPILED_FROM = 2_000_000  # rows a block is trained on, from which compiling its step pays on CUDA

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
    """Records as tensors on the training device, and what queries about them return."""

    x: Tensor  # float32 (records, ...); int32 (records, length) for text
    y: Tensor  # int64 or float32 (records,)
    n_outputs: int
    on_disk: AnyArray | None = None  # the memory map that x is, where it is one
    label_spread: float = 1.0  # of numeric labels, in their own unit
    y_centre: float = 0.0  # what was subtracted from numeric labels to give y,
    y_unit: float = 1.0  # and what they were divided by
    outputs: OutputFilter = NO_FILTER
    queries: tuple[Query, ...] = ()  # of the signal `query_log_odds`
    records: Records | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one record."""
        return tuple(self.x.shape[1:])

    def trained_on(self, design: Design, recipe: Recipe) -> tuple[Design, IntArray | None]:
        """What models are trained on, of the records that they have by the design, and how often."""
        assert self.records is not None, "inputs were made by inputs_from"
        return trained_on(self.records, design, recipe)

    def rows(self, index: Tensor) -> Tensor:
        """The records at `index`, int64 (rows,), in memory."""
        if self.on_disk is None:
            return self.x.index_select(0, index)
        return torch.from_numpy(take_rows(self.on_disk, index.numpy()))


def inputs_from(records: Records, device: torch.device, outputs: OutputFilter = NO_FILTER) -> Inputs:
    """Records on the device; images (uint8) standardised by channel.

    On a CPU, float features and token ids that lie on disk stay there: batches are gathered from the map.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*not writable")  # memory maps are never written to
        x = torch.from_numpy(records.features)
    if x.dtype == torch.uint8:
        x = x.to(device).float()
        axes = (0, *range(2, x.ndim))
        spread, centre = torch.std_mean(x, dim=axes, keepdim=True)
        x = (x - centre) / spread.clamp(min=1e-6)
    is_on_disk = (
        x.dtype in (torch.float32, torch.int32) and device.type == "cpu" and is_mapped(records.features)
    )
    y = torch.from_numpy(records.labels).to(device)
    on_disk = records.features if is_on_disk else None
    of_labels = 1.0 if records.is_classification else label_spread(records.labels)
    return Inputs(
        x.to(device),
        y,
        records.n_classes,
        on_disk,
        of_labels,
        outputs=outputs,
        records=records,
    )


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
    """(trainer, note): the fastest one that fits the recipe's network and the device.

    It is a name of `MAKERS`, or "adapters" for a block of language models.
    """
    if isinstance(recipe, AdapterRecipe):
        return choose_language_trainer(recipe, inputs)
    if recipe.trainer == "serial" and recipe.privacy is None:
        return "serial", None
    if recipe.privacy is not None:
        _check_privacy(recipe, inputs)
    if recipe.trainer == "serial":
        return "serial", None
    nets = initial_nets(recipe, inputs, np.arange(2), seed=0)
    views = 1 if recipe.privacy is None else recipe.privacy.views
    on_cpu = inputs.x.device.type == "cpu"
    if recipe.precision == "float32" and views == 1 and dense_layers(nets[0]) is not None:
        if on_cpu:
            prepare_for(recipe)  # here, so that nobody who times steps times a compiler
        return "dense", None
    n_parameters = sum(p.numel() for p in nets[0].parameters())
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
    stages = stages_of(recipe, *inputs.trained_on(design, recipe), models, seed, inputs.n_outputs)
    saved = follow.saving and follow.saving.of(models.tolist(), trainer)
    state = TrainingState(np.zeros(len(models), dtype=np.int64), saved, stages.sizes, stages.carried)
    at_random, own, done = random_queries(inputs, design, models, seed), design.take(models), 0.0
    for stack, epoch in train_stages(inputs, own, recipe, stages, trainer, state):
        follow.progress(len(models) * (state.share(epoch) - done))
        done = state.share(epoch)
        if state.is_last_stage and epoch in recipe.evaluated_epochs[len(state.checkpoints) :]:
            state.checkpoints.append(evaluate(stack, inputs, own, signal_names, at_random))
            finite = _is_finite(stack, state.checkpoints[-1])
            state.diverged_at[(state.diverged_at == 0) & ~finite] = epoch
        state.passed(epoch, 0)
    follow.progress(len(models) * (1 - done))
    signals = {name: np.stack([at[name] for at in state.checkpoints], axis=1) for name in signal_names}
    return BlockSignals(signals, state.diverged_at, trainer, "; ".join(state.notes), state.seconds)


def train_stages(
    inputs: Inputs, own: Design, recipe: Recipe, stages: Stages, trainer: str, state: TrainingState
) -> Iterator[tuple[Stack, int]]:
    """Trains a block through all stages; yields it with the number of epochs of the stage that are done.

    `own` is the design of the block's models; what early stages read is read before they are yielded.
    """
    stack: Stack | None = None
    evaluated = set(recipe.evaluated_epochs)

    def is_looked_at(stage: int, epoch: int) -> bool:
        return epoch in evaluated or stages.reads(stage, epoch) is not None

    for number, size in enumerate(stages.sizes):
        plan, labels = stages.plan(number), stages.labels(number)
        given = inputs if labels is None else replace(inputs, y=torch.from_numpy(labels).to(inputs.y.device))
        if stack is None or size.first == 0:
            stack = new_stack(inputs, plan, recipe, trainer)
        with _own_randomness(plan, inputs.x.device) if trainer == "serial" else nullcontext():
            for epoch in train(stack, given, plan, recipe, state, size.epochs, partial(is_looked_at, number)):
                signal = stages.reads(number, epoch)
                if signal is not None:
                    unfiltered = replace(inputs, outputs=NO_FILTER)  # early stages see what nobody else does
                    stages.read(number, evaluate(stack, unfiltered, own, (signal,))[signal])
                yield stack, epoch
            if not state.is_last_stage:
                state.advance()


def new_stack(inputs: Inputs, plan: Plan, recipe: Recipe, trainer: str) -> Stack:
    """The block of models as training begins."""
    device, objective = inputs.x.device, Objective.of(recipe, inputs.x.device)
    if isinstance(recipe, AdapterRecipe):
        return planned_stack(recipe, inputs, plan, objective)
    nets = initial_nets(recipe, inputs, plan.models, plan.seed)
    return _maker(trainer, plan, recipe)(nets, objective, device)


def _maker(trainer: str, plan: Plan, recipe: Recipe) -> StackMaker:
    """How to make the block. Compiling takes about a minute, which only long training repays."""
    n_rows = plan.steps * len(plan.models) * plan.batch * recipe.epochs
    if trainer == "side_by_side" and n_rows >= _COMPILED_FROM and recipe.privacy is None:
        return partial(SideBySide, loss=compiled_loss())
    return MAKERS[trainer]


def train(
    stack: Stack,
    inputs: Inputs,
    plan: Plan,
    recipe: Recipe,
    state: TrainingState | None = None,
    until: int | None = None,
    is_looked_at: Callable[[int], bool] = lambda _: True,
) -> Iterator[int]:
    """Trains epoch by epoch until the recipe or `until` ends; yields the number of epochs done.

    On CUDA, they are at least queued. A state that was saved earlier is resumed. Of epochs so short that
    several are taken together, those are yielded that `is_looked_at` names, the last, and few others.
    """
    state = state or unsaved(len(plan.models))
    steps = steps_of(stack, inputs, plan, recipe, state.notes.append)
    if not state.resume(steps.tensors, stack.nets, isinstance(stack, SerialModel)):
        return
    first, first_step = state.epoch, state.step
    mixes = drawn_mixes(recipe.mixup, plan, first) if recipe.mixup and isinstance(plan, BatchPlan) else None
    last = until or recipe.epochs
    epochs = epochs_of(plan, recipe, first, last, steps.ranks_draws)
    for epoch, (order, views) in enumerate(epochs, first):
        stack.objective.begin_epoch(epoch)
        lr = [recipe.lr * recipe.lr_factor(epoch + step / plan.steps) for step in range(plan.steps)]
        begin = first_step if epoch == first else 0
        steps.start(epoch * plan.steps + begin)
        mixed = None if mixes is None else next(mixes)
        steps.run_epoch(Epoch(order, lr, begin, views, mixed), partial(_after_step, state, epoch))
        if epoch + 1 == last or is_looked_at(epoch + 1):
            steps.finish()
        if steps.is_done:
            yield epoch + 1


def _after_step(state: TrainingState, epoch: int, step: int) -> None:
    """The end of an epoch is saved after its evaluation."""
    if step < state.n_steps:
        state.passed(epoch, step)


def _is_finite(stack: Stack, signals: dict[str, AnyArray]) -> BoolArray:
    """bool (models,): parameters and signals are finite; finite parameters can give infinite outputs."""
    # A sum is finite only if all its terms are.
    finite = torch.stack([p.flatten(1).sum(1) for p in stack.parameters]).sum(0).isfinite().cpu().numpy()
    for values in signals.values():
        finite = finite & np.isfinite(values).all(axis=tuple(range(1, values.ndim)))
    return np.asarray(finite)


@contextmanager
def _own_randomness(plan: Plan, device: torch.device) -> Iterator[None]:
    """Seeds torch's global generators for one model, whose module may draw from them (functional dropout)."""
    own_seed = seed_integer(plan.seed, int(plan.models[0]), Purpose.DROPOUT)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.default_generator.manual_seed(own_seed)
        if device.type == "cuda":
            torch.cuda.manual_seed_all(own_seed)
        yield


def _joined(alone: list[BlockSignals]) -> BlockSignals:
    signals = {name: np.concatenate([a.signals[name] for a in alone]) for name in alone[0].signals}
    note = "; ".join(dict.fromkeys(a.note for a in alone if a.note))
    return BlockSignals(signals, np.concatenate([a.diverged_at for a in alone]), alone[0].trainer, note)
