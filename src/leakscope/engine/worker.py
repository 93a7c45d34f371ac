"""The training of one unit of work, the same for every engine.

A unit is a block of the bank, or a single model of a block where models are trained one at a time anyway:
the outputs are the same either way, and small units keep every core busy. Engines differ only in where
units run.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from leakscope.array_types import AnyArray, IntArray
from leakscope.bank.manifest import BlockNotes
from leakscope.engine.request import TrainingRequest
from leakscope.errors import TrainingError
from leakscope.recipe import AnyRecipe, EstimatorRecipe, Recipe
from leakscope.train.black_box import fit_block
from leakscope.train.loop import BlockSignals, Inputs, Progress, choose_trainer, inputs_from, train_block


class Unit(NamedTuple):
    """What one worker trains at once: some models of one block."""

    block: int
    models: tuple[int, ...]


class TrainedUnit(NamedTuple):
    """A trained unit.

    Attributes:
        signals: name -> (models, checkpoints, columns[, classes]).
        notes: how it was trained.
        not_stacked_reason: why models that could have been stacked were not; None: no such reason.
        device: where it was trained.
    """

    signals: dict[str, AnyArray]
    notes: BlockNotes
    not_stacked_reason: str | None
    device: str


class Worker:
    """Trains any models of a request on one device; the records are moved to the device once."""

    def __init__(self, request: TrainingRequest, device: torch.device) -> None:
        self.request, self.device = request, device
        self._not_stacked_reason: str | None = None
        if isinstance(request.recipe, Recipe):
            self._inputs = inputs_from(request.records, device)
            self._trainer, self._not_stacked_reason = choose_trainer(request.recipe, self._inputs)

    def train(self, models: IntArray, progress: Progress) -> BlockSignals:
        """Trains these models and evaluates them on all records."""
        request = self.request
        common = (request.design, request.recipe, models, request.seed, request.signal_names)
        if isinstance(request.recipe, Recipe):
            return train_block(self._inputs, *common, self._trainer, progress)  # type: ignore[arg-type]
        try:
            return fit_block(request.records, *common, progress=progress)  # type: ignore[arg-type]
        except BrokenProcessPool as error:  # killed from outside, usually for lack of memory
            raise TrainingError(
                "a worker process was killed, perhaps for lack of memory; run the same command again to "
                "resume, with fewer processes in the recipe if this repeats"
            ) from error

    def train_unit(self, unit: Unit, progress: Progress) -> TrainedUnit:
        """Trains the unit; its signals, with what the manifest records about them."""
        started = time.perf_counter()
        block = self.train(np.array(unit.models), progress)
        diverged = {m: int(e) for m, e in zip(unit.models, block.diverged_at, strict=True) if e}
        notes = BlockNotes(block.trainer, block.note, time.perf_counter() - started, diverged)
        return TrainedUnit(block.signals, notes, self._not_stacked_reason, str(self.device))

    @property
    def trains_serially(self) -> bool:
        """True when models are trained one after the other, so that each can be a unit of its own."""
        return not isinstance(self.request.recipe, Recipe) or self._trainer == "serial"


def worker_in_pool(request: TrainingRequest, device: torch.device) -> Worker:
    """A worker in one of several processes that share the cores."""
    if isinstance(request.recipe, EstimatorRecipe):
        request = replace(request, recipe=replace(request.recipe, processes=1))
    return Worker(request, device)


def trains_serially(request: TrainingRequest, on_cpu: bool) -> bool:
    """True when models of this request are trained one at a time; decided without a worker."""
    recipe, records = request.recipe, request.records
    if not isinstance(recipe, Recipe) or recipe.trainer == "serial":
        return True
    if not on_cpu:
        return False  # the trainer is chosen where the device is
    x = torch.from_numpy(np.array(records.features[:2], dtype=np.float32))
    two = Inputs(x, torch.from_numpy(np.array(records.labels[:2])), records.n_classes)
    return choose_trainer(recipe, two)[0] == "serial"


def units_of(block: int, models: IntArray, one_per_model: bool) -> list[Unit]:
    """The block as units: one per model, or a single one."""
    numbers = tuple(models.tolist())
    return [Unit(block, (model,)) for model in numbers] if one_per_model else [Unit(block, numbers)]


def joined(parts: list[TrainedUnit]) -> TrainedUnit:
    """The units of one block, in the order of its models, as if they had been trained as one."""
    notes = [part.notes for part in parts]
    joined_notes = BlockNotes(
        trainer=notes[0].trainer,
        note="; ".join(dict.fromkeys(part.note for part in notes if part.note)),
        seconds=round(sum(part.seconds for part in notes), 3),
        diverged_models={model: epoch for part in notes for model, epoch in part.diverged_models.items()},
        node=", ".join(sorted({part.node for part in notes})),
    )
    signals = {name: np.concatenate([p.signals[name] for p in parts]) for name in parts[0].signals}
    devices = ", ".join(sorted({part.device for part in parts}))
    return TrainedUnit(signals, joined_notes, parts[0].not_stacked_reason, devices)


def sendable(value: Any) -> bytes:
    """A pickle that can also hold functions of the user's own script; written and read within one run."""
    from joblib.externals.loky.backend.reduction import dumps

    return bytes(dumps(value))


def why_not_sendable(recipe: AnyRecipe) -> str | None:
    """Why a recipe cannot be sent to another process; None when it can."""
    try:
        sendable(recipe)
    except (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError) as error:
        return str(error)
    return None


@contextmanager
def threads_limited(n_threads: int) -> Iterator[None]:
    """Limits torch, BLAS and OpenMP to this many threads; the last bits of an output depend on it."""
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    with threadpool_limits(n_threads):
        torch.set_num_threads(n_threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)
