"""A fault of its own kind: a node of a Ray cluster is gone while it trains for a run."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from leakscope.engine.schedule import Outcome as UnitOutcome
from tests.faults.injections import Case, Expected, Outcome, Process
from tests.faults.ray_cluster import RayCluster


class LazyCluster:
    """The Ray cluster of all injections, started by the first that needs it."""

    def __init__(self) -> None:
        self._cluster: RayCluster | None = None

    def running(self) -> RayCluster:
        self._cluster = self._cluster or RayCluster()
        return self._cluster

    def close(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None


CLUSTER = LazyCluster()


@contextmanager
def ray_node_lost(
    rng: np.random.Generator, case: Case, expected: Expected, folder: Path, outcome: Outcome
) -> Iterator[None]:
    """All processes of a node at work are killed; every other time, soon after, so is the run itself."""
    del expected
    cluster = CLUSTER.running()
    cluster.has_two_nodes()
    delay, is_run_killed = rng.random(), rng.random() < 0.5
    process = Process(lambda: _units_lost(case, folder))
    outcome.struck = cluster.lose_a_node_at_work(delay)
    if is_run_killed:
        time.sleep(rng.random() * 2)
        process.kill()
    ending = process.wait()
    outcome.detail = f"{delay:.2f} s into its work, {'then the run' if is_run_killed else 'alone'}: {ending}"
    if ending.code == 0:
        outcome.struck = outcome.struck and json.loads(ending.said) > 0
    elif not is_run_killed:
        outcome.problems.append(f"a lost node ended the run with {ending}")
    yield


def _units_lost(case: Case, folder: Path) -> int:
    """Runs the case; the number of units that the engine gave out again."""
    from leakscope.engine.ray_engine import RayPool

    n_lost, completed = 0, RayPool.completed

    def counted(self: RayPool, seconds: float) -> list[UnitOutcome]:
        nonlocal n_lost
        outcomes = completed(self, seconds)
        n_lost += sum(outcome.trained is None for outcome in outcomes)
        return outcomes

    RayPool.completed = counted  # type: ignore[method-assign]
    case.run(folder)
    return n_lost
