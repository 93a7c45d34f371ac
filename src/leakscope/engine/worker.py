"""Who trains: one worker a process and device, and the units of work it is given.

A unit is a block of the bank, or one model of it where models are trained one at a time anyway: those give
the very same answers apart, and small units keep every core busy. Engines differ only in where they run
units; the training of one is here, and the same for all.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from leakscope.array_types import AnyArray, IntArray
from leakscope.errors import TrainingError
from leakscope.recipe import AnyRecipe, EstimatorRecipe, FunctionRecipe, Recipe
from leakscope.train.estimators import fit_block
from leakscope.train.functions import call_block
from leakscope.train.loop import Answers, Inputs, Progress, choose_trainer, inputs_from, train_block
from leakscope.types import Design, Records


@dataclass(frozen=True, eq=False)
class Job:
    """All a worker needs to know to train any model of a bank.

    Attributes:
        records: the records.
        design: who is in which training set.
        recipe: how one model is trained.
        seed: run seed.
        kept: signals to keep.
        device: "auto", "cpu", "cuda" or "cuda:N", as it was asked for.
    """

    records: Records
    design: Design
    recipe: AnyRecipe
    seed: int
    kept: tuple[str, ...]
    device: str


class Unit(NamedTuple):
    """What one worker trains at once: some models of one block."""

    block: int
    models: tuple[int, ...]


class Trained(NamedTuple):
    """A trained unit.

    Attributes:
        signals: name -> (models, checkpoints, columns[, classes]).
        lost: model -> the epoch at which it was no longer finite.
        trainer: how it was trained.
        note: what did not go as planned in this unit; empty: nothing.
        why_apart: why models that could have been stacked were not; None: no such reason.
        seconds: it took.
        device: where it was trained.
        node: of a cluster, that trained it; empty: this machine.
    """

    signals: dict[str, AnyArray]
    lost: dict[str, int]
    trainer: str
    note: str
    not_stacked_reason: str | None
    seconds: float
    device: str
    node: str = ""


class Worker:
    """Everything needed to answer for any block; the records are put on the device once."""

    def __init__(
        self,
        records: Records,
        design: Design,
        recipe: AnyRecipe,
        seed: int,
        kept: tuple[str, ...],
        device: torch.device,
    ) -> None:
        self.records, self.design, self.recipe, self.seed, self.kept = records, design, recipe, seed, kept
        self.device = device
        self.note: str | None = None
        if isinstance(recipe, Recipe):
            self._inputs = inputs_from(records, self.device)
            self._trainer, self.note = choose_trainer(recipe, self._inputs)

    def answers(self, models: IntArray, progress: Progress) -> Answers:
        """What these models, trained now, say about all records."""
        common = (self.design, self.recipe, models, self.seed, self.kept)
        if isinstance(self.recipe, EstimatorRecipe):
            try:
                return fit_block(self.records, *common, progress=progress)  # type: ignore[arg-type]
            except BrokenProcessPool as error:  # killed from outside, most often for memory
                raise TrainingError(
                    "a worker process died, perhaps for want of memory; run the same command again, which "
                    "goes on with the blocks that are missing, or give the recipe fewer processes"
                ) from error
        if isinstance(self.recipe, FunctionRecipe):
            return call_block(self.records, *common, progress=progress)  # type: ignore[arg-type]
        return train_block(self._inputs, *common, self._trainer, progress)  # type: ignore[arg-type]

    def trained(self, unit: Unit, progress: Progress) -> Trained:
        """The unit's answers, with what the bank notes about them."""
        started, models = time.perf_counter(), np.array(unit.models)
        answers = self.answers(models, progress)
        lost = {str(m): int(e) for m, e in zip(unit.models, answers.lost_at, strict=True) if e}
        seconds = time.perf_counter() - started
        notes = (answers.trainer, answers.note, self.note, seconds, str(self.device))
        return Trained(answers.signals, lost, *notes)

    @property
    def trains_serially(self) -> bool:
        """True when models are trained one after the other here, so that each can be a unit of its own."""
        return not isinstance(self.recipe, Recipe) or self._trainer == "serial"


def worker_for(job: Job, device: torch.device, alone: bool = True) -> Worker:
    """A worker on this device; `alone` is false for one of several processes that share the cores."""
    recipe = job.recipe
    if isinstance(recipe, EstimatorRecipe) and not alone:
        recipe = replace(recipe, processes=1)
    return Worker(job.records, job.design, recipe, job.seed, job.kept, device)


def trains_serially(job: Job, on_cpu: bool) -> bool:
    """True when models of this job are trained one at a time; no worker is made to find out."""
    if not isinstance(job.recipe, Recipe) or job.recipe.trainer == "serial":
        return True
    if not on_cpu:
        return False  # the trainer is chosen where the device is
    x = torch.from_numpy(np.array(job.records.features[:2], dtype=np.float32))
    few = Inputs(x, torch.from_numpy(np.array(job.records.labels[:2])), job.records.n_classes)
    return choose_trainer(job.recipe, few)[0] == "serial"


def units_of(block: int, models: IntArray, apart: bool) -> list[Unit]:
    """The block as units: one a model, or all at once."""
    numbers = tuple(models.tolist())
    return [Unit(block, (model,)) for model in numbers] if apart else [Unit(block, numbers)]


def joined(parts: list[Trained]) -> Trained:
    """Units of one block, in the order of its models, as if they had been trained as one."""
    return Trained(
        signals={name: np.concatenate([p.signals[name] for p in parts]) for name in parts[0].signals},
        lost={model: epoch for part in parts for model, epoch in part.lost.items()},
        trainer=parts[0].trainer,
        note="; ".join(dict.fromkeys(part.note for part in parts if part.note)),
        not_stacked_reason=parts[0].not_stacked_reason,
        seconds=sum(part.seconds for part in parts),
        device=", ".join(sorted({part.device for part in parts})),
        node=", ".join(sorted({part.node for part in parts})),
    )


def sendable(value: Any) -> bytes:
    """A pickle that also holds functions of the user's own script; made and read within one run only."""
    from joblib.externals.loky.backend.reduction import dumps

    return bytes(dumps(value))


def why_not_sendable(recipe: AnyRecipe) -> str | None:
    """Why a recipe cannot go to another process; None when it can."""
    try:
        sendable(recipe)
    except (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError) as error:
        return str(error)
    return None


@contextmanager
def threads_limited(n_threads: int) -> Iterator[None]:
    """Torch, BLAS and OpenMP with so many threads: the last bits of an answer depend on it."""
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    with threadpool_limits(n_threads):
        torch.set_num_threads(n_threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)
