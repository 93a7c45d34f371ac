"""`kill -9` at moments spread over a whole run: whatever was going on, the results are the undisturbed ones.

Four moments by default; LEAKSCOPE_KILLS=10 (or any number) spreads that many.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

N_KILLS = int(os.environ.get("LEAKSCOPE_KILLS", "4"))
SEED = 20240611
# Two widths of two blocks each: 160 models a width, 128 of them in the first block.
STUDY = ("study", "scaling", "--widths", "8,16", "--n-repeats", "20", "--n-samples", "200",
         "--n-reference", "4", "--quiet", "--out")  # fmt: skip
COMMAND = (sys.executable, "-c", "from leakscope.cli.main import main; main()", *STUDY)


def digests(out: Path) -> dict[str, str]:
    names = ("results.json", "report.md")
    return {name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in names}


@pytest.mark.slow
def test_a_killed_study_ends_with_the_same_bytes(tmp_path: Path) -> None:
    started = time.perf_counter()
    subprocess.run([*COMMAND, tmp_path / "undisturbed"], check=True)
    duration = time.perf_counter() - started
    expected = digests(tmp_path / "undisturbed")

    jitter = np.random.default_rng(SEED).random(N_KILLS)
    n_killed = 0
    for moment in (np.arange(N_KILLS) + jitter) / N_KILLS * duration:
        out = tmp_path / f"killed at {moment:.2f} s"
        n_killed += kill_at(moment, out)
        subprocess.run([*COMMAND, out], check=True)
        assert digests(out) == expected, f"after a kill at {moment:.2f} s of {duration:.2f} s"
        assert not list(out.rglob("*tmp-*"))
    print(f"killed {n_killed} of {N_KILLS} runs of {duration:.1f} s")
    assert n_killed >= N_KILLS // 2  # a moment near the end may find the run already over


def kill_at(moment: float, out: Path) -> bool:
    """True when the run was still going at that moment and died of the signal."""
    process = subprocess.Popen([*COMMAND, out])
    try:
        process.wait(timeout=moment)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL
