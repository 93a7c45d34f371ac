"""Shared by all tests: thread counts, and where real datasets may be."""

import os

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for place, marker in _MARKED.items():
            if item.nodeid.startswith(place):
                item.add_marker(marker)
