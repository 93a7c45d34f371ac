"""Shared by all tests: threads, processes, flushing, quick audits, and which tests `make test` leaves out."""

import compileall
import gc
import importlib
import os
import sys
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path

import hypothesis
import pytest

# Other programs may be using the cores, so the clock on the wall says nothing about an example.
hypothesis.settings.register_profile("without deadlines", deadline=None)
hypothesis.settings.load_profile("without deadlines")

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

_FIRST = (
    "tests/faults/", "tests/audits/test_extension.py", "tests/audits/test_larger_than_memory.py",
    "tests/engine/test_ray.py", "tests/code_identity/test_processes.py", "tests/report/test_page_attacks",
    "tests/browser/test_fluid.py", "tests/contract/test_attacks.py",
)  # fmt: skip
"""Files and folders with the longest tests: at the end, no process should wait for one of them."""


def pytest_configure(config: pytest.Config) -> None:
    """Compiles the package once; else every worker and every process that a test starts may do so anew."""
    if not hasattr(config, "workerinput"):
        compileall.compile_dir(Path(__file__).parents[1] / "src", quiet=2)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Stores the test modules with their rewritten assertions, even if Python is set to store no bytecode.

    Rewriting all modules takes 10 CPU seconds in every process that collects them. Where nothing is stored
    yet, every second process begins with the last module, so that two of them do half of it each. What is
    collected stays to the end: looking through it for garbage again and again would double the time.
    """
    number = getattr(session.config, "workerinput", {}).get("workerid", "gw0").removeprefix("gw")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "dont_write_bytecode", False)
        gc.disable()
        try:
            if int(number) % 2:
                _import_from_the_end(session.config)
            return (yield)
        finally:
            gc.freeze()
            gc.enable()


def _import_from_the_end(config: pytest.Config) -> None:
    """Imports the modules that this run collects, the last one first."""
    root = Path(__file__).parent
    places = [config.invocation_params.dir / place.split("::")[0] for place in config.args]
    paths = {path for place in places for path in (place, *place.rglob("test_*.py")) if path.is_file()}
    for path in sorted(paths, reverse=True):
        if path.is_relative_to(root):
            with suppress(Exception, pytest.skip.Exception):  # the collection says what is wrong with it
                importlib.import_module(".".join(path.relative_to(root.parent).with_suffix("").parts))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(_FIRST))
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


@pytest.fixture(autouse=True, scope="session")
def no_second_process() -> None:
    """With matplotlib here, no audit starts a second process, which would load it again each time."""
    importlib.import_module("matplotlib.figure")


@pytest.fixture
def whole_audits() -> Iterator[None]:
    """Real pictures and forests, in rooms whose audits are quick ones."""
    from tests.quick_audits import whole_audits

    with whole_audits():
        yield
