"""`kill -9` at moments spread over a whole run: whatever was going on, the results are the undisturbed ones.

Two moments by default, one in each half of a run; LEAKSCOPE_KILLS=10 (or any number) spreads that many.
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

N_KILLS = int(os.environ.get("LEAKSCOPE_KILLS", "2"))
SEED = 20240611
# Two widths of two blocks each: 160 models a width, 128 of them in the first block.
STUDY = ("study", "scaling", "--widths", "8,16", "--n-repeats", "20", "--n-samples", "200",
         "--n-reference", "4", "--n-initializations", "1", "--no-published-seeds", "--quiet",
         "--out")  # fmt: skip
# Few draws and blank pictures: what a kill must not change is there all the same.
QUICK = """
from leakscope.cli.main import main
from leakscope.report import png
from leakscope.studies.scaling import judge

png.draw_png = lambda charts: b"blank"
judge._N_DRAWS = 50
main()
"""
COMMAND = (sys.executable, "-c", QUICK, *STUDY)


def digests(out: Path) -> dict[str, str]:
    names = ("results.json", "report.md")
    return {name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in names}


@pytest.mark.slow
def test_a_killed_study_ends_with_the_same_bytes(tmp_path: Path) -> None:
    duration = seconds_of(tmp_path / "undisturbed")
    expected = digests(tmp_path / "undisturbed")
    n_killed = 0
    for n, jitter in enumerate(np.random.default_rng(SEED).random(N_KILLS)):
        moment = (n + jitter) / N_KILLS  # of the duration
        out = tmp_path / f"killed at {moment:.3f}"
        lived = killed_after(moment * duration, out)
        if lived is None:
            n_killed += 1
        else:
            duration = min(duration, lived)  # the machine has become faster: aim earlier from here on
        subprocess.run([*COMMAND, out], check=True)
        assert digests(out) == expected, f"after a kill at {moment:.3f} of {duration:.2f} s"
        assert not list(out.rglob("*tmp-*"))
    print(f"killed {n_killed} of {N_KILLS} runs of {duration:.1f} s")
    assert n_killed >= N_KILLS // 2  # a moment near the end may find the run already over


def seconds_of(out: Path) -> float:
    """How long the undisturbed command takes."""
    started = time.perf_counter()
    subprocess.run([*COMMAND, out], check=True)
    return time.perf_counter() - started


def killed_after(seconds: float, out: Path) -> float | None:
    """None when the run was still going by then and died of the signal; else how long it took."""
    started = time.perf_counter()
    process = subprocess.Popen([*COMMAND, out])
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    lived = time.perf_counter() - started
    return None if process.wait() == -signal.SIGKILL else lived
