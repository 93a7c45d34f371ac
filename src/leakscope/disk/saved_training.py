"""Where the state of models in training is saved, and when: on a clock, so that a kill costs seconds.

A state lies in the bank's folder under `training/` until its models are stored. It is used only for the same
bank, models and trainer, and only when its checksum is right; otherwise training starts over.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from leakscope.array_types import AnyArray
from leakscope.disk.sealed import Sealed, read_header, read_sealed, write_sealed

STATES = "training"
SECONDS_BETWEEN_SAVES = 20.0
"""Leaves time to write the state before 30 s of work can be lost."""
_MOST_OF_WORK = 0.05  # that may be lost where saving is slow
_TIMES_THE_COST = 10  # where saving is slow, it takes at most a tenth of the time in the long run
_STATE, _CHECKPOINT = "state", "checkpoint"


class Saving(NamedTuple):
    """Where the states of a bank's models are saved, and how often.

    Attributes:
        folder: the bank's folder.
        bank: sha256 of its identity.
        seconds: between two saves.
        now: the clock, in seconds.
    """

    folder: Path
    bank: str
    seconds: float = SECONDS_BETWEEN_SAVES
    now: Callable[[], float] = time.monotonic

    def of(self, models: Sequence[int], trainer: str) -> SavedTraining:
        """The state of models that are trained together."""
        return SavedTraining(self, models, trainer)

    def models_done(self) -> float:
        """How many models' worth of training the states hold."""
        headers = [read_header(path) or {} for path in (self.folder / STATES).glob(f"*/{_STATE}")]
        ours = [h for h in headers if h.get("bank") == self.bank]
        return sum(float(h.get("share", 0)) * len(h.get("models", ())) for h in ours)

    def remove(self, models: Sequence[int]) -> None:
        """Removes the state of models that are stored now."""
        shutil.rmtree(self._path(models), ignore_errors=True)

    def _path(self, models: Sequence[int]) -> Path:
        return self.folder / STATES / f"{models[0]:06d}-{len(models)}"


class SavedTraining:
    """The state of models that are trained together: one file, and one for each checkpoint they passed."""

    def __init__(self, saving: Saving, models: Sequence[int], trainer: str) -> None:
        self._saving, self._folder = saving, saving._path(models)
        self._same = {"bank": saving.bank, "models": list(map(int, models)), "trainer": trainer}
        self._n_checkpoints = 0
        self._cost = self._earlier = 0.0
        self._started = self._saved_at = saving.now()

    @property
    def seconds(self) -> float:
        """Training time so far, that of earlier processes included."""
        return self._earlier + self._saving.now() - self._started

    def is_due(self) -> bool:
        """True when the clock says to save."""
        age = self._saving.now() - self._saved_at
        if age < self._saving.seconds:
            return False
        return age >= min(_TIMES_THE_COST * self._cost, _MOST_OF_WORK * self.seconds)

    def read(self) -> tuple[Sealed, list[dict[str, AnyArray]]] | None:
        """The state and the signals of the checkpoints before it; None when there is none to resume."""
        state = self._sealed(_STATE)
        if state is None:
            return None
        n_checkpoints = int(state.header["checkpoints"])
        files = [self._sealed(f"{_CHECKPOINT}-{n}") for n in range(n_checkpoints)]
        checkpoints = [file.arrays for file in files if file is not None]
        if len(checkpoints) < n_checkpoints:
            return None
        self._earlier, self._n_checkpoints = float(state.header["seconds"]), len(checkpoints)
        return state, checkpoints

    def write(
        self,
        header: Mapping[str, Any],
        arrays: Mapping[str, AnyArray],
        checkpoints: Sequence[Mapping[str, AnyArray]],
    ) -> None:
        """Saves the state; each checkpoint is written once."""
        started = self._saving.now()
        for n in range(self._n_checkpoints, len(checkpoints)):
            write_sealed(self._folder / f"{_CHECKPOINT}-{n}", self._same, checkpoints[n])
        self._n_checkpoints = len(checkpoints)
        own = {**self._same, "seconds": self.seconds, "checkpoints": len(checkpoints)}
        write_sealed(self._folder / _STATE, {**own, **header}, arrays)
        self._saved_at = self._saving.now()
        self._cost = self._saved_at - started

    def _sealed(self, name: str) -> Sealed | None:
        """The file, when it is of the same models."""
        sealed = read_sealed(self._folder / name)
        if sealed is None or any(sealed.header.get(key) != value for key, value in self._same.items()):
            return None
        return sealed


def last_saved(folder: Path) -> float | None:
    """When a state was last saved in the banks under `folder`, as time of day; None: there is none."""
    times = []
    for path in folder.rglob(f"{STATES}/*/{_STATE}"):
        try:
            times.append(path.stat().st_mtime)
        except OSError:
            continue  # its models are stored by now
    return max(times, default=None)
