"""Compiles `perceptrons.c` once per machine, with the C compiler that is there, and loads it.

The library lies in the cache folder, under a name derived from what it was compiled from. It is used only
after it has reproduced torch's numbers on this machine. Without a compiler, or where anything fails, there is
no library, and torch trains the same models. `LEAKSCOPE_COMPILE=0` turns it off.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from importlib import resources
from pathlib import Path

import torch

from leakscope.disk.cache import cache_folder

SWITCH = "LEAKSCOPE_COMPILE"
_FLAGS = ("-O3", "-std=gnu11", "-fPIC", "-shared", "-fno-math-errno", "-fno-trapping-math")
_FLAGS_OF_MACHINES = {"x86_64": ("-mavx2", "-mfma"), "aarch64": (), "arm64": ()}
"""Machines whose vectors are wide enough to beat torch -> flags. None for one processor only: machines of a
cluster may share the cache folder."""
_SECONDS_TO_COMPILE = 60

Check = Callable[[ctypes.CDLL], bool]
"""Whether a library gives the right numbers."""


def library(check: Check) -> ctypes.CDLL | None:
    """The compiled library, from the cache folder; None where there is none."""
    return None if os.environ.get(SWITCH) == "0" else _library(check)


@cache
def _library(check: Check) -> ctypes.CDLL | None:
    return load(cache_folder() / "compiled", check)


def load(folder: Path, check: Check) -> ctypes.CDLL | None:
    """The library in `folder`, compiled where it is not there yet; None where that is impossible."""
    machine, capability = platform.machine(), torch.backends.cpu.get_cpu_capability()
    has_vectors = machine != "x86_64" or capability.startswith("AVX")
    if os.name != "posix" or machine not in _FLAGS_OF_MACHINES or not has_vectors:
        return None
    flags = (*_FLAGS, *_FLAGS_OF_MACHINES[machine])
    source = resources.files("leakscope.train").joinpath("perceptrons.c").read_bytes()
    digest = hashlib.sha256(source + " ".join((platform.system(), machine, *flags)).encode()).hexdigest()
    try:
        return _loaded(folder / f"perceptrons-{digest[:16]}.so", flags, source, check)
    except (OSError, subprocess.SubprocessError):
        return None


def _loaded(path: Path, flags: tuple[str, ...], source: bytes, check: Check) -> ctypes.CDLL | None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _is_ours(path.parent) or (path.exists() and not _is_ours(path)):
        return None
    if path.exists():
        return ctypes.CDLL(str(path)) if path.stat().st_size else None
    compiler = shutil.which(os.environ.get("CC") or "cc")
    return None if compiler is None else _compiled(compiler, flags, source, path, check)


def _compiled(
    compiler: str, flags: tuple[str, ...], source: bytes, path: Path, check: Check
) -> ctypes.CDLL | None:
    """Compiles and checks; a library that fails the check leaves an empty file: nobody tries again."""
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        text, made = Path(scratch) / "perceptrons.c", Path(scratch) / path.name
        text.write_bytes(source)
        command = [compiler, *flags, "-o", str(made), str(text), "-lm"]
        subprocess.run(command, check=True, capture_output=True, timeout=_SECONDS_TO_COMPILE)
        loaded = ctypes.CDLL(str(made))
        if check(loaded):
            made.replace(path)
            return loaded
        (unusable := Path(scratch) / "unusable").touch()
        unusable.replace(path)
    return None


def _is_ours(path: Path) -> bool:
    """Nobody else can have written there: what is loaded from it runs as us."""
    status = path.stat()
    return status.st_uid == os.getuid() and not status.st_mode & 0o022
