"""A handful of faults at random; `benchmarks/fault_injections.py` draws as many as wanted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]


def injected(*arguments: str) -> str:
    command = [sys.executable, "benchmarks/fault_injections.py", *arguments]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_whatever_happens_the_verdict_is_the_same() -> None:
    said = injected("--n", "8", "--seed", "290", "--no-workers")
    (total,) = [line for line in said.splitlines() if line.startswith("| all |")]
    n, struck, recovered, _, wrong, lost = map(int, total.split("|")[2:-1])
    assert (n, recovered, wrong, lost) == (8, 8, 0, 0)
    assert struck >= 5  # a kill may find the run already over
    assert said.count("\n| ") >= 8  # the rule below the headings, at least six kinds of faults, their sum
