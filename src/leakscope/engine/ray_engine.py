"""Units of models as tasks of a Ray cluster (Moritz et al. 2018, https://docs.ray.io).

The records are put into the cluster's object store once. The driver commits what comes back through the
ordinary bank, so a bank made by a cluster is the one this machine would have made. A task asks for as many
CPUs as the unit would have had threads here (the last bits of an answer depend on that), or for one GPU.

Ray's own retries are off: a unit lost with its process or node is given out again by `schedule.py`, which
counts, while Ray would start a task that runs out of memory again without end.
"""

from __future__ import annotations

import logging
import pickle
import sys
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

import leakscope
from leakscope.engine.local import Blocks, threads_apart
from leakscope.engine.request import check_device_name
from leakscope.engine.schedule import Outcome, run_units
from leakscope.engine.worker import (
    Job,
    Trained,
    Unit,
    Worker,
    sendable,
    threads_limited,
    trains_serially,
    units_of,
    why_not_sendable,
    worker_for,
)
from leakscope.errors import InputError, TrainingError
from leakscope.recipe import AnyRecipe, Recipe
from leakscope.train.loop import Progress
from leakscope.types import Design, Records

_IN_FLIGHT = 2  # units a slot of the cluster: one at work, one waiting for it
_SECONDS_WITHOUT_NODES = 60.0
_SECONDS_BETWEEN_NEWS = 1.0


class Needs(NamedTuple):
    """What one task asks for."""

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

    def trained(self, job: Job, blocks: Blocks, progress: Progress) -> Iterator[tuple[Unit, Trained]]:
        """Trains the blocks on the cluster's nodes."""
        reason = why_not_sendable(job.recipe)
        if reason is not None:
            raise InputError(f"the recipe cannot be sent to a cluster ({reason}); define it in a module")
        with _connected(self.address) as ray:
            on_gpu = isinstance(job.recipe, Recipe) and job.device != "cpu" and _n_gpus(ray) > 0
            apart = trains_serially(job, on_cpu=not on_gpu)
            units = [unit for b, models in blocks for unit in units_of(b, models, apart)]
            with RayCrew(ray, job, _needs(ray, job, apart, on_gpu)) as crew:
                yield from run_units(crew, units, progress)


class RayCrew:
    """Tasks in flight on a cluster; leaving the context cancels them."""

    def __init__(self, ray: Any, job: Job, needs: Needs) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self._ray, self._needs = ray, needs
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
        self._board = ray.remote(_Board).options(num_cpus=0, scheduling_strategy=here).remote()
        self._arrays = ray.put((job.records, job.design))
        rest = sendable(_Rest(job.recipe, job.seed, job.kept, job.device))
        errand = _Errand(uuid.uuid4().hex, needs, leakscope.__version__, tuple(sys.path), rest)
        task = ray.remote(max_calls=0)(_train).options(  # 0: processes keep their worker between units
            num_cpus=needs.cpus, num_gpus=needs.gpus, max_retries=0, scheduling_strategy="SPREAD"
        )
        self._start: Callable[[Unit], Any] = lambda unit: task.remote(self._arrays, unit, errand, self._board)
        self._units: dict[Any, Unit] = {}
        self._seen_room = self._looked_at = self._asked_at = time.monotonic()
        self._room = self._slots()

    def __enter__(self) -> RayCrew:
        return self

    def __exit__(self, *_: object) -> None:
        for task in self._units:
            self._ray.cancel(task, force=True)
        self._ray.kill(self._board)

    def room(self) -> int:
        """Units that the nodes alive now can take; raises when there have been none for a while."""
        now = time.monotonic()
        if now - self._looked_at > _SECONDS_BETWEEN_NEWS:
            self._room, self._looked_at = self._slots(), now
        if self._room:
            self._seen_room = now
        elif now - self._seen_room > _SECONDS_WITHOUT_NODES:
            raise TrainingError(
                f"no node of the cluster has had {_named(self._needs)} for {_SECONDS_WITHOUT_NODES:.0f} s; "
                "add one with `ray start`, then run the same command again: it goes on where this run stopped"
            )
        return _IN_FLIGHT * self._room

    def give(self, unit: Unit) -> None:
        """Queues a task."""
        self._units[self._start(unit)] = unit

    def ended(self, seconds: float) -> list[Outcome]:
        """Tasks that have ended; those lost with their process or node are told as such."""
        if not self._units:
            time.sleep(seconds)
            return []
        ready, _ = self._ray.wait(list(self._units), num_returns=1, timeout=seconds)
        return [self._outcome(task) for task in ready]

    def done(self) -> Iterable[tuple[Unit, float]]:
        """What the tasks have told the board."""
        now = time.monotonic()
        if now - self._asked_at < _SECONDS_BETWEEN_NEWS:
            return []
        self._asked_at = now
        try:
            told: dict[Unit, float] = self._ray.get(self._board.told.remote(), timeout=_SECONDS_BETWEEN_NEWS)
        except self._ray.exceptions.RayError:
            return []  # progress is not worth a run
        return told.items()

    def _outcome(self, task: Any) -> Outcome:
        unit = self._units.pop(task)
        try:
            return Outcome(unit, self._ray.get(task))
        except self._ray.exceptions.RayTaskError as error:  # the unit's own mistake
            raise error.cause from error
        except self._ray.exceptions.RayError as error:
            return Outcome(unit, None, f"{type(error).__name__}: {str(error).strip().splitlines()[0]}")

    def _slots(self) -> int:
        """Units that could be at work at once."""
        return sum(_fits(node["Resources"], self._needs) for node in self._ray.nodes() if node["Alive"])


class _Board:
    """Where tasks tell how far they are; an actor on the driver's node."""

    def __init__(self) -> None:
        self._told: dict[Unit, float] = {}

    def tell(self, unit: Unit, models: float) -> None:
        self._told[unit] = models

    def told(self) -> dict[Unit, float]:
        return self._told


class _Rest(NamedTuple):
    """A job but for its arrays."""

    recipe: AnyRecipe
    seed: int
    kept: tuple[str, ...]
    device: str


class _Errand(NamedTuple):
    """What a task is told beside its unit; `rest` is pickled, since its modules are found by `paths` only."""

    key: str
    needs: Needs
    version: str
    paths: tuple[str, ...]
    rest: bytes


_workers: dict[str, Worker] = {}


def _train(arrays: tuple[Records, Design], unit: Unit, errand: _Errand, board: Any) -> Trained:
    """On a node: one unit. The process keeps its worker for the next unit of the same run."""
    if leakscope.__version__ != errand.version:
        raise InputError(
            f"a node of the cluster has leakscope {leakscope.__version__}, this machine {errand.version}; "
            "install the same version on all"
        )
    warnings.filterwarnings("ignore", message=".*not writable")  # arrays of the object store; nobody writes
    sys.path += [path for path in errand.paths if path not in sys.path]  # a module beside the config file
    last, done = time.monotonic(), 0.0

    def tell(models: float) -> None:
        nonlocal last, done
        done += models
        if time.monotonic() - last > _SECONDS_BETWEEN_NEWS / 2:
            last = time.monotonic()
            board.tell.remote(unit, done)

    with threads_limited(errand.needs.cpus):
        if errand.key not in _workers:
            _workers.clear()
            device = torch.device("cuda" if errand.needs.gpus else "cpu")
            rest: _Rest = pickle.loads(errand.rest)  # by this run's own driver
            job = Job(*arrays, rest.recipe, rest.seed, rest.kept, rest.device)
            _workers[errand.key] = worker_for(job, device, alone=False)
        trained = _workers[errand.key].trained(unit, tell)
    return trained._replace(node=_this_node())


def _this_node() -> str:
    import ray

    return str(ray.get_runtime_context().get_node_id())


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    """Ray, connected to the cluster; a connection that was there before is used and left as it is."""
    try:
        import ray
    except ImportError as error:
        raise InputError("engine='ray' needs Ray; install it with `pip install 'leakscope[ray]'`") from error
    if ray.is_initialized():
        yield ray
        return
    try:
        ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"address={address!r}: no Ray cluster answers there ({reason}); start one with `ray start --head`"
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _needs(ray: Any, job: Job, apart: bool, on_gpu: bool) -> Needs:
    """One GPU and a CPU to drive it; else as many CPUs as threads here, or as the largest node has."""
    if on_gpu:
        return Needs(1, 1)
    n_threads = threads_apart(job.design.n_models) if apart else torch.get_num_threads()
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
