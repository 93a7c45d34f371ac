"""Compiles the C files of this room once per machine, with the C compiler that is there, and loads them.

A library lies in the cache folder, under a name derived from what it was compiled from, beside a record of
its checksum. It is used only after it has reproduced torch's numbers on this machine. Without a compiler, or
where anything fails, there is none, and torch trains the same models. `LEAKSCOPE_COMPILE=0` turns it off.
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

from leakscope.disk.cache import cache_folder

SWITCH = "LEAKSCOPE_COMPILE"
_FLAGS = ("-O3", "-std=gnu11", "-fPIC", "-shared", "-fno-math-errno", "-fno-trapping-math")
_FLAGS_OF_MACHINES = {"x86_64": ("-mavx2", "-mfma"), "aarch64": (), "arm64": ()}
"""Machines whose vectors are wide enough to beat torch -> flags. Machines of a cluster may share the cache
folder: the name of a library depends on its flags."""
_FLAGS_OF_WIDE_VECTORS = ("-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mprefer-vector-width=512")
_SECONDS_TO_COMPILE = 60
_UNUSABLE = "unusable"

Check = Callable[[ctypes.CDLL], bool]
"""Whether a library gives the right numbers."""


def library(name: str, check: Check) -> ctypes.CDLL | None:
    """The library compiled from `name`.c, from the cache folder; None where there is none."""
    return None if os.environ.get(SWITCH) == "0" else _library(name, check)


@cache
def _library(name: str, check: Check) -> ctypes.CDLL | None:
    return load(cache_folder() / "compiled", name, check)


def load(folder: Path, name: str, check: Check) -> ctypes.CDLL | None:
    """The library in `folder`, compiled where it is not there yet; None where that is impossible."""
    machine = platform.machine()
    has_vectors = machine != "x86_64" or processor_has("AVX2", "FMA3")
    if os.name != "posix" or machine not in _FLAGS_OF_MACHINES or not has_vectors:
        return None
    is_wide = machine == "x86_64" and processor_has("AVX512F", "AVX512DQ", "AVX512BW", "AVX512VL")
    wide = _FLAGS_OF_WIDE_VECTORS if is_wide else ()
    flags = (*_FLAGS, *_FLAGS_OF_MACHINES[machine], *wide)
    source = resources.files("leakscope.train").joinpath(f"{name}.c").read_bytes()
    digest = _digest(source + " ".join((platform.system(), machine, *flags)).encode())
    try:
        return _loaded(folder / f"{name}-{digest[:16]}.so", flags, source, check)
    except (OSError, subprocess.SubprocessError):
        return None


def processor_has(*features: str) -> bool:
    """Whether the processor has all of these features, by numpy's names."""
    from numpy._core._multiarray_umath import (  # type: ignore[import-not-found]
        __cpu_features__ as known,
    )

    return all(known.get(feature, False) for feature in features)


def _loaded(path: Path, flags: tuple[str, ...], source: bytes, check: Check) -> ctypes.CDLL | None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    record = path.with_suffix(".sha256")
    if not all(map(_is_ours, (path.parent, *(p for p in (path, record) if p.exists())))):
        return None
    known = record.read_text() if record.exists() else ""
    if known == _UNUSABLE:
        return None
    if path.exists() and known == _digest(path.read_bytes()):  # loading a damaged file ends the process
        return ctypes.CDLL(str(path))
    compiler = shutil.which(os.environ.get("CC") or "cc")
    return None if compiler is None else _compiled([compiler, *flags], source, path, check)


def _compiled(command: list[str], source: bytes, path: Path, check: Check) -> ctypes.CDLL | None:
    """Compiles and checks; of a library that fails the check, the record says so: nobody tries again."""
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        text, made, record = (Path(scratch) / name for name in ("source.c", path.name, "record"))
        text.write_bytes(source)
        command = [*command, "-o", str(made), str(text), "-lm"]
        subprocess.run(command, check=True, capture_output=True, timeout=_SECONDS_TO_COMPILE)
        loaded = ctypes.CDLL(str(made))
        is_right = check(loaded)
        record.write_text(_digest(made.read_bytes()) if is_right else _UNUSABLE)
        made.chmod(0o700)  # where the umask lets a group write, `_is_ours` would refuse it the next time
        record.chmod(0o600)
        if is_right:
            made.replace(path)
        record.replace(path.with_suffix(".sha256"))
    return loaded if is_right else None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _is_ours(path: Path) -> bool:
    """Nobody else can have written there: what is loaded from it runs as us."""
    status = path.stat()
    return status.st_uid == os.getuid() and not status.st_mode & 0o022
