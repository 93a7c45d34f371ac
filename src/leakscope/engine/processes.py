"""Processes of this machine that train units side by side: one a core, or one a GPU.

They are loky's: they start without running the user's script again and take functions that were defined in
it. Each has one worker, a fixed number of threads, and sees the features through one memory map that all
share. A process that is killed is replaced, and its unit is given out again (`schedule.py`).
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
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from leakscope.array_types import AnyArray
from leakscope.engine.schedule import Outcome
from leakscope.engine.worker import Job, Trained, Unit, Worker, threads_limited, worker_for
from leakscope.types import Records

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_SECONDS_BETWEEN_SIGNS_OF_LIFE = 2.0


def cores() -> int:
    """Cores this process may use, limits of containers included."""
    from joblib import cpu_count

    return int(cpu_count())


@dataclass
class _Slot:
    """One process, and what it is at."""

    number: int
    device: str
    executor: Any
    unit: Unit | None = None
    future: Future[Trained] | None = None


class ProcessCrew:
    """One process for each entry of `devices`; leaving the context ends them all.

    Args:
        job: what is trained.
        devices: torch's names of devices, one a process; a name may come several times.
        n_threads: threads of each process.
    """

    def __init__(self, job: Job, devices: Sequence[str], n_threads: int) -> None:
        self._scratch = Path(tempfile.mkdtemp(prefix="leakscope-"))
        np.save(self._scratch / "features.npy", job.records.features)
        self._done = np.memmap(self._scratch / "done", np.float64, "w+", shape=(len(devices),))
        self._job = replace(job, records=_with_features(job.records, np.empty(0, np.float32)))
        self._n_threads = n_threads
        self._slots = [_Slot(n, device, self._process(n, device)) for n, device in enumerate(devices)]

    def __enter__(self) -> ProcessCrew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for slot in self._slots:
            slot.executor.shutdown(wait=True, kill_workers=True)
        shutil.rmtree(self._scratch, ignore_errors=True)

    def room(self) -> int:
        """One unit a process."""
        return len(self._slots)

    def give(self, unit: Unit) -> None:
        """Starts a unit in a free process."""
        slot = next(slot for slot in self._slots if slot.unit is None)
        self._done[slot.number] = 0
        slot.unit, slot.future = unit, slot.executor.submit(_train, unit)

    def ended(self, seconds: float) -> list[Outcome]:
        """Units that have ended; processes that were killed are replaced."""
        futures = [slot.future for slot in self._slots if slot.future is not None]
        ready = wait(futures, timeout=seconds, return_when=FIRST_COMPLETED).done
        return [self._outcome(slot) for slot in self._slots if slot.future in ready]

    def done(self) -> Iterator[tuple[Unit, float]]:
        """What the processes have written about their units."""
        for slot in self._slots:
            if slot.unit is not None:
                yield slot.unit, float(self._done[slot.number])

    def _outcome(self, slot: _Slot) -> Outcome:
        unit, future = slot.unit, slot.future
        assert unit is not None and future is not None, "only slots at work end"
        slot.unit = slot.future = None
        try:
            return Outcome(unit, future.result())
        except BrokenProcessPool as error:
            slot.executor.shutdown(wait=True, kill_workers=True)
            slot.executor = self._process(slot.number, slot.device)
            return Outcome(unit, None, str(error).strip().splitlines()[0])

    def _process(self, number: int, device: str) -> Any:
        """An executor of a single process, which starts with its first unit."""
        from joblib.externals.loky import ProcessPoolExecutor

        duty = _Duty(self._job, device, self._n_threads, self._scratch, number, os.getpid())
        environment = dict.fromkeys(_THREAD_VARIABLES, str(self._n_threads))
        return ProcessPoolExecutor(1, initializer=_begin, initargs=(duty,), env=environment)


class _Duty(NamedTuple):
    """What a process is told when it starts."""

    job: Job
    device: str
    n_threads: int
    scratch: Path
    number: int
    parent: int


_duty: _Duty | None = None
_worker: Worker | None = None


def _begin(duty: _Duty) -> None:
    """In the new process. Nothing here may fail: what goes wrong should end a unit, and be told."""
    global _duty
    _duty = duty
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to act on
    threading.Thread(target=_end_with_parent, args=(duty,), daemon=True).start()


def _end_with_parent(duty: _Duty) -> None:
    """A parent that was killed cannot end its processes, nor remove the features."""
    while os.getppid() == duty.parent:
        time.sleep(_SECONDS_BETWEEN_SIGNS_OF_LIFE)
    shutil.rmtree(duty.scratch, ignore_errors=True)
    os._exit(1)


def _train(unit: Unit) -> Trained:
    """In the process: one unit."""
    global _worker
    import torch

    assert _duty is not None, "a process begins before it trains"
    with threads_limited(_duty.n_threads):
        if _worker is None:
            # Copy on write: a function that writes into its features changes nobody else's.
            features = np.asarray(np.load(_duty.scratch / "features.npy", mmap_mode="c"))
            job = replace(_duty.job, records=_with_features(_duty.job.records, features))
            _worker = worker_for(job, torch.device(_duty.device), alone=False)
        done = np.memmap(_duty.scratch / "done", np.float64, "r+")

        def tell(models: float) -> None:
            done[_duty.number] += models

        return _worker.trained(unit, tell)


def _with_features(records: Records, features: AnyArray) -> Records:
    """The same records with their features left out or put back; they were checked when they were made."""
    changed = copy.copy(records)
    object.__setattr__(changed, "features", features)
    return changed
