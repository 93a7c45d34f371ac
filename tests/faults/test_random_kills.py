"""One kill per case of those of `benchmarks/random_kills.py`, in a process of its own, because it forks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
CASES = ("stacked perceptrons", "large networks, one at a time", "estimators", "functions in processes")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc and /dev/shm")
def test_a_kill_costs_little_and_leaves_nothing() -> None:
    kills = subprocess.run(
        [
            sys.executable,
            REPO / "benchmarks" / "random_kills.py",
            "--n",
            "4",
            "--seed",
            "7",
            "--cases",
            *CASES,
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert kills.returncode == 0, kills.stdout + kills.stderr
    assert ", 0 not as they should be" in kills.stdout
