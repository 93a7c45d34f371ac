"""The scheduling loop of every engine that trains in other processes.

Only a few units are in flight at a time, so that few outputs wait in memory to be written. When a process or
machine dies, its unit is submitted again, up to a limit. An exception raised by a unit itself ends the run.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from leakscope.engine.worker import TrainedUnit, Unit
from leakscope.errors import TrainingError
from leakscope.train.block import Progress

POLL_SECONDS = 0.2
MAX_ATTEMPTS = 4
"""Attempts per unit; the first three may end with a killed process or machine."""


class Outcome(NamedTuple):
    """How a unit ended: trained, or with its process or machine gone (`failure` says how)."""

    unit: Unit
    trained: TrainedUnit | None
    failure: str = ""


class WorkerPool(Protocol):
    """Processes that train units."""

    def capacity(self) -> int:
        """How many units may be in flight now; changes as machines come and go."""

    def submit(self, unit: Unit) -> None:
        """Starts a unit."""

    def completed(self, seconds: float) -> list[Outcome]:
        """Units that have ended, after waiting up to `seconds` for the first; raises what a unit raised."""

    def models_done(self) -> Iterable[tuple[Unit, float]]:
        """How many models' worth of each unit in flight is done."""


def run_units(
    pool: WorkerPool, units: Sequence[Unit], progress: Progress
) -> Iterator[tuple[Unit, TrainedUnit]]:
    """Trains all units in the pool; yields each as it ends, in any order.

    Raises:
        TrainingError: the process of one unit was killed `MAX_ATTEMPTS` times.
    """
    waiting, in_flight, attempts = deque(units), set[Unit](), Counter[Unit]()
    reported: dict[Unit, float] = {}

    def report(unit: Unit, models: float) -> None:
        """Progress never goes back: a restarted unit counts only from where it had been before."""
        before = reported.get(unit, 0.0)
        if models > before:
            reported[unit] = models
            progress(models - before)

    while waiting or in_flight:
        while waiting and len(in_flight) < pool.capacity():
            unit = waiting.popleft()
            attempts[unit] += 1
            in_flight.add(unit)
            pool.submit(unit)
        for outcome in pool.completed(POLL_SECONDS):
            in_flight.discard(outcome.unit)
            if outcome.trained is not None:
                report(outcome.unit, float(len(outcome.unit.models)))
                yield outcome.unit, outcome.trained
            elif attempts[outcome.unit] >= MAX_ATTEMPTS:
                raise TrainingError(_gave_up(outcome))
            else:
                waiting.appendleft(outcome.unit)
        for unit, models in pool.models_done():
            if unit in in_flight:
                report(unit, models)


def _gave_up(outcome: Outcome) -> str:
    models = outcome.unit.models
    named = f"model {models[0]}" if len(models) == 1 else f"models {models[0]} to {models[-1]}"
    return (
        f"{named} could not be trained: the process was killed {MAX_ATTEMPTS} times ({outcome.failure}); "
        "it may need more memory than there is. Run the same command again to resume"
    )
