"""Shared by all tests: thread counts, flushing, quick audits, and which tests `make test` leaves out."""

import compileall
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

# Test processes run side by side; each gets one thread, so that they do not fight over the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

_MARKED = {
    "tests/browser/": "browser",
    "tests/engine/test_ray.py": "cluster",
    "tests/bank/test_object_store.py": "cluster",
    "tests/faults/": "slow",  # real processes, killed again and again
    "tests/audits/test_extension.py": "slow",
    "tests/audits/test_planning.py": "slow",  # trials of a few seconds each
}
"""Files and folders whose tests `make test` leaves out."""


def pytest_configure(config: pytest.Config) -> None:
    """Compiles the package once; else every worker and every process that a test starts may do so anew."""
    if not hasattr(config, "workerinput"):
        compileall.compile_dir(Path(__file__).parents[1] / "src", quiet=2)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for place, marker in _MARKED.items():
            if item.nodeid.startswith(place):
                item.add_marker(marker)


@pytest.fixture(autouse=True, scope="session")
def no_flushing() -> Iterator[None]:
    """A process that ends, unlike a power cut, loses nothing it has written; flushing is what takes time."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda number: None)
        yield


@pytest.fixture
def whole_audits() -> Iterator[None]:
    """Real pictures and forests, in rooms whose audits are quick ones."""
    from tests.quick_audits import whole_audits

    with whole_audits():
        yield
