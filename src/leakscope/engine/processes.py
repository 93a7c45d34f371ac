"""Processes of this machine that train units side by side: one per core, or one per GPU.

They are loky's: they start without running the user's script again, and accept functions defined in it. Each
has one worker and a fixed number of threads, and reads the features from one memory map that all share. A
process that is killed is replaced, and its unit is submitted again (`schedule.py`).
"""

from __future__ import annotations

import copy
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from leakscope.array_types import AnyArray
from leakscope.engine.request import TrainingRequest
from leakscope.engine.schedule import Outcome
from leakscope.engine.worker import TrainedUnit, Unit, Worker, threads_limited, worker_in_pool
from leakscope.errors import first_line
from leakscope.types import Records

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_SECONDS_BETWEEN_PARENT_CHECKS = 2.0


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

    def __init__(self, request: TrainingRequest, devices: Sequence[str], n_threads: int) -> None:
        self._scratch = Path(tempfile.mkdtemp(prefix="leakscope-"))
        np.save(self._scratch / "features.npy", request.records.features)
        self._done = np.memmap(self._scratch / "done", np.float64, "w+", shape=(len(devices),))
        self._request = replace(request, records=_with_features(request.records, np.empty(0, np.float32)))
        self._n_threads = n_threads
        self._slots = [_Slot(n, device, self._process(n, device)) for n, device in enumerate(devices)]

    def __enter__(self) -> ProcessPool:
        return self

    def __exit__(self, *_: object) -> None:
        for slot in self._slots:
            slot.executor.shutdown(wait=True, kill_workers=True)
        shutil.rmtree(self._scratch, ignore_errors=True)

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

        init = _WorkerInit(self._request, device, self._n_threads, self._scratch, number, os.getpid())
        environment = dict.fromkeys(_THREAD_VARIABLES, str(self._n_threads))
        return ProcessPoolExecutor(1, initializer=_initialize, initargs=(init,), env=environment)


class _WorkerInit(NamedTuple):
    """What a process receives when it starts."""

    request: TrainingRequest
    device: str
    n_threads: int
    scratch: Path
    number: int
    parent: int


_init: _WorkerInit | None = None
_worker: Worker | None = None


def _initialize(init: _WorkerInit) -> None:
    """In the new process. Nothing here may fail: an error must end a unit to be reported."""
    global _init
    _init = init
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent
    threading.Thread(target=_end_with_parent, args=(init,), daemon=True).start()


def _end_with_parent(init: _WorkerInit) -> None:
    """A parent that was killed can neither end its processes nor remove the features."""
    while os.getppid() == init.parent:
        time.sleep(_SECONDS_BETWEEN_PARENT_CHECKS)
    shutil.rmtree(init.scratch, ignore_errors=True)
    os._exit(1)


def _train(unit: Unit) -> TrainedUnit:
    """In the process: trains one unit."""
    global _worker
    import torch

    init = _init
    assert init is not None, "a process is initialized before it trains"
    with threads_limited(init.n_threads):
        if _worker is None:
            # Copy on write: a function that writes into its features changes no other process's.
            features = np.asarray(np.load(init.scratch / "features.npy", mmap_mode="c"))
            request = replace(init.request, records=_with_features(init.request.records, features))
            _worker = worker_in_pool(request, torch.device(init.device))
        done = np.memmap(init.scratch / "done", np.float64, "r+")

        def report(models: float) -> None:
            done[init.number] += models

        return _worker.train_unit(unit, report)


def _with_features(records: Records, features: AnyArray) -> Records:
    """The same records with other features, not checked again."""
    changed = copy.copy(records)
    object.__setattr__(changed, "features", features)
    return changed
