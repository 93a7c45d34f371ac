"""Freed memory is used again: in fresh processes, because the choice is for a whole process."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap

import pytest

from leakscope.disk.memory import collect_rarely, is_left_to_the_user

SCRIPT = """
    import platform, resource, sys
    import numpy as np
    from leakscope.disk.memory import reuse_memory

    if platform.libc_ver()[0] != "glibc":
        sys.exit(3)
    assert reuse_memory() is (sys.argv[1] == "reused")

    def faults(n):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(n):
            parts = [np.ones(1 << 17) for _ in range(8)]  # 1 MiB each
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    faults(2)
    print(faults(100))
"""


def faults(how: str, environment: dict[str, str]) -> int:
    code = [sys.executable, "-c", textwrap.dedent(SCRIPT), how]
    done = subprocess.run(code, capture_output=True, text=True, env=environment)
    if done.returncode == 3:
        pytest.skip("the allocator is another one")
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="the allocator of Linux")
def test_pages_are_cleared_once() -> None:
    """Fresh memory would take 200,000 pages, or 400 of the largest kind."""
    given = {name: value for name, value in os.environ.items() if "MALLOC" not in name}
    assert faults("reused", given) < 100
    assert faults("left alone", {**given, "MALLOC_TRIM_THRESHOLD_": "131072"}) > 300


def test_the_user_decides() -> None:
    assert is_left_to_the_user({"MALLOC_TRIM_THRESHOLD_": "0"})
    assert is_left_to_the_user({"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=1"})
    assert not is_left_to_the_user({"PATH": "/bin"})


@pytest.mark.parametrize(("chosen", "within"), [(700, 100_000), (0, 0), (200_000, 200_000)])
def test_garbage_is_looked_for_rarely_in_the_block_alone(chosen: int, within: int) -> None:
    """A user who never wants it, or more rarely still, has it so."""
    before = gc.get_threshold()
    gc.set_threshold(chosen, 10, 10)
    try:
        with pytest.raises(KeyError), collect_rarely():
            assert gc.get_threshold() == (within, 10, 10)
            raise KeyError
        assert gc.get_threshold() == (chosen, 10, 10)
    finally:
        gc.set_threshold(*before)
