"""Trains a bank block by block and resumes where an earlier run stopped; on this machine by default.

Networks that stack are trained in this process, one block at a time. Models that are trained one at a time on
the CPU (an estimator, a user's function, a large network) move to one process per core once that pays off. On
a machine with several GPUs, blocks go to one process per GPU.

A finished model or block is stored at once, and the state of networks in training is saved on a clock
(`disk/saved_training.py`), so a kill costs seconds.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

import leakscope
from leakscope.adapter_recipe import AdapterRecipe
from leakscope.bank.bank import Bank
from leakscope.bank.manifest import Provenance
from leakscope.bank.parts import Part
from leakscope.disk.lock import folder_lock
from leakscope.disk.saved_training import SECONDS_BETWEEN_SAVES, Saving
from leakscope.engine.processes import ProcessPool, cores
from leakscope.engine.request import TrainingRequest, check_device, check_request, device_of
from leakscope.engine.schedule import run_units
from leakscope.engine.worker import (
    TrainedUnit,
    Unit,
    Worker,
    perceptrons_of,
    threads_limited,
    trains_serially,
    units_of,
    why_not_sendable,
)
from leakscope.errors import UntrainableError
from leakscope.recipe import AnyRecipe, EstimatorRecipe, FunctionRecipe, Recipe
from leakscope.train.block import Follow, Progress

__all__ = ["LocalEngine", "TrainingRequest", "check_request", "complete_bank", "device_of"]

SECONDS_TO_START_PROCESSES = 3.0
SECONDS_WORTH_PROCESSES = 10.0
"""Training left from which models trained one at a time move to processes."""
SECONDS_TOGETHER = 0.25
"""Faster models are stored together, for storing takes milliseconds."""
SECONDS_TO_LOAD = 2.0
"""Libraries, at the first model: a faster one says nothing about the others."""

Blocks = Sequence[tuple[int, Sequence[int]]]
"""(number, models that are missing) of the blocks to train."""


class Engine(Protocol):
    """Decides which unit of which block is trained where."""

    name: str

    def check_device(self, device: str) -> object:
        """Raises InputError when there is no such device."""

    def train_blocks(
        self, request: TrainingRequest, blocks: Blocks, follow: Follow
    ) -> Iterator[tuple[Unit, TrainedUnit]]:
        """Trains the blocks; yields their units as they end. Closing it stops whatever is in flight."""


def complete_bank(
    folder: Path,
    request: TrainingRequest,
    engine: Engine | None = None,
    progress: Progress = lambda _: None,
    save_seconds: float = SECONDS_BETWEEN_SAVES,
) -> Bank:
    """The bank that was requested: read from disk where it is complete, trained where models are missing.

    Args:
        folder: the bank's folder; created when absent, resumed when it holds this bank.
        request: what to train.
        engine: where to train; None: this machine.
        progress: called with the number of models' worth of work done, including work already on disk.
        save_seconds: how often the state of networks in training is saved.

    Raises:
        InputError: the request cannot be trained.
        BankMismatchError: the folder holds another bank, or models of other code.
        UntrainableError: every model diverged, or one refuses its records.
        TrainingError: a model could not be trained.
    """
    engine = engine or LocalEngine()
    identity, n_models = check_request(request, engine.check_device), request.design.n_models
    with folder_lock(folder):
        bank = Bank.create(folder, identity, request.design, request.records.labels, request.reuse)
        is_whole = bank.is_complete and not bank.damage()
        blocks = [] if is_whole else [(block, bank.missing_models(block)) for block in bank.pending()]
        saving = Saving(folder.absolute(), identity.sha256, save_seconds)
        n_in_states = saving.models_done() if blocks else 0.0
        progress(n_models - sum(len(models) for _, models in blocks) + n_in_states)
        if not is_whole:
            follow = Follow(_beyond(n_in_states, progress), saving)
            bank.finish(_provenance(engine, request, _fill(bank, engine, request, blocks, follow)))
    if len(bank.diverged) == n_models:
        raise UntrainableError(_all_diverged(request.recipe, min(bank.diverged.values())))
    return bank


def _all_diverged(recipe: AnyRecipe | AdapterRecipe, epoch: int) -> str:
    """What happened, and what to change: only networks of ours have epochs and a learning rate."""
    if isinstance(recipe, FunctionRecipe):
        return f"{recipe.name}: every model's predict returned NaN or infinity; return finite numbers"
    if isinstance(recipe, EstimatorRecipe):
        name = type(recipe.estimator).__name__
        return f"every {name} predicted NaN or infinity; scale the features, or choose another estimator"
    return f"every model diverged (not finite at epoch {epoch}); lower the learning rate"


class LocalEngine:
    """This machine: its cores, or its GPUs."""

    name = "local"
    check_device = staticmethod(check_device)

    def train_blocks(
        self, request: TrainingRequest, blocks: Blocks, follow: Follow
    ) -> Iterator[tuple[Unit, TrainedUnit]]:
        """Trains the blocks here, in this process or in several."""
        if not blocks:
            return
        devices = self.parallel_devices(request) if len(blocks) > 1 else []
        if len(devices) > 1:
            one_per_model = trains_serially(request, device_of(devices[0]))
            units = [unit for b, models in blocks for unit in units_of(b, models, one_per_model)]
            n_threads = max(1, cores() // len(devices))
            with ProcessPool(request, devices[: len(units)], n_threads, follow.saving) as pool:
                yield from run_units(pool, units, follow.progress)
            return
        worker = Worker(request, request.device)
        units = [unit for b, models in blocks for unit in worker.units_of(b, models)]
        uses_cpu = worker.device == "cpu" or isinstance(request.recipe, EstimatorRecipe)
        if worker.trains_serially and uses_cpu:
            yield from self._one_at_a_time(worker, units, follow)
        else:
            for unit in units:
                yield unit, worker.train_unit(unit, follow)

    def _one_at_a_time(
        self, worker: Worker, units: list[Unit], follow: Follow
    ) -> Iterator[tuple[Unit, TrainedUnit]]:
        """Trains models one by one here, and in processes once the first ones show that it pays off."""
        request, (most, n_threads) = worker.request, side_by_side(worker.request)
        groups, rest = [units[0]], units[1:]
        while groups:
            started = time.perf_counter()
            with threads_limited(n_threads):
                trained = worker.train_unit(groups[0], follow)
            seconds = (time.perf_counter() - started) / len(groups[0].models)
            yield groups[0], trained
            is_measured = groups[0] is not units[0] or seconds > SECONDS_TO_LOAD
            n_processes = min(most, len(rest))
            is_worthwhile = n_processes > 1 and seconds * len(rest) > SECONDS_WORTH_PROCESSES
            groups = grouped(rest, int(SECONDS_TOGETHER / max(seconds, 1e-6)))
            if is_measured and is_worthwhile and not why_not_sendable(request.recipe):
                with ProcessPool(request, ["cpu"] * n_processes, n_threads, follow.saving) as pool:
                    yield from run_units(pool, groups, follow.progress)
                return
            rest = rest[len(groups[0].models) :] if groups else []

    def parallel_devices(self, request: TrainingRequest) -> list[str]:
        """The GPUs that networks of this request may use, when they may use all."""
        if not isinstance(request.recipe, Recipe) or request.device not in ("auto", "cuda"):
            return []
        if request.device == "auto" and perceptrons_of(request) is not None:
            return []
        import torch

        return [f"cuda:{index}" for index in range(torch.cuda.device_count())]


def engine_named(name: Literal["local", "ray"], address: str | None = None) -> Engine:
    """The engine of this name; `address` is that of a Ray cluster."""
    if name == "ray":
        from leakscope.engine.ray_engine import RayEngine

        return RayEngine(address or "auto")
    return LocalEngine()


def threads_per_model(n_models: int) -> int:
    """Threads of a model trained beside others; does not depend on how many are still to be trained."""
    import torch

    return max(1, min(torch.get_num_threads(), cores() // n_models))


def grouped(units: Sequence[Unit], most: int) -> list[Unit]:
    """Units of one model each as units of up to `most` models of one block, in the same order."""
    groups: list[Unit] = []
    for unit in units:
        last = groups[-1] if groups else None
        if last is not None and last.block == unit.block and len(last.models) < most:
            groups[-1] = Unit(unit.block, last.models + unit.models)
        else:
            groups.append(unit)
    return groups


def side_by_side(request: TrainingRequest) -> tuple[int, int]:
    """(processes, threads each) of models that are trained one at a time."""
    if isinstance(request.recipe, EstimatorRecipe):
        import torch

        n_processes = min(request.recipe.processes or cores(), request.design.n_models)
        return n_processes, max(1, min(torch.get_num_threads(), cores() // n_processes))
    n_threads = threads_per_model(request.design.n_models)
    return cores() // n_threads, n_threads


def _beyond(n_known: float, progress: Progress) -> Progress:
    """Reports training beyond what states on disk hold, which is reported before training starts."""
    rest = n_known

    def report(models: float) -> None:
        nonlocal rest
        known = min(models, rest)
        rest -= known
        if models > known:
            progress(models - known)

    return report


def _fill(
    bank: Bank, engine: Engine, request: TrainingRequest, blocks: Blocks, follow: Follow
) -> list[TrainedUnit]:
    """Stores each unit of the blocks when it has ended; returns them without signals."""
    stored = []
    for block, _ in (item for item in blocks if not item[1]):
        bank.commit_parts(block)  # an earlier run was killed before it did
    blocks = [(block, models) for block, models in blocks if models]
    with closing(engine.train_blocks(request, blocks, follow)) as ended:  # type: ignore[type-var]
        for unit, trained in ended:
            if len(unit.models) == len(bank.blocks[unit.block]):
                bank.add_block(unit.block, trained.signals, trained.notes)
            else:
                bank.add_part(unit.block, Part(unit.models, trained.signals, trained.notes))
            if follow.saving is not None:
                follow.saving.remove(unit.models)
            stored.append(trained._replace(signals={}))
    return stored


def _provenance(engine: Engine, request: TrainingRequest, committed: list[TrainedUnit]) -> Provenance:
    devices = sorted({block.device for block in committed})
    return Provenance(
        engine=engine.name,
        device=", ".join(devices) or request.device,
        note=next((block.not_stacked_reason for block in committed if block.not_stacked_reason), None),
        versions={
            "leakscope": leakscope.__version__,
            "python": platform.python_version(),
            "torch": version("torch"),
            "numpy": np.__version__,
        },
    )
