"""Trains a bank block by block and resumes where an earlier run stopped; on this machine by default.

Networks that stack are trained in this process, one block at a time. Models that are trained one at a time on
the CPU (a user's function, a large network) move to one process per core once that pays off. On a machine
with several GPUs, blocks go to one process per GPU. Estimators start processes of their own.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import torch

import leakscope
from leakscope.array_types import IntArray
from leakscope.bank.bank import Bank
from leakscope.bank.manifest import Provenance
from leakscope.disk.lock import folder_lock
from leakscope.engine.processes import ProcessPool, cores
from leakscope.engine.request import TrainingRequest, check_request, device_of
from leakscope.engine.schedule import run_units
from leakscope.engine.worker import (
    TrainedUnit,
    Unit,
    Worker,
    joined,
    threads_limited,
    units_of,
    why_not_sendable,
)
from leakscope.errors import TrainingError
from leakscope.recipe import EstimatorRecipe, Recipe
from leakscope.train.loop import Progress

__all__ = ["LocalEngine", "TrainingRequest", "check_request", "complete_bank", "device_of"]

SECONDS_WORTH_PROCESSES = 10.0
"""Training left from which models trained one at a time move to processes; each takes about 3 s to start."""

Blocks = Sequence[tuple[int, IntArray]]
"""(number, models) of the blocks to train."""


class Engine(Protocol):
    """Decides which unit of which block is trained where."""

    name: str

    def check_device(self, device: str) -> object:
        """Raises InputError when there is no such device."""

    def train_blocks(
        self, request: TrainingRequest, blocks: Blocks, progress: Progress
    ) -> Iterator[tuple[Unit, TrainedUnit]]:
        """Trains the blocks; yields their units as they end. Closing it stops whatever is in flight."""


def complete_bank(
    folder: Path,
    request: TrainingRequest,
    engine: Engine | None = None,
    progress: Progress = lambda _: None,
) -> Bank:
    """The bank that was requested: read from disk where it is complete, trained where models are missing.

    Args:
        folder: the bank's folder; created when absent, resumed when it holds this bank.
        request: what to train.
        engine: where to train; None: this machine.
        progress: called with the number of models' worth of work done, including work already on disk.

    Raises:
        InputError: the request cannot be trained.
        BankMismatchError: the folder holds another bank, or models of other code.
        TrainingError: every model diverged, or one could not be trained.
    """
    engine = engine or LocalEngine()
    identity, n_models = check_request(request, engine.check_device), request.design.n_models
    with folder_lock(folder):
        bank = Bank.create(folder, identity, request.design, request.records.labels, request.reuse)
        is_whole = bank.is_complete and not bank.damage()
        pending = [] if is_whole else bank.pending()
        progress(n_models - sum(len(bank.blocks[b]) for b in pending))
        if not is_whole:
            bank.finish(_provenance(engine, request, _fill(bank, engine, request, pending, progress)))
    if len(bank.diverged) == n_models:
        raise TrainingError(
            f"every model diverged (not finite at epoch {min(bank.diverged.values())}); "
            "lower the learning rate"
        )
    return bank


class LocalEngine:
    """This machine: its cores, or its GPUs."""

    name = "local"
    check_device = staticmethod(device_of)

    def train_blocks(
        self, request: TrainingRequest, blocks: Blocks, progress: Progress
    ) -> Iterator[tuple[Unit, TrainedUnit]]:
        """Trains the blocks here, in this process or in several."""
        if not blocks:
            return
        devices = self.parallel_devices(request)
        if len(devices) > 1 and len(blocks) > 1:
            units = [unit for b, models in blocks for unit in units_of(b, models, one_per_model=False)]
            n_threads = max(1, cores() // len(devices))
            with ProcessPool(request, devices[: len(units)], n_threads) as pool:
                yield from run_units(pool, units, progress)
            return
        worker = Worker(request, device_of(request.device))
        has_own_processes = isinstance(request.recipe, EstimatorRecipe)
        one_per_model = worker.trains_serially and worker.device.type == "cpu" and not has_own_processes
        units = [unit for b, models in blocks for unit in units_of(b, models, one_per_model)]
        if one_per_model:
            yield from self._one_at_a_time(worker, units, progress)
        else:
            for unit in units:
                yield unit, worker.train_unit(unit, progress)

    def _one_at_a_time(
        self, worker: Worker, units: list[Unit], progress: Progress
    ) -> Iterator[tuple[Unit, TrainedUnit]]:
        """Trains models one by one here, and in processes once the first has shown that it pays off."""
        request, started = worker.request, time.perf_counter()
        n_threads = threads_per_model(request.design.n_models)
        for at, unit in enumerate(units):
            with threads_limited(n_threads):
                trained = worker.train_unit(unit, progress)
            yield unit, trained
            rest = units[at + 1 :]
            seconds_left = (time.perf_counter() - started) / (at + 1) * len(rest)
            n_processes = min(cores() // n_threads, len(rest))
            is_worthwhile = n_processes > 1 and seconds_left > SECONDS_WORTH_PROCESSES
            if is_worthwhile and not why_not_sendable(request.recipe):
                with ProcessPool(request, ["cpu"] * n_processes, n_threads) as pool:
                    yield from run_units(pool, rest, progress)
                return

    def parallel_devices(self, request: TrainingRequest) -> list[str]:
        """The GPUs that networks of this request may use, when they may use all."""
        if not isinstance(request.recipe, Recipe) or request.device not in ("auto", "cuda"):
            return []
        return [f"cuda:{index}" for index in range(torch.cuda.device_count())]


def engine_named(name: Literal["local", "ray"], address: str | None = None) -> Engine:
    """The engine of this name; `address` is that of a Ray cluster."""
    if name == "ray":
        from leakscope.engine.ray_engine import RayEngine

        return RayEngine(address or "auto")
    return LocalEngine()


def threads_per_model(n_models: int) -> int:
    """Threads of a model trained beside others; does not depend on how many are still to be trained."""
    return max(1, min(torch.get_num_threads(), cores() // n_models))


def _fill(
    bank: Bank, engine: Engine, request: TrainingRequest, pending: list[int], progress: Progress
) -> list[TrainedUnit]:
    """Commits each pending block once all of its units have ended; returns them without signals."""
    blocks = [(block, bank.blocks[block]) for block in pending]
    parts: dict[int, dict[Unit, TrainedUnit]] = {block: {} for block in pending}
    committed = []
    with closing(engine.train_blocks(request, blocks, progress)) as ended:  # type: ignore[type-var]
        for unit, trained in ended:
            part = parts[unit.block]
            part[unit] = trained
            if sum(len(u.models) for u in part) < len(bank.blocks[unit.block]):
                continue
            whole = joined([part[u] for u in sorted(part)])
            bank.add_block(unit.block, whole.signals, whole.notes)
            committed.append(whole._replace(signals={}))
            del parts[unit.block]  # its signals are on disk now
    return committed


def _provenance(engine: Engine, request: TrainingRequest, committed: list[TrainedUnit]) -> Provenance:
    devices = sorted({block.device for block in committed})
    return Provenance(
        engine=engine.name,
        device=", ".join(devices) or request.device,
        note=next((block.not_stacked_reason for block in committed if block.not_stacked_reason), None),
        versions={
            "leakscope": leakscope.__version__,
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "numpy": np.__version__,
        },
    )
