"""Units of models as tasks of a Ray cluster (Moritz et al. 2018, https://docs.ray.io).

The records are put into the cluster's object store once. The driver commits the results through the ordinary
bank, so a bank trained by a cluster equals the one this machine would have trained. A task requests as many
CPUs as the unit would have had threads here (the last bits of an output depend on that), or one GPU.

Ray's own retries are off. `schedule.py` submits a unit again when its process or node dies, and counts the
attempts; Ray would restart a task that runs out of memory without end.

A node that sees the run folder saves the state of networks in training there; on any other node, a unit that
is interrupted starts over.
"""

from __future__ import annotations

import logging
import os
import pickle
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch

import leakscope
from leakscope.bank.bank import IDENTITY
from leakscope.disk.saved_training import Saving
from leakscope.disk.storage import sha256_of
from leakscope.engine.local import Blocks, threads_per_model
from leakscope.engine.ray_probe import require_head, require_server
from leakscope.engine.request import TrainingRequest, check_device_name
from leakscope.engine.schedule import Outcome, run_units
from leakscope.engine.worker import (
    TrainedUnit,
    Unit,
    Worker,
    sendable,
    threads_limited,
    trains_serially,
    units_of,
    why_not_sendable,
)
from leakscope.errors import InputError, TrainingError, first_line
from leakscope.recipe import Recipe
from leakscope.train.block import Follow
from leakscope.types import Design, Records

_IN_FLIGHT = 2  # units per slot of the cluster: one running, one queued
_SECONDS_WITHOUT_NODES = 60.0
_SECONDS_WITHOUT_HEAD = 45.0  # Ray ends the process after 60, with the exit code of a failed gate
_POLL_SECONDS = 1.0


class Needs(NamedTuple):
    """What one task requests."""

    cpus: int
    gpus: int


@dataclass(frozen=True)
class RayEngine:
    """A Ray cluster.

    Attributes:
        address: "auto" (the cluster this machine is a node of), "HOST:PORT" of its head, or "ray://HOST:PORT".
    """

    address: str = "auto"
    name = "ray"

    def check_device(self, device: str) -> None:
        """Raises InputError when the cluster has no such device, or cannot be reached."""
        check_device_name(device)
        if ":" in device:
            raise InputError(f"device={device!r}: a cluster's GPUs have no numbers; use 'cuda'")
        with _connected(self.address) as ray:
            if device == "cuda" and not _n_gpus(ray):
                raise InputError("device='cuda': no node of the cluster has a GPU; use 'cpu' or 'auto'")

    def train_blocks(
        self, request: TrainingRequest, blocks: Blocks, follow: Follow
    ) -> Iterator[tuple[Unit, TrainedUnit]]:
        """Trains the blocks on the cluster's nodes."""
        reason = why_not_sendable(request.recipe)
        if reason is not None:
            raise InputError(f"the recipe cannot be sent to a cluster ({reason}); define it in a module")
        with _connected(self.address) as ray:
            on_gpu = isinstance(request.recipe, Recipe) and request.device != "cpu" and _n_gpus(ray) > 0
            one_per_model = trains_serially(request, None if on_gpu else torch.device("cpu"))
            units = [unit for b, models in blocks for unit in units_of(b, models, one_per_model)]
            needs = _needs(ray, request, one_per_model, on_gpu)
            with RayPool(ray, request, needs, follow.saving) as pool:
                yield from run_units(pool, units, follow.progress)


class RayPool:
    """Tasks in flight on a cluster; leaving the context cancels them."""

    def __init__(self, ray: Any, request: TrainingRequest, needs: Needs, saving: Saving | None) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self._ray, self._needs = ray, needs
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
        self._reports = ray.remote(_ProgressActor).options(num_cpus=0, scheduling_strategy=here).remote()
        self._arrays = ray.put((request.records, request.design))
        names = ("recipe", "seed", "signals", "device", "outputs", "queries")
        settings = sendable({name: getattr(request, name) for name in names})
        spec = _TaskSpec(uuid.uuid4().hex, needs, leakscope.__version__, tuple(sys.path), settings, saving)
        task = ray.remote(max_calls=0)(_train).options(  # 0: processes keep their worker between units
            num_cpus=needs.cpus, num_gpus=needs.gpus, max_retries=0, scheduling_strategy="SPREAD"
        )
        self._start: Callable[[Unit], Any] = lambda unit: task.remote(self._arrays, unit, spec, self._reports)
        self._units: dict[Any, Unit] = {}
        self._had_capacity_at = self._counted_at = self._polled_at = time.monotonic()
        self._n_slots = self._slots()

    def __enter__(self) -> RayPool:
        return self

    def __exit__(self, *_: object) -> None:
        for task in self._units:
            self._ray.cancel(task, force=True)
        self._ray.kill(self._reports)

    def capacity(self) -> int:
        """Units that the nodes now alive can take; raises when there has been no node for a while."""
        now = time.monotonic()
        if now - self._counted_at > _POLL_SECONDS:
            self._n_slots, self._counted_at = self._slots(), now
        if self._n_slots:
            self._had_capacity_at = now
        elif now - self._had_capacity_at > _SECONDS_WITHOUT_NODES:
            raise TrainingError(
                f"no node of the cluster has had {_named(self._needs)} for {_SECONDS_WITHOUT_NODES:.0f} s; "
                "add one with `ray start`, then run the same command again to resume"
            )
        return _IN_FLIGHT * self._n_slots

    def submit(self, unit: Unit) -> None:
        """Queues a task."""
        self._units[self._start(unit)] = unit

    def completed(self, seconds: float) -> list[Outcome]:
        """Tasks that have ended, or whose process or node has died."""
        if not self._units:
            time.sleep(seconds)
            return []
        ready, _ = self._ray.wait(list(self._units), num_returns=1, timeout=seconds)
        return [self._outcome(task) for task in ready]

    def models_done(self) -> Iterable[tuple[Unit, float]]:
        """The progress that the tasks have reported."""
        now = time.monotonic()
        if now - self._polled_at < _POLL_SECONDS:
            return []
        self._polled_at = now
        try:
            done: dict[Unit, float] = self._ray.get(self._reports.read.remote(), timeout=_POLL_SECONDS)
        except self._ray.exceptions.RayError:
            return []  # missing progress is no reason to end a run
        return done.items()

    def _outcome(self, task: Any) -> Outcome:
        unit = self._units.pop(task)
        try:
            return Outcome(unit, self._ray.get(task))
        except self._ray.exceptions.RayTaskError as error:  # the unit's own mistake
            raise error.cause from error
        except self._ray.exceptions.RayError as error:
            return Outcome(unit, None, f"{type(error).__name__}: {first_line(error)}")

    def _slots(self) -> int:
        """Units that could run at once."""
        return sum(_fits(node["Resources"], self._needs) for node in self._ray.nodes() if node["Alive"])


class _ProgressActor:
    """Collects the progress of tasks; an actor on the driver's node."""

    def __init__(self) -> None:
        self._done: dict[Unit, float] = {}

    def report(self, unit: Unit, models: float) -> None:
        self._done[unit] = models

    def read(self) -> dict[Unit, float]:
        return self._done


class _TaskSpec(NamedTuple):
    """What a task receives beside its unit; `settings` is pickled: unpickling it needs `paths`."""

    key: str
    needs: Needs
    version: str
    paths: tuple[str, ...]
    settings: bytes
    saving: Saving | None


_workers: dict[str, Worker] = {}


def _train(arrays: tuple[Records, Design], unit: Unit, spec: _TaskSpec, reports: Any) -> TrainedUnit:
    """On a node: trains one unit. The process keeps its worker for the next unit of the same run."""
    if leakscope.__version__ != spec.version:
        raise InputError(
            f"a node of the cluster has leakscope {leakscope.__version__}, this machine {spec.version}; "
            "install the same version on all"
        )
    warnings.filterwarnings("ignore", message=".*not writable")  # Ray's arrays are read-only
    sys.path += [path for path in spec.paths if path not in sys.path]  # a module beside the config file
    last, done = time.monotonic(), 0.0

    def report(models: float) -> None:
        nonlocal last, done
        done += models
        if time.monotonic() - last > _POLL_SECONDS / 2:
            last = time.monotonic()
            reports.report.remote(unit, done)

    with threads_limited(spec.needs.cpus):
        if spec.key not in _workers:
            _workers.clear()
            device = "cuda" if spec.needs.gpus else "cpu"
            settings = pickle.loads(spec.settings)  # by this run's own driver
            request = TrainingRequest(*arrays, **settings)
            _workers[spec.key] = Worker(request, device)
        saving = spec.saving if spec.saving is not None and _is_visible(spec.saving) else None
        with _sendable_errors():
            trained = _workers[spec.key].train_unit(unit, Follow(report, saving))
    return trained._replace(notes=replace(trained.notes, node=_this_node()))


def _is_visible(saving: Saving) -> bool:
    """True when this node sees the run folder: its own disk, or one it shares with the driver."""
    identity = saving.folder / IDENTITY
    return identity.is_file() and sha256_of(identity) == saving.bank


@contextmanager
def _sendable_errors() -> Iterator[None]:
    """Turns an error that cannot be sent, which Ray reports as a lost process, into one that can."""
    try:
        yield
    except Exception as error:  # a user's code may raise anything
        try:
            pickle.loads(sendable(error))
        except Exception:  # pickling runs the error's own code
            raise TrainingError(f"training raised {type(error).__name__}: {first_line(error)}") from None
        raise


def _this_node() -> str:
    import ray

    return str(ray.get_runtime_context().get_node_id())


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    """Ray, connected to the cluster; an existing connection is used and left open."""
    if address != "auto":
        _check_response(address, address)  # before Ray is imported, which takes seconds
    try:
        import ray
        from ray._private.services import canonicalize_bootstrap_address
    except ImportError as error:
        raise InputError("engine='ray' needs Ray; install it with `pip install 'leakscope[ray]'`") from error
    if ray.is_initialized():
        yield ray
        return
    try:
        head = None if address.startswith("ray://") else str(canonicalize_bootstrap_address(address))
        if head is not None:
            _check_response(address, head)
        ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise _no_cluster(address, error) from error
    ended = threading.Event()
    if head is not None:
        threading.Thread(target=_watch_head, args=(head, ended), daemon=True).start()
    try:
        yield ray
    finally:
        ended.set()
        ray.shutdown()


def _no_cluster(address: str, error: Exception) -> InputError:
    reason = f"no Ray cluster responds ({first_line(error)})"
    return InputError(f"address={address!r}: {reason}; start one with `ray start --head`")


def _check_response(address: str, head: str) -> None:
    """Raises InputError, which names `address`, unless a cluster is at `head`, HOST:PORT or ray://HOST:PORT."""
    try:
        if head.startswith("ray://"):  # the server of Ray's clients answers no call outside of a session
            require_server(head.removeprefix("ray://"))
        else:
            require_head(head)
    except (OSError, ValueError) as error:
        raise _no_cluster(address, error) from error


def _watch_head(head: str, ended: threading.Event) -> None:
    """Ends the process once the head is gone for good: every call of Ray's waits, then Ray ends it."""
    responded_at = time.monotonic()
    while not ended.wait(_POLL_SECONDS):
        try:
            require_server(head)
            responded_at = time.monotonic()
        except OSError:
            if time.monotonic() - responded_at > _SECONDS_WITHOUT_HEAD:
                break
    else:
        return
    line = f"leakscope: the head of the Ray cluster at {head} has been gone for {_SECONDS_WITHOUT_HEAD:.0f} s"
    print(f"{line}; start it again, then run the same command again to resume", file=sys.stderr, flush=True)
    os._exit(TrainingError.exit_code)


def _needs(ray: Any, request: TrainingRequest, one_per_model: bool, on_gpu: bool) -> Needs:
    """One GPU and a CPU to drive it; otherwise as many CPUs as threads here, or as the largest node has."""
    if on_gpu:
        return Needs(1, 1)
    n_threads = threads_per_model(request.design.n_models) if one_per_model else torch.get_num_threads()
    largest = max((int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]), default=1)
    return Needs(max(1, min(n_threads, largest)), 0)


def _n_gpus(ray: Any) -> int:
    return int(ray.cluster_resources().get("GPU", 0))


def _fits(resources: dict[str, float], needs: Needs) -> int:
    """Units that fit on a node at once."""
    by_cpu = int(resources.get("CPU", 0) // needs.cpus)
    return min(by_cpu, int(resources.get("GPU", 0) // needs.gpus)) if needs.gpus else by_cpu


def _named(needs: Needs) -> str:
    return f"{needs.cpus} CPUs" + (f" and {needs.gpus} GPU" if needs.gpus else "")
