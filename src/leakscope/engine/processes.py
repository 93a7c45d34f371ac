"""Processes of this machine that train units side by side: one per core, or one per GPU.

They are loky's: they start without running the user's script again, and accept functions defined in it. Each
has one worker and a fixed number of threads, and reads the features from one memory map that all share. A
process that is killed is replaced, and its unit is submitted again (`schedule.py`).

When this process is killed, nothing is left: its processes end with it, and what they share is a file without
a name, which the system removes with its last user.
"""

from __future__ import annotations

import copy
import os
import pickle
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from leakscope.array_types import AnyArray
from leakscope.disk.saved_training import Saving
from leakscope.disk.storage import npy_parts, storage_errors
from leakscope.engine import parent
from leakscope.engine.parent import SharedFile
from leakscope.engine.request import TrainingRequest
from leakscope.engine.schedule import Outcome
from leakscope.engine.worker import TrainedUnit, Unit, Worker, send_to, sendable, threads_limited
from leakscope.errors import first_line
from leakscope.frames.frame import Frame
from leakscope.train.block import Follow
from leakscope.types import Records

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def cores() -> int:
    """Cores this process may use; limits of containers count."""
    from joblib import cpu_count

    return int(cpu_count())


@dataclass
class _Slot:
    """One process, and the unit it trains."""

    number: int
    device: str
    executor: Any
    unit: Unit | None = None
    future: Future[TrainedUnit] | None = None


class ProcessPool:
    """One process for each entry of `devices`, with `n_threads` each; leaving the context ends them all."""

    def __init__(
        self, request: TrainingRequest, devices: Sequence[str], n_threads: int, saving: Saving | None
    ) -> None:
        folder = None if saving is None else saving.folder
        self._features, self._progress, self._frame = (SharedFile(folder) for _ in range(3))
        try:
            self._share(request.records, len(devices))
        except BaseException:
            self._close_files()
            raise
        self._done = np.memmap(self._progress.file, np.float64, "r+")
        self._request = replace(request, records=_with_inputs(request.records, np.empty(0, np.float32), None))
        self._n_threads, self._saving = n_threads, saving
        self._slots = [_Slot(n, device, self._process(n, device)) for n, device in enumerate(devices)]

    def __enter__(self) -> ProcessPool:
        return self

    def __exit__(self, *_: object) -> None:
        for slot in self._slots:
            slot.executor.shutdown(wait=True, kill_workers=True)
        self._close_files()

    def _share(self, records: Records, n_processes: int) -> None:
        """Writes what all processes read, once."""
        with storage_errors(self._features.path):
            for part in npy_parts(records.features):
                self._features.file.write(part)
            self._features.file.flush()
            send_to(self._frame.file, records.frame)
            self._frame.file.flush()
            self._progress.file.truncate(8 * n_processes)

    def _close_files(self) -> None:
        for shared in (self._features, self._frame, self._progress):
            shared.close()

    def capacity(self) -> int:
        """One unit per process."""
        return len(self._slots)

    def submit(self, unit: Unit) -> None:
        """Starts a unit in a free process."""
        slot = next(slot for slot in self._slots if slot.unit is None)
        self._done[slot.number] = 0
        slot.unit, slot.future = unit, slot.executor.submit(_train, unit)

    def completed(self, seconds: float) -> list[Outcome]:
        """Units that have ended; processes that were killed are replaced."""
        futures = [slot.future for slot in self._slots if slot.future is not None]
        ready = wait(futures, timeout=seconds, return_when=FIRST_COMPLETED).done
        return [self._outcome(slot) for slot in self._slots if slot.future in ready]

    def models_done(self) -> Iterator[tuple[Unit, float]]:
        """The progress that the processes have reported."""
        for slot in self._slots:
            if slot.unit is not None:
                yield slot.unit, float(self._done[slot.number])

    def _outcome(self, slot: _Slot) -> Outcome:
        unit, future = slot.unit, slot.future
        assert unit is not None and future is not None, "only busy slots end"
        slot.unit = slot.future = None
        try:
            return Outcome(unit, future.result())
        except BrokenProcessPool as error:
            slot.executor.shutdown(wait=True, kill_workers=True)
            slot.executor = self._process(slot.number, slot.device)
            return Outcome(unit, None, first_line(error))

    def _process(self, number: int, device: str) -> Any:
        """An executor of a single process, which starts with its first unit."""
        from joblib.externals.loky import ProcessPoolExecutor

        shared = self._features.path, self._frame.path, self._progress.path
        init = _WorkerInit(self._request, device, self._n_threads, *shared, number, self._saving)
        environment = dict.fromkeys(_THREAD_VARIABLES, str(self._n_threads))
        # Pickled here: a new process must know its parent before it imports torch, which takes seconds.
        start = (os.getpid(), sendable(init))
        return ProcessPoolExecutor(1, initializer=parent.start, initargs=start, env=environment)


class _WorkerInit(NamedTuple):
    """What a process receives when it starts."""

    request: TrainingRequest
    device: str
    n_threads: int
    features: Path
    frame: Path
    progress: Path
    number: int
    saving: Saving | None


_init: _WorkerInit | None = None
_worker: Worker | None = None


def _train(unit: Unit) -> TrainedUnit:
    """In the process: trains one unit."""
    global _worker, _init

    if _init is None:
        _init = pickle.loads(parent.sent_at_start)  # by this run's own parent
    init = _init
    with threads_limited(init.n_threads):
        if _worker is None:
            # Copy on write: a function that writes into its features changes no other process's.
            features = np.asarray(np.load(init.features, mmap_mode="c"))
            with init.frame.open("rb") as file:
                frame = pickle.load(file)  # by this run's own parent
            records = _with_inputs(init.request.records, features, frame)
            request = replace(init.request, records=records)
            _worker = Worker(request, init.device)
        done = np.memmap(init.progress, np.float64, "r+")

        def report(models: float) -> None:
            done[init.number] += models

        return _worker.train_unit(unit, Follow(report, init.saving))


def _with_inputs(records: Records, features: AnyArray, frame: Frame | None) -> Records:
    """The same records with other features and another table, not checked again."""
    changed = copy.copy(records)
    object.__setattr__(changed, "features", features)
    object.__setattr__(changed, "frame", frame)
    return changed
