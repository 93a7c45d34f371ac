"""The kinds of faults: each a context in which something has gone wrong with a folder."""

from __future__ import annotations

import errno
import itertools
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

import numpy as np

from leakscope.bank import bank as bank_module
from leakscope.disk import lock as lock_module
from tests.faults import ray_cluster
from tests.faults.injections import Case, Ending, Expected, Outcome, Process, verified
from tests.faults.kill_points import MOMENTS
from tests.faults.lost_nodes import ray_node_lost

Fault = Callable[[np.random.Generator, Case, Expected, Path, Outcome], AbstractContextManager[None]]
_KILLED = (-signal.SIGKILL, 9)
_CHECKED = ("signals", "design.npy", "labels.npy", "columns.npy", "units.npy", "identity.json",
            "manifest.json", "results.json", "experiments")  # fmt: skip


@contextmanager
def kill_at_time(
    rng: np.random.Generator, case: Case, expected: Expected, folder: Path, outcome: Outcome
) -> Iterator[None]:
    """`kill -9` at any moment; early ones more often, as the machine may be less busy by now."""
    process, moment = Process(lambda: case.run(folder)), rng.random() ** 2 * expected.seconds
    time.sleep(moment)
    process.kill()
    code = process.wait().code
    outcome.detail, outcome.struck = f"after {moment:.2f} s: {code}", code in _KILLED
    yield


@contextmanager
def kill_at_write(
    rng: np.random.Generator, case: Case, expected: Expected, folder: Path, outcome: Outcome
) -> Iterator[None]:
    """`kill -9` at a write, a rename or a removal."""
    outcome.detail, outcome.struck = _killed_at_write(rng, case, expected, folder)
    yield


@contextmanager
def full_disk_injected(
    rng: np.random.Generator, case: Case, expected: Expected, folder: Path, outcome: Outcome
) -> Iterator[None]:
    """From some write on the disk is full."""
    at = int(rng.integers(expected.n_writes))

    def run() -> None:
        original, count = os.fsync, itertools.count()

        def fsync(number: int) -> None:
            if next(count) >= at:
                raise OSError(errno.ENOSPC, "No space left on device")
            original(number)

        os.fsync = fsync
        case.run(folder)

    outcome.detail = f"from write {at} on"
    _expect_full_disk(Process(run).wait(), outcome)
    yield


@contextmanager
def full_disk_tmpfs(
    rng: np.random.Generator, case: Case, expected: Expected, folder: Path, outcome: Outcome
) -> Iterator[None]:
    """A real small disk that runs full, and is made larger afterwards."""
    n_bytes = sum(map(len, expected.contents.values()))
    size = 4096 * int(rng.integers(1, max(2, n_bytes // 4096)))
    _mount(folder.parent, f"size={size}")
    try:
        outcome.detail = f"{size} bytes"
        _expect_full_disk(Process(lambda: case.run(folder)).wait(), outcome)
        subprocess.run(["mount", "-o", "remount,size=64m", folder.parent], check=True)
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder.parent], check=True)


def damaged_files(how: str) -> Fault:
    """A file of an unfinished or finished run is cut off, changed, zeroed or gone."""

    @contextmanager
    def damage(
        rng: np.random.Generator, case: Case, expected: Expected, folder: Path, outcome: Outcome
    ) -> Iterator[None]:
        finished = bool(rng.random() < 0.6)
        if finished:
            assert Process(lambda: case.run(folder)).wait().code == 0
        else:
            _killed_at_write(rng, case, expected, folder)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        if files:
            path = files[int(rng.integers(len(files)))]
            name, before = str(path.relative_to(folder)), path.read_bytes()
            _harm(rng, path, how)
            outcome.detail = f"{name} of a {'finished' if finished else 'killed'} run"
            is_changed = outcome.struck = not path.exists() or path.read_bytes() != before
            is_vouched_for = any(part in _CHECKED for part in Path(name).parts)
            if finished and is_changed and is_vouched_for and not verified(folder):
                outcome.problems.append(f"verify did not notice that {name} was harmed")
        yield

    return damage


@contextmanager
def clock_jumps(
    rng: np.random.Generator, case: Case, expected: Expected, folder: Path, outcome: Outcome
) -> Iterator[None]:
    """The clock jumps by up to twenty years at some write; the run is killed later, its files misdated."""
    days, at = float(rng.uniform(-7300, 7300)), int(expected.n_writes * rng.random() ** 3)  # before the kill
    jumped = folder.parent / "jumped"

    def jump() -> None:
        class Jumped(datetime):
            @classmethod
            def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
                return datetime.now(tz) + timedelta(days=days)

        jumped.touch()
        bank_module.datetime = lock_module.datetime = Jumped  # type: ignore[misc, attr-defined]
        now = time.time
        time.time = lambda: now() + days * 86_400

    detail, killed = _killed_at_write(rng, case, expected, folder, before=lambda: _at_write(at, jump))
    outcome.struck = killed and jumped.exists()
    for path in folder.rglob("*") if folder.exists() else ():
        moment = max(0.0, time.time() + float(rng.uniform(-7300, 7300)) * 86_400)
        os.utime(path, (moment, moment))
    outcome.detail = f"by {days:.0f} days at write {at}, {detail}"
    yield


@contextmanager
def two_at_once(
    rng: np.random.Generator, case: Case, expected: Expected, folder: Path, outcome: Outcome
) -> Iterator[None]:
    """A second run starts in the folder while the first is at work."""
    wait = rng.random() ** 2 * expected.seconds
    first = Process(lambda: case.run(folder))
    time.sleep(wait)
    second = Process(lambda: case.run(folder))
    endings = first.wait(), second.wait()
    outcome.detail = f"{wait:.2f} s apart: {[ending.code for ending in endings]}"
    outcome.struck = any(ending.code for ending in endings)
    named = [(endings[0], second.pid), (endings[1], first.pid)]
    for ending, other in named:
        if ending.code and not (ending.code == 3 and f"in use by another run (pid {other} on" in ending.said):
            outcome.problems.append(f"of two at once one ended with {ending}")
    if not any(ending.code == 0 for ending in endings):
        outcome.problems.append(f"neither got through: {endings}")
    yield


@contextmanager
def worker_killed(
    rng: np.random.Generator, case: Case, expected: Expected, folder: Path, outcome: Outcome
) -> Iterator[None]:
    """One of the processes that fit estimators dies."""
    process = Process(lambda: case.run(folder))
    delay = rng.random() * expected.seconds
    killed = _kill_a_child(process.pid, delay)
    ending = process.wait()
    outcome.detail = f"worker {'killed' if killed else 'gone'} after {delay:.2f} s: {ending.code}"
    outcome.struck = killed
    if ending.code not in (0, 3):
        outcome.problems.append(f"a dead worker ended the run with {ending}")
    yield


KINDS: dict[str, Fault] = {
    "kill -9 at a time": kill_at_time,
    "kill -9 at a write": kill_at_write,
    "full disk, injected": full_disk_injected,
    "full disk, tmpfs": full_disk_tmpfs,
    "file truncated": damaged_files("truncated"),
    "file changed": damaged_files("changed"),
    "file zeroed": damaged_files("zeroed"),
    "file removed": damaged_files("removed"),
    "clock jumps": clock_jumps,
    "two runs at once": two_at_once,
    "worker killed": worker_killed,
    "Ray node lost": ray_node_lost,
}
PLACES = {"worker killed": "processes", "Ray node lost": "ray"}
"""Where models must be trained for a kind of fault to happen; the others happen to what is trained here."""


def why_not(kind: str) -> str | None:
    """Why a kind of fault cannot be tried on this machine; None when it can."""
    if kind == "full disk, tmpfs" and not _can_mount():
        return "this process may not mount a disk"
    if kind == "Ray node lost" and not ray_cluster.is_there():
        return "Ray is not installed"
    return None


def _killed_at_write(
    rng: np.random.Generator, case: Case, expected: Expected, folder: Path, before: Callable[[], None] = int
) -> tuple[str, bool]:
    moment = list(MOMENTS)[int(rng.integers(len(MOMENTS)))]
    at = int(rng.integers(expected.n_writes))

    def run() -> None:
        before()
        MOMENTS[moment](at)
        case.run(folder)

    ending = Process(run).wait()
    assert ending.code in (0, *_KILLED), f"the run itself failed: {ending}"
    return f"killed {moment} {at}: {ending.code}", ending.code in _KILLED


def _at_write(at: int, happens: Callable[[], None]) -> None:
    original, count = os.fsync, itertools.count()

    def fsync(number: int) -> None:
        if next(count) == at:
            happens()
        original(number)

    os.fsync = fsync


def _expect_full_disk(ending: Ending, outcome: Outcome) -> None:
    is_told = ending.code == 3 and "cannot write" in ending.said and "the disk is full" in ending.said
    if ending.code and not is_told:
        outcome.problems.append(f"a full disk ended with {ending}")
    outcome.detail, outcome.struck = f"{outcome.detail}: {ending.code}", is_told


def _harm(rng: np.random.Generator, path: Path, how: str) -> None:
    content = bytearray(path.read_bytes())
    if how == "removed":
        path.unlink()
        return
    if how == "truncated":
        del content[int(rng.integers(len(content) + 1)) :]
    elif how == "zeroed":  # what a power cut leaves of a page that was never written
        start = int(rng.integers(len(content) + 1))
        content[start:] = bytes(len(content) - start)
    else:
        for at in rng.integers(len(content), size=int(rng.integers(1, 9))) if content else ():
            content[at] ^= int(rng.integers(1, 256))
    path.write_bytes(content)


def _kill_a_child(pid: int, delay: float) -> bool:
    """Kills a worker of the process, the first that is there after `delay` seconds."""
    time.sleep(delay)
    for _ in range(200):
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = path.read_text().rpartition(")")[2].split()
                is_worker = b"loky" in (path.parent / "cmdline").read_bytes()
            except OSError:
                continue
            if int(fields[1]) == pid and is_worker and b"resource_tracker" not in _command(path.parent):
                os.kill(int(path.parent.name), signal.SIGKILL)
                return True
        if not Path(f"/proc/{pid}").exists() or _is_zombie(pid):
            return False
        time.sleep(0.01)
    return False


def _command(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def _can_mount() -> bool:
    if os.geteuid() != 0:
        return False
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "leakscope-test", folder],
                              capture_output=True)  # fmt: skip
        if done.returncode == 0:
            subprocess.run(["umount", folder], check=True)
        return done.returncode == 0


def _mount(at: Path, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "leakscope-test", at], check=True)
