"""An audit on a cluster of two nodes, one of which is lost on the way; and clusters that are not there."""

from __future__ import annotations

import builtins
import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leakscope.audits.run import audit
from leakscope.data.registry import load
from leakscope.engine import request
from leakscope.engine.local import engine_named
from leakscope.errors import InputError, TrainingError
from leakscope.recipe import FunctionRecipe, Recipe
from tests.engine.clusters import ONE_CORE, lose, two_nodes
from tests.engine.functions import centroids, slow
from tests.engine.small_population import complete, use_blocks_of

N_MODELS, N_BLOCKS = 40, 10
RECIPE = Recipe(net_options=(("width", 256),), epochs=8)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with two_nodes() as nodes:
        yield nodes


@pytest.fixture
def second(cluster: Any) -> Iterator[Any]:
    """A node beside the head. All are connected and have a process with torch, so that both train at once."""
    import ray

    others = [node for node in cluster.list_all_nodes() if not node.head]
    node = others[0] if others else cluster.add_node(**ONE_CORE)
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, logging_level="error", log_to_driver=False)
    _load_torch(cluster)
    yield node
    ray.shutdown()


@pytest.mark.slow
def test_units_that_are_lost_with_their_node_are_trained_elsewhere(
    tmp_path: Path, cluster: Any, second: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Models that take three seconds each: one is at work on the node when it is lost, whatever the load."""
    from leakscope.engine.ray_engine import RayPool

    monkeypatch.setattr(request, "MODELS_PER_BLOCK", 1)
    failures = _record_failures(monkeypatch, RayPool)
    engine = engine_named("ray", cluster.address)
    with Loss(cluster, second, tmp_path / "ray", seconds=1.0) as loss:
        complete(tmp_path / "ray", FunctionRecipe(slow(3.0)), engine=engine)
    assert loss.blocks_before is not None
    assert failures
    complete(tmp_path / "local", FunctionRecipe(centroids))
    for name in ("correct", "log_odds", "loss"):
        file = f"signals/{name}.npy"
        assert (tmp_path / "ray" / file).read_bytes() == (tmp_path / "local" / file).read_bytes()


@pytest.mark.slow
def test_a_digits_audit_that_loses_a_node_ends_as_the_local_one(
    tmp_path: Path, cluster: Any, second: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_blocks_of(monkeypatch, N_MODELS // N_BLOCKS)
    records = load("digits")
    audit(records, RECIPE, tmp_path / "local", models=N_MODELS, device="cpu")
    where, done = {"engine": "ray", "address": cluster.address}, list[float]()
    with Loss(cluster, second, tmp_path / "ray", seconds=0.0) as loss:
        audit(records, RECIPE, tmp_path / "ray", models=N_MODELS, device="cpu", progress=done.append, **where)
    assert loss.blocks_before is not None
    assert 1 <= loss.blocks_before < N_BLOCKS
    manifest = json.loads((tmp_path / "ray" / "manifest.json").read_text())
    trained_by = {block["node"] for block in manifest["blocks"]}
    assert len(trained_by) == 2
    assert second.node_id in trained_by
    assert sum(done) == pytest.approx(N_MODELS)
    assert (tmp_path / "ray/results.json").read_bytes() == (tmp_path / "local/results.json").read_bytes()


@pytest.mark.slow
def test_a_connection_made_for_a_run_is_closed_after_it(cluster: Any) -> None:
    import ray

    engine = engine_named("ray", cluster.address)
    engine.check_device("cpu")
    with pytest.raises(InputError, match="no node of the cluster has a GPU"):
        engine.check_device("cuda")
    assert not ray.is_initialized()


class Loss:
    """Loses a node so many seconds after a block that it trained was seen on disk, from a thread.

    Not from a progress call: those come when units end, which is just when the node is at none.
    """

    def __init__(self, cluster: Any, node: Any, folder: Path, seconds: float) -> None:
        self._cluster, self._node, self._folder, self._seconds = cluster, node, folder, seconds
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.blocks_before: int | None = None

    def __enter__(self) -> Loss:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while self._node.node_id not in self._trained_by():
            if self._is_over.wait(0.05):
                return
        if not self._is_over.wait(self._seconds):
            self.blocks_before = len(self._trained_by())
            lose(self._cluster, self._node)

    def _trained_by(self) -> list[str]:
        notes = self._folder.glob("blocks/[0-9]*/notes.json")
        return [json.loads(path.read_text())["node"] for path in notes]


def test_a_cluster_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="Ray is not installed (pip install 'leakscope[ray]')")
    monkeypatch.setattr("ray.init", _refused)
    with pytest.raises(InputError) as error:
        engine_named("ray", "10.0.0.1:6379").check_device("cpu")
    assert str(error.value) == (
        "address='10.0.0.1:6379': no Ray cluster responds (nobody there); start one with `ray start --head`"
    )


def test_a_missing_ray_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without_ray(name: str, *more: Any, **named: Any) -> Any:
        if name == "ray":
            raise ImportError("No module named 'ray'")
        return imported(name, *more, **named)

    monkeypatch.setattr(builtins, "__import__", without_ray)
    with pytest.raises(InputError, match=r"pip install 'leakscope\[ray\]'"):
        engine_named("ray").check_device("cpu")


@pytest.mark.parametrize(
    ("device", "named"),
    [
        ("tpu", "device='tpu' is unknown"),
        ("cuda:1", "a cluster's GPUs have no numbers; use 'cuda'"),
    ],
)
def test_a_device_that_no_cluster_has_is_named(device: str, named: str) -> None:
    with pytest.raises(InputError) as error:
        engine_named("ray").check_device(device)
    assert named in str(error.value)


def _load_torch(cluster: Any) -> None:
    """On every node."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    def load() -> None:
        import leakscope.engine.ray_engine  # noqa: F401

    places = [NodeAffinitySchedulingStrategy(n.node_id, soft=False) for n in cluster.list_all_nodes()]
    ray.get([ray.remote(load).options(scheduling_strategy=place).remote() for place in places])


def _refused(**_: Any) -> None:
    raise ConnectionError("nobody there\nand more")


def _record_failures(monkeypatch: pytest.MonkeyPatch, pool: Any) -> list[str]:
    failures: list[str] = []
    completed = pool.completed

    def recorded(self: Any, seconds: float) -> Any:
        outcomes = completed(self, seconds)
        failures.extend(outcome.failure for outcome in outcomes if outcome.trained is None)
        return outcomes

    monkeypatch.setattr(pool, "completed", recorded)
    return failures


@pytest.fixture
def server() -> Iterator[Any]:
    """Starts servers that are no Ray cluster: each sends the same to whoever connects, `then` slowly."""
    sockets = []

    def started(sent: bytes, then: bytes = b"") -> str:
        listening = socket.create_server(("127.0.0.1", 0))
        sockets.append(listening)

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    sockets.append(connection)
                    connection.sendall(sent)
                    for byte in then:
                        time.sleep(0.5)
                        connection.sendall(bytes([byte]))

        threading.Thread(target=serve, daemon=True).start()
        return f"127.0.0.1:{listening.getsockname()[1]}"

    yield started
    for one in sockets:
        one.close()


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A frame of HTTP/2."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


SETTINGS = frame(4, 0, 0)
SOON = 25  # seconds, also on a busy machine; Ray itself would try for 30 or more
SOMETHING_ELSE = {
    "silent": b"",
    "HTTP/1.1": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "SSH": b"SSH-2.0-OpenSSH_9.6\r\n",
}
HTTP2 = {
    "HTTP/2 that never responds": SETTINGS,
    "gRPC without the method": SETTINGS + frame(1, 4 | 1, 1, b"\x88"),
    "web page": SETTINGS + frame(1, 4, 1, b"\x8d") + frame(0, 1, 1),
    "HTTP/2 that resets": SETTINGS + frame(3, 0, 1, bytes(4)),
    "HTTP/2 that leaves": SETTINGS + frame(7, 0, 0, bytes(8)),
    "endless pings": SETTINGS + 100_000 * frame(6, 0, 0, bytes(8)),
    "a frame that never ends": SETTINGS + frame(1, 4, 1, bytes(9))[:-1],
}


@pytest.mark.parametrize(
    ("sent", "scheme"),
    [
        *(pytest.param(sent, scheme, id=name + scheme) for name, sent in SOMETHING_ELSE.items()
          for scheme in ("", "ray://")),
        *(pytest.param(sent, "", id=name) for name, sent in HTTP2.items()),
    ],
)  # fmt: skip
def test_an_address_where_something_else_listens_is_refused_soon(
    server: Any, sent: bytes, scheme: str
) -> None:
    started = time.monotonic()
    with pytest.raises(InputError, match="no Ray cluster responds") as refused:
        engine_named("ray", scheme + server(sent)).check_device("cpu")
    assert time.monotonic() - started < SOON
    assert "\n" not in str(refused.value)


def test_a_server_that_sends_a_byte_now_and_then_is_refused_soon(server: Any) -> None:
    started = time.monotonic()
    with pytest.raises(InputError, match="no Ray cluster responds"):
        engine_named("ray", server(SETTINGS[:8], then=bytes(60))).check_device("cpu")
    assert time.monotonic() - started < SOON


@pytest.mark.parametrize(
    "address", ["127.0.0.1:1", "no.such.host.invalid:6379", "nonsense", ":6379", "host:"]
)
def test_an_address_where_nothing_listens_is_refused_soon(address: str) -> None:
    started = time.monotonic()
    with pytest.raises(InputError, match="no Ray cluster responds"):
        engine_named("ray", address).check_device("cpu")
    assert time.monotonic() - started < SOON


class UnsendableError(Exception):
    """Holds a lock, which cannot be pickled."""

    def __init__(self) -> None:
        super().__init__("the label is missing")
        self.lock = threading.Lock()


class TwoArgumentsError(Exception):
    """Can be pickled, but not unpickled."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what} is {why}")


@pytest.mark.parametrize("error", [UnsendableError(), TwoArgumentsError("the label", "missing")])
def test_an_error_that_cannot_be_sent_still_says_what_it_is(error: Exception) -> None:
    from leakscope.engine.ray_engine import _sendable_errors

    named = f"training raised {type(error).__name__}: the label is missing"
    with pytest.raises(TrainingError, match=named), _sendable_errors():
        raise error
    with pytest.raises(KeyError, match="label"), _sendable_errors():
        raise KeyError("label")


OWN_CODE = """
import time, os, pathlib
def train(records, indices, seed):
    pathlib.Path("{}/started-" + str(os.getpid())).touch()
    time.sleep(600)
"""
_AUDIT = """
import sys
from leakscope.engine import ray_engine
from leakscope.cli.main import main
ray_engine._SECONDS_WITHOUT_HEAD = 5.0
main()
"""


@pytest.mark.slow
def test_a_lost_head_is_no_failed_gate(tmp_path: Path) -> None:
    """Ray ends a process that has lost its head with exit code 1, after a minute."""
    (tmp_path / "slow.py").write_text(OWN_CODE.format(tmp_path))
    (tmp_path / "slow.toml").write_text(
        "[data]\ndataset = 'digits'\n[model]\ntrain = 'slow:train'\n[population]\nmodels = 2\n"
    )
    with two_nodes() as nodes:
        command = [sys.executable, "-c", _AUDIT, "audit", "slow.toml", "--engine", "ray"]
        command += ["--address", nodes.address, "--quiet"]
        ended = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        while not list(tmp_path.glob("started-*")):
            assert ended.poll() is None, ended.communicate()
            time.sleep(0.5)
        for process in nodes.head_node.all_processes["gcs_server"]:
            process.process.kill()
        _, said = ended.communicate(timeout=50)
    assert ended.returncode == 3, said
    assert "has been gone for 5 s" in said and len(said.splitlines()) == 1
