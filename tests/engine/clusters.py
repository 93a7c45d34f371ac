"""A Ray cluster of two nodes on this machine, for tests."""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

ONE_CORE = {"num_cpus": 1, "object_store_memory": 80_000_000}
_TOKEN = secrets.token_hex(32)


@contextmanager
def two_nodes() -> Iterator[Any]:
    """Ray's own test cluster: a head and a node, one core each; skips where Ray is missing.

    Ray listens on all interfaces, and whoever reaches an open cluster can run code on it: hence the token.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("RAY_AUTH_MODE", "token")
        patched.setenv("RAY_AUTH_TOKEN", _TOKEN)
        patched.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patched.delenv("RAY_ADDRESS", raising=False)
        pytest.importorskip("ray", reason="Ray is not installed (pip install 'leakscope[ray]')")
        from ray.cluster_utils import Cluster

        cluster = Cluster(initialize_head=True, head_node_args={**ONE_CORE, "include_dashboard": False})
        try:
            cluster.add_node(**ONE_CORE)
            yield cluster
        finally:
            cluster.shutdown()


def lose(cluster: Any, node: Any) -> None:
    """A machine that is gone: all of the node's processes at once.

    Ray's own removal ends the raylet alone; its workers live on, and still deliver what they are at.
    """
    raylet = node.all_processes["raylet"][0].process.pid
    workers = [
        int(path.parent.name) for path in Path("/proc").glob("[0-9]*/status") if _parent(path) == raylet
    ]
    cluster.remove_node(node, allow_graceful=False)
    for worker in workers:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)


def _parent(status: Path) -> int | None:
    try:
        return int(status.read_text().partition("PPid:")[2].split()[0])
    except (OSError, IndexError):
        return None  # it ended meanwhile
