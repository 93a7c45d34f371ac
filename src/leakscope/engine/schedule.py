"""One loop for every engine that trains in other processes: what is in flight, what is lost, how far it is.

Few units are in flight at a time, so that answers waiting to be committed stay few. A unit whose process or
machine was lost is given out again, a few times; what a unit raises itself is a mistake and ends the run.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from leakscope.engine.worker import Trained, Unit
from leakscope.errors import TrainingError
from leakscope.train.loop import Progress

SECONDS_BETWEEN_LOOKS = 0.2
_ATTEMPTS = 4  # of one unit; the first three may be lost to killed processes or machines


class Outcome(NamedTuple):
    """How a unit ended: with answers, or lost to its process or machine (`lost` says how)."""

    unit: Unit
    trained: Trained | None
    lost: str = ""


class Crew(Protocol):
    """Processes that train units."""

    def room(self) -> int:
        """How many units may be in flight now; changes as machines come and go."""

    def give(self, unit: Unit) -> None:
        """Starts a unit."""

    def ended(self, seconds: float) -> list[Outcome]:
        """Units that have ended, waiting so long for the first; raises what a unit raised."""

    def done(self) -> Iterable[tuple[Unit, float]]:
        """How many models' worth of each unit in flight is done."""


def run_units(crew: Crew, units: Sequence[Unit], progress: Progress) -> Iterator[tuple[Unit, Trained]]:
    """Trains all units by the crew; yields each as it ends, in whatever order.

    Raises:
        TrainingError: a unit was lost time and again.
    """
    waiting, in_flight, attempts = deque(units), set[Unit](), Counter[Unit]()
    ledger = _Ledger(progress)
    while waiting or in_flight:
        while waiting and len(in_flight) < crew.room():
            unit = waiting.popleft()
            attempts[unit] += 1
            in_flight.add(unit)
            crew.give(unit)
        for outcome in crew.ended(SECONDS_BETWEEN_LOOKS):
            in_flight.discard(outcome.unit)
            if outcome.trained is not None:
                ledger.reached(outcome.unit, float(len(outcome.unit.models)))
                yield outcome.unit, outcome.trained
            elif attempts[outcome.unit] >= _ATTEMPTS:
                raise TrainingError(_lost_for_good(outcome))
            else:
                waiting.appendleft(outcome.unit)
        for unit, models in crew.done():
            if unit in in_flight:
                ledger.reached(unit, models)


class _Ledger:
    """Progress that never goes back: a unit that starts anew counts from where it had been."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._told: dict[Unit, float] = {}

    def reached(self, unit: Unit, models: float) -> None:
        before = self._told.get(unit, 0.0)
        if models > before:
            self._told[unit] = models
            self._progress(models - before)


def _lost_for_good(outcome: Outcome) -> str:
    models = outcome.unit.models
    named = f"model {models[0]}" if len(models) == 1 else f"models {models[0]} to {models[-1]}"
    return (
        f"{named} could not be trained: the process was lost {_ATTEMPTS} times ({outcome.lost}); "
        "it may need more memory than there is. The same command goes on where this run stopped"
    )
