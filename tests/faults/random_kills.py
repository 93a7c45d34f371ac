"""SIGKILL at random moments of training, for every trainer: the same bytes, little lost, nothing left behind.

Every run is a process of its own, forked from this one. It is killed at a random moment, now and then again
while it resumes, and then completed. What a kill costs: for networks trained in the run's own process, the
time since something was last saved, or since the first step if that was later. Elsewhere, what the killed run
had reported as done, less what the next run reports as being on disk when it starts.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import struct
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from sklearn.ensemble import RandomForestClassifier

from leakscope.bank.bank import Bank
from leakscope.design import make_design
from leakscope.disk.saved_training import SavedTraining
from leakscope.engine import local, request
from leakscope.recipe import AnyRecipe, EstimatorRecipe, FunctionRecipe, Recipe
from leakscope.types import Records
from tests.engine.functions import slow

SAVE_SECONDS = 1.0
STATED_LOSS = 1.5 * SAVE_SECONDS
"""Seconds that a kill may cost at most, in proportion to the 20 s and 30 s of a real run."""
SECONDS_FOR_A_MODEL = 0.25  # of a training function
N_MODELS, SEED = 10, 4
MARK = "LEAKSCOPE_KILLED_RUN"
_ENTRY = struct.Struct("dd")
_SECONDS_TO_DIE = 10.0  # a process that is just starting needs a second before it looks for its parent
_AGAIN = 0.6  # share of killed runs that are killed again

torch.set_num_threads(1)  # a fork keeps no threads


@dataclass(frozen=True)
class Case:
    """What is trained: in this process, or side by side in processes."""

    recipe: AnyRecipe
    in_processes: bool = False
    features: tuple[int, ...] = (20,)

    @property
    def is_network(self) -> bool:
        return isinstance(self.recipe, Recipe)


def mlp(epochs: int, trainer: str = "auto", **options: object) -> Recipe:
    return Recipe(net_options=tuple(options.items()), epochs=epochs, batch_size=16, trainer=trainer,
                  checkpoints=(1, epochs // 2, epochs))  # type: ignore[arg-type]  # fmt: skip


FOREST = EstimatorRecipe(RandomForestClassifier(n_estimators=40), processes=2)
LARGE = "tests.faults.nets:noisy"  # draws from torch's global generator
CASES = {
    "stacked perceptrons": Case(mlp(900, width=32)),
    "stacked networks with dropout": Case(mlp(40, width=16, norm="batch", dropout=0.2)),
    "large networks, one at a time": Case(Recipe(net=LARGE, epochs=16, batch_size=16)),
    "images, flipped and cropped": Case(
        Recipe(
            net="cnn", optimizer="sgd", momentum=0.9, lr=0.01, epochs=10, batch_size=32, flips=True, crop=2
        ),
        features=(1, 8, 8),
    ),
    "estimators": Case(FOREST),
    "functions": Case(FunctionRecipe(slow(SECONDS_FOR_A_MODEL))),
    "estimators in processes": Case(FOREST, in_processes=True),
    "functions in processes": Case(FunctionRecipe(slow(SECONDS_FOR_A_MODEL)), in_processes=True),
    "large networks in processes": Case(Recipe(net=LARGE, epochs=6, batch_size=16), in_processes=True),
}


class Entry(NamedTuple):
    """One line of a run's log: the time, and models' worth of training done, that on disk included."""

    time: float
    models: float


@dataclass
class Outcome:
    """What became of one run that was killed."""

    case: str
    kills: int = 0
    lost_seconds: list[float] = field(default_factory=list)
    lost_models: list[float] = field(default_factory=list)
    has_same_bytes: bool = False
    problems: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return self.has_same_bytes and not self.problems

    def add_loss(self, seconds: float) -> None:
        self.lost_seconds.append(seconds)
        if seconds > STATED_LOSS:
            self.problems.append(f"{seconds:.2f} s lost")


def records(shape: tuple[int, ...]) -> Records:
    rng = np.random.default_rng(1)
    labels = np.arange(240) % 3
    features = rng.normal(size=(240, *shape)) + labels.reshape(-1, *(1 for _ in shape))
    ids = np.array([f"r{n}" for n in range(240)])
    return Records(features.astype(np.float32), labels, ids, class_names=("a", "b", "c"))


class Run:
    """One case trained into a folder by a forked process, which keeps a log of its progress."""

    def __init__(self, case: Case, folder: Path, number: int) -> None:
        self._log = folder.parent / f"{folder.name}-{number}.log"
        self._first_step = folder.parent / f"{folder.name}-{number}.first"
        for path in (self._log, self._first_step):  # of an earlier run
            path.unlink(missing_ok=True)
        self.pid = os.fork()
        if self.pid == 0:
            self._train(case, folder)

    def _train(self, case: Case, folder: Path) -> None:
        code = 1
        try:
            os.environ[MARK] = str(os.getpid())
            local.SECONDS_WORTH_PROCESSES = 0.0 if case.in_processes else np.inf
            local.SECONDS_TO_LOAD = 0.0
            request.BLOCK_SIZES, request.MODELS_PER_BLOCK = (5, 5), 8
            given = records(case.features)
            design = make_design("balanced", N_MODELS, len(given), SEED)
            wanted = request.TrainingRequest(given, design, case.recipe, SEED, device="cpu")
            done = 0.0
            _note_first_step(self._first_step)
            with self._log.open("wb", buffering=0) as log:

                def report(models: float) -> None:
                    nonlocal done
                    done += models
                    log.write(_ENTRY.pack(time.monotonic(), done))

                local.complete_bank(folder, wanted, progress=report, save_seconds=SAVE_SECONDS)
            code = 0
        finally:
            os._exit(code)

    def log(self) -> list[Entry]:
        content = self._log.read_bytes() if self._log.exists() else b""
        whole = content[: len(content) // _ENTRY.size * _ENTRY.size]
        return [Entry(*entry) for entry in _ENTRY.iter_unpack(whole)]

    def unsaved_since(self, folder: Path) -> float | None:
        """Time of day of the last save, or of the first step if that was later; None: no step was done."""
        if not self._first_step.exists():
            return None
        files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
        return max(path.stat().st_mtime for path in (*files, self._first_step))

    def wait(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def killed_after(self, seconds: float, of_training: bool) -> float | None:
        """When it was killed, so long after its start or after its first step; None when it had ended."""
        begun = None if of_training else time.monotonic()
        while begun is None or time.monotonic() < begun + seconds:
            if os.waitpid(self.pid, os.WNOHANG)[0]:
                return None
            if begun is None and self._first_step.exists():
                begun = time.monotonic()
            time.sleep(0.005)
        os.kill(self.pid, signal.SIGKILL)
        killed = time.time()
        self.wait()
        return killed


def _note_first_step(path: Path) -> None:
    """Creates the file after the first step: before it, libraries are loaded and nothing can be lost."""
    original = SavedTraining.is_due

    def noting(self: SavedTraining) -> bool:
        if not path.exists():
            path.touch()
        return original(self)

    SavedTraining.is_due = noting  # type: ignore[method-assign]


def contents(folder: Path) -> dict[str, bytes]:
    """Every file but the manifest, which holds the time of day."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "manifest.json")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def left_behind(pid: int) -> list[str]:
    """Processes and shared memory of a killed run that are still there after a moment."""
    deadline = time.monotonic() + _SECONDS_TO_DIE
    while (left := [*_processes_of(pid), *_shared_memory_of(pid)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def _shared_memory_of(pid: int) -> list[str]:
    """Names such as "sem.loky-PID-..."; in others the number is a part of something else."""
    own = re.compile(rf"(^|[_.-]){pid}([_.-]|$)")
    return [f"shared memory {path.name}" for path in Path("/dev/shm").iterdir() if own.search(path.name)]


def _processes_of(pid: int) -> list[str]:
    marked = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={pid}\0".encode() in (process / "environ").read_bytes():
                marked.append(f"process {process.name}")
        except OSError:
            continue
    return marked


class Killer:
    """Undisturbed runs of the cases, and killed ones to compare with them."""

    def __init__(self, root: Path, names: list[str], seed: int) -> None:
        self._root, self._rng = root, np.random.default_rng(seed)
        self._expected: dict[str, dict[str, bytes]] = {}
        self._seconds: dict[str, float] = {}
        self.training_seconds: dict[str, float] = {}
        for name in names:
            folder, started = root / "undisturbed" / name, time.monotonic()
            folder.parent.mkdir(exist_ok=True, parents=True)
            run = Run(CASES[name], folder, 0)
            assert run.wait() == 0, f"{name} failed undisturbed"
            self._seconds[name] = time.monotonic() - started
            self.training_seconds[name] = Bank.open(folder).manifest.seconds
            self._expected[name] = contents(folder)

    def kill(self, name: str) -> Outcome:
        """Kills a run of the case until it has been killed once or more, completes it, and compares."""
        case, outcome, number = CASES[name], Outcome(name), 0
        folder = self._root / "killed" / name
        folder.parent.mkdir(exist_ok=True, parents=True)
        killed: Run | None = None
        while True:
            is_last = outcome.kills > 0 and self._rng.random() > _AGAIN
            run, number = Run(case, folder, number), number + 1
            moment = None if is_last else self._kill(run, name)
            if is_last and run.wait() != 0:
                outcome.problems.append("it does not resume")
            if killed is not None:
                self._measure(case, outcome, killed, run)
            if moment is None and not is_last and outcome.kills == 0:
                shutil.rmtree(folder)  # it was faster than the undisturbed one: another try
                continue
            if moment is None:
                break
            outcome.kills += 1
            if case.is_network and not case.in_processes and (since := run.unsaved_since(folder)):
                outcome.add_loss(max(moment - since, 0.0))
            outcome.problems += [f"left behind: {what}" for what in left_behind(run.pid)]
            killed = run
        outcome.has_same_bytes = contents(folder) == self._expected[name]
        shutil.rmtree(folder)
        return outcome

    def _kill(self, run: Run, name: str) -> float | None:
        """One in four at any moment of the run, the others in training, which may be the smaller part."""
        of_training = CASES[name].is_network and not CASES[name].in_processes and self._rng.random() < 0.75
        seconds = self.training_seconds[name] if of_training else self._seconds[name]
        return run.killed_after(self._rng.random() * seconds, of_training)

    def _measure(self, case: Case, outcome: Outcome, killed: Run, resumed: Run) -> None:
        """What the killed run had done and the next one did not find."""
        before, after = killed.log(), resumed.log()
        if not before or not after:
            return  # one of the two was killed before it had looked at the disk
        lost = max(before[-1].models - after[0].models, 0.0)
        outcome.lost_models.append(lost)
        n_processes = 2 if case.in_processes else 1
        if not case.is_network:
            if lost > n_processes:  # more than had ended and were just being written: stored together
                first_lost = next(entry for entry in before if entry.models > after[0].models)
                outcome.add_loss(before[-1].time - first_lost.time)
        elif case.in_processes:  # each saves for itself
            outcome.add_loss(lost * self.training_seconds[outcome.case] / N_MODELS / n_processes)
