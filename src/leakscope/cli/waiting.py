"""How the threads of OpenMP wait for each other: asleep on a busy machine, awake on a quiet one.

torch splits each of many small steps over several threads. By default, a thread that is done spins for
milliseconds, so that the next step starts at once. Where other processes need the cores, it spins while the
thread it waits for cannot run, and training takes many times as long. The choice changes no output.
"""

from __future__ import annotations

import os
import time
from collections.abc import MutableMapping
from pathlib import Path

_RUNNING = Path("/proc/loadavg")
_SAMPLES = 5
_BETWEEN_SAMPLES = 0.001
_GIVEN = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


def choose_waiting(environment: MutableMapping[str, str] = os.environ, running: Path = _RUNNING) -> None:
    """Lets threads sleep where the machine is busy, unless the user has chosen; before torch is loaded."""
    if any(name in environment for name in _GIVEN):
        return
    if running_elsewhere(running) + _own_threads(environment) > (os.cpu_count() or 1):
        environment["OMP_WAIT_POLICY"] = "PASSIVE"


def running_elsewhere(running: Path) -> int:
    """Threads of other processes that run or wait for a core: the fewest of several looks.

    Where the system does not count them, as on macOS, the mean over the last minute.
    """
    try:
        looks = []
        for _ in range(_SAMPLES):
            looks.append(int(running.read_text().split()[3].split("/")[0]) - 1)  # this one runs, too
            time.sleep(_BETWEEN_SAMPLES)
        return max(0, min(looks))
    except (OSError, ValueError, IndexError):
        return round(os.getloadavg()[0]) if hasattr(os, "getloadavg") else 0


def _own_threads(environment: MutableMapping[str, str]) -> int:
    given = environment.get("OMP_NUM_THREADS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
