"""Fills a bank block by block, picking up where an earlier run stopped; here, unless another engine is named.

Networks that stack are trained in this process, a block at once. Models that are trained one at a time on
the CPU (a user's function, a large network) go to processes, one a core, as soon as that pays; on a machine
with several GPUs, blocks go to one process a GPU. Estimators bring processes of their own.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

import leakscope
from leakscope.array_types import IntArray
from leakscope.bank.bank import Bank
from leakscope.disk.lock import folder_lock
from leakscope.engine.processes import ProcessCrew, cores
from leakscope.engine.request import Place, ThisMachine, block_size, check_request, device_of
from leakscope.engine.schedule import run_units
from leakscope.engine.worker import (
    Job,
    Trained,
    Unit,
    Worker,
    joined,
    threads_limited,
    units_of,
    why_not_sendable,
    worker_for,
)
from leakscope.errors import TrainingError
from leakscope.recipe import AnyRecipe, EstimatorRecipe, Recipe
from leakscope.train.loop import Answers, Progress
from leakscope.types import Design, Records

__all__ = ["Answers", "Progress", "Worker", "block_size", "check_request", "complete_bank", "device_of"]

_SECONDS_WORTH_PROCESSES = 10.0  # of training left; each process takes about 3 to start, torch and all

Blocks = Sequence[tuple[int, IntArray]]
"""(number, models) of the blocks to train."""


class Engine(Place, Protocol):
    """Who runs which unit of which block where."""

    name: str

    def trained(self, job: Job, blocks: Blocks, progress: Progress) -> Iterator[tuple[Unit, Trained]]:
        """Trains the blocks; yields units of them as they end. Closing it ends whatever is in flight."""


def complete_bank(
    folder: Path,
    records: Records,
    design: Design,
    recipe: AnyRecipe,
    seed: int,
    kept: tuple[str, ...] = (),
    device: str = "auto",
    progress: Progress = lambda _: None,
    engine: Engine | None = None,
) -> Bank:
    """The bank of these records, design, recipe and seed: loaded if whole, else trained where missing.

    Args:
        folder: the bank's folder; created when absent, resumed when it holds this very bank.
        records: the records.
        design: who is in which training set.
        recipe: how one model is trained.
        seed: run seed; all randomness derives from it.
        kept: signals to keep; empty: the usual ones of the task.
        device: "auto", "cpu", "cuda" (all of them) or "cuda:N".
        progress: called with models' worth of work done, also for work found on disk.
        engine: who trains; None: this machine.
    """
    engine = engine or LocalEngine()
    identity = check_request(records, design, recipe, seed, kept, device, engine)
    with folder_lock(folder):
        bank = Bank.create(folder, identity, design, records.labels)
        is_whole = bank.is_complete and not bank.damage()
        pending = [] if is_whole else bank.pending()
        progress(design.n_models - sum(len(bank.blocks[b]) for b in pending))
        if not is_whole:
            job = Job(records, design, recipe, seed, tuple(identity.signals), device)
            bank.finish(_about(engine, job, _filled(bank, engine, job, pending, progress)))
    if len(bank.lost) == design.n_models:
        raise TrainingError(
            f"every model diverged (not finite at epoch {min(bank.lost.values())}); lower the rate"
        )
    return bank


class LocalEngine:
    """This machine: its cores, or its GPUs."""

    name = "local"

    def check_device(self, device: str) -> None:
        """Raises InputError when this machine has no such device."""
        ThisMachine().check_device(device)

    def trained(self, job: Job, blocks: Blocks, progress: Progress) -> Iterator[tuple[Unit, Trained]]:
        """Trains the blocks here, in this process or in several."""
        gpus = _gpus(job)
        if len(gpus) > 1 and len(blocks) > 1:
            units = [unit for b, models in blocks for unit in units_of(b, models, apart=False)]
            with ProcessCrew(job, gpus[: len(units)], max(1, cores() // len(gpus))) as crew:
                yield from run_units(crew, units, progress)
            return
        if not blocks:
            return
        worker = worker_for(job, device_of(job.device))
        apart = worker.trains_serially and worker.device.type == "cpu" and not _has_own_processes(job)
        units = [unit for b, models in blocks for unit in units_of(b, models, apart)]
        if apart:
            yield from _one_at_a_time(worker, job, units, progress)
        else:
            for unit in units:
                yield unit, worker.trained(unit, progress)


def threads_apart(n_models: int) -> int:
    """Threads of a model that is trained beside others; does not depend on how many are still to train."""
    return max(1, min(torch.get_num_threads(), cores() // n_models))


def _one_at_a_time(
    worker: Worker, job: Job, units: list[Unit], progress: Progress
) -> Iterator[tuple[Unit, Trained]]:
    """Models one by one, in processes once the first has shown that it pays."""
    n_threads, started = threads_apart(job.design.n_models), time.perf_counter()
    for at, unit in enumerate(units):
        with threads_limited(n_threads):
            trained = worker.trained(unit, progress)
        yield unit, trained
        rest = units[at + 1 :]
        seconds_left = (time.perf_counter() - started) / (at + 1) * len(rest)
        n_processes = min(cores() // n_threads, len(rest))
        if n_processes > 1 and seconds_left > _SECONDS_WORTH_PROCESSES and not why_not_sendable(job.recipe):
            with ProcessCrew(job, ["cpu"] * n_processes, n_threads) as crew:
                yield from run_units(crew, rest, progress)
            return


def _gpus(job: Job) -> list[str]:
    """The GPUs that networks of this job may use, when they may use all."""
    if not isinstance(job.recipe, Recipe) or job.device not in ("auto", "cuda"):
        return []
    return [f"cuda:{index}" for index in range(torch.cuda.device_count())]


def _has_own_processes(job: Job) -> bool:
    return isinstance(job.recipe, EstimatorRecipe)


def _filled(bank: Bank, engine: Engine, job: Job, pending: list[int], progress: Progress) -> list[Trained]:
    """Commits each pending block once all of its units have ended; gives back what is worth noting."""
    blocks = [(block, bank.blocks[block]) for block in pending]
    parts: dict[int, dict[Unit, Trained]] = {block: {} for block in pending}
    committed = []
    with closing(engine.trained(job, blocks, progress)) as ended:  # type: ignore[type-var]
        for unit, trained in ended:
            found = parts[unit.block]
            found[unit] = trained
            if sum(len(u.models) for u in found) < len(bank.blocks[unit.block]):
                continue
            whole = joined([found[u] for u in sorted(found)])
            bank.add_block(unit.block, whole.signals, _notes(whole))
            committed.append(whole._replace(signals={}))
            del parts[unit.block]  # its answers are on disk now
    return committed


def _notes(block: Trained) -> dict[str, Any]:
    return {
        "trainer": block.trainer,
        "note": block.note,
        "lost_models": block.lost,
        "seconds": round(block.seconds, 3),
        **({"node": block.node} if block.node else {}),
    }


def _about(engine: Engine, job: Job, committed: list[Trained]) -> dict[str, Any]:
    """Facts for the manifest that are not part of the identity."""
    devices = sorted({block.device for block in committed})
    return {
        "engine": engine.name,
        "device": ", ".join(devices) or job.device,
        "note": next((block.not_stacked_reason for block in committed if block.not_stacked_reason), None),
        "versions": {
            "leakscope": leakscope.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
    }
