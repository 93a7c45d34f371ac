"""The machine: processor, memory, GPU, folders that can be written, datasets that are there."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

_SECONDS = 120
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS")
_GPUS = """
import json, torch
cuda = torch.cuda
gpus = [cuda.get_device_properties(i) for i in range(cuda.device_count())] if cuda.is_available() else []
print("leakscope-doctor " + json.dumps({
    "gpus": [f"{gpu.name}, {gpu.total_memory / 1e9:.0f} GB" for gpu in gpus],
    "threads": torch.get_num_threads(), "cuda": torch.version.cuda}))
"""
_MARK = "leakscope-doctor "
_UNLIMITED = 1 << 60  # bytes; cgroups write a limit above this where there is none


@dataclass(frozen=True)
class Machine:
    """Where leakscope runs.

    Attributes:
        system: operating system and processor.
        cores: processor cores that this process may use.
        thread_settings: environment variables that limit threads.
        torch_threads: threads that torch uses; None: torch does not respond.
        memory_bytes: main memory that this process may use; None: unknown.
        gpus: GPUs that torch can use.
        gpu_remark: why there is none; empty where there is one.
    """

    system: str
    cores: int
    thread_settings: dict[str, str]
    torch_threads: int | None
    memory_bytes: int | None
    gpus: tuple[str, ...]
    gpu_remark: str


@dataclass(frozen=True)
class Folder:
    """A folder that leakscope writes to; `problem` says why it cannot, and is empty where it can."""

    path: str
    purpose: str
    free_bytes: int | None
    problem: str
    is_needed: bool


@dataclass(frozen=True)
class Datasets:
    """The data folder: datasets whose files are there, and the others."""

    folder: str
    present: tuple[str, ...]
    absent: tuple[str, ...]
    problem: str


def look_at_machine() -> Machine:
    """What this process may use."""
    threads, gpus, remark = _torch_facts()
    return Machine(
        f"{platform.system()} {platform.release()}, {platform.machine()}",
        _cores(),
        {name: os.environ[name] for name in _THREAD_VARIABLES if name in os.environ},
        threads,
        _memory(),
        gpus,
        remark,
    )


def look_at_folders() -> list[Folder]:
    """The current folder, where runs go, and the folder of temporary files, through which tables are read."""
    return [
        _folder(Path.cwd(), "run folders, by default in runs/", is_needed=False),
        _folder(Path(tempfile.gettempdir()), "temporary files", is_needed=True),
    ]


def look_at_datasets(data_dir: Path | None) -> Datasets:
    """Which published datasets are in the data folder."""
    try:
        from leakscope.data.catalogue import DATASETS
        from leakscope.data.published import data_root

        root = data_root(data_dir)
        present = tuple(entry.name for entry in DATASETS if entry.is_present(root))
        absent = tuple(entry.name for entry in DATASETS if entry.name not in present)
        return Datasets(str(root), present, absent, "")
    except Exception as error:  # whatever is broken, the other lines are still worth reading
        return Datasets("", (), (), f"cannot be listed ({type(error).__name__}: {error})")


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory() -> int | None:
    """The machine's memory, or less where a container may use less."""
    limits = []
    with contextlib.suppress(AttributeError, ValueError, OSError):  # not on Windows
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(file).read_text().strip()
        except OSError:
            continue
        if text.isdigit() and int(text) < _UNLIMITED:
            limits.append(int(text))
    return min(limits) if limits else None


def _torch_facts() -> tuple[int | None, tuple[str, ...], str]:
    """Threads and GPUs as torch sees them, from a process of its own: drivers can end one."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", _GPUS], capture_output=True, text=True, errors="replace", timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, (), f"torch does not respond ({type(error).__name__})"
    lines = [line.removeprefix(_MARK) for line in done.stdout.splitlines() if line.startswith(_MARK)]
    if not lines:
        return None, (), "torch cannot be imported, so its devices are unknown"
    facts = json.loads(lines[-1])
    remark = "" if facts["gpus"] else "torch sees none, so audits run on the CPU"
    if not facts["gpus"] and facts["cuda"] is None:
        remark = "this build of torch is for the CPU only, so audits run on the CPU"
    return int(facts["threads"]), tuple(facts["gpus"]), remark


def _folder(path: Path, purpose: str, is_needed: bool) -> Folder:
    problem, free = "", None
    try:
        with tempfile.NamedTemporaryFile(dir=path) as file:
            file.write(b"leakscope")
        free = shutil.disk_usage(path).free
    except OSError as error:
        remedy = "set TMPDIR to another folder" if is_needed else "give another folder with --out"
        problem = f"cannot be written ({error.strerror}); {remedy}"
    return Folder(str(path), purpose, free, problem, is_needed)
