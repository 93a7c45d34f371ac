"""A Ray cluster of two nodes that loses one when told, in a process of its own.

Whoever injects faults forks, and Ray's threads would not survive that. So Ray lives here, and is talked to
by lines: `python -m tests.faults.ray_cluster` says where the cluster is, then answers each line it reads.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[2]
_SECONDS_TO_WAIT = 60.0
_AT_WORK = b"ray::_train"  # how Ray names a process that runs a task of ours


class RayCluster:
    """The cluster, seen from the process that injects faults."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.faults.ray_cluster"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, cwd=REPO, text=True, **pipes)
        told = self._told()
        self.address: str = told["address"]
        os.environ.update(told["environment"])  # of the runs to come

    def has_two_nodes(self) -> None:
        """Adds a node where one was lost."""
        self._ask("restore")

    def lose_a_node_at_work(self, delay: float) -> bool:
        """Loses the second node, so long after it was first seen at work; whether it still was."""
        return bool(self._ask(f"lose {delay}")["was_at_work"])

    def close(self) -> None:
        """Ends all of its processes."""
        self._process.communicate("end\n", timeout=_SECONDS_TO_WAIT)

    def _ask(self, line: str) -> dict[str, Any]:
        assert self._process.stdin is not None, "it was opened with a pipe"
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._told()

    def _told(self) -> dict[str, Any]:
        assert self._process.stdout is not None, "it was opened with a pipe"
        told: dict[str, Any] = json.loads(self._process.stdout.readline())
        return told


def is_there() -> bool:
    """Whether Ray is installed; importing it would be too much."""
    return importlib.util.find_spec("ray") is not None


def main() -> None:
    """The cluster's own process."""
    from tests.engine.clusters import ONE_CORE, lose, two_nodes

    with two_nodes() as cluster:
        environment = {name: value for name, value in os.environ.items() if name.startswith("RAY_")}
        _say(address=cluster.address, environment=environment)
        for line in sys.stdin:
            order, *numbers = line.split()
            others = [node for node in cluster.list_all_nodes() if not node.head]
            if order == "end":
                return
            if order == "restore":
                if not others:
                    cluster.add_node(**ONE_CORE)
                    cluster.wait_for_nodes()
                _say()
            else:
                was_at_work = _wait_for_work(others[0], float(numbers[0]))
                lose(cluster, others[0])
                _say(was_at_work=was_at_work)


def _say(**told: Any) -> None:
    print(json.dumps(told), flush=True)


def _wait_for_work(node: Any, delay: float) -> bool:
    """Whether the node is at work, `delay` seconds after it was first seen to be."""
    raylet, ends = node.all_processes["raylet"][0].process.pid, time.monotonic() + _SECONDS_TO_WAIT
    while not _is_at_work(raylet):
        if time.monotonic() > ends:
            return False
        time.sleep(0.02)
    time.sleep(delay)
    return _is_at_work(raylet)


def _is_at_work(raylet: int) -> bool:
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            if parent == raylet and (path.parent / "cmdline").read_bytes().startswith(_AT_WORK):
                return True
        except OSError:
            continue  # it ended meanwhile
    return False


if __name__ == "__main__":
    main()
