"""The check for shift in a second process: the same scores, whatever happens to it. In fresh processes."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

BEGINNING = """
    import os, sys, time
    import numpy as np
    from leakscope.evaluate.hygiene import second_process
    from leakscope.evaluate.hygiene.second_process import loading_beside
    from leakscope.evaluate.hygiene.shift import shift_scores

    second_process._cores = lambda: 2
    rng = np.random.default_rng(0)
    features, is_member = rng.normal(size=(90, 3)), rng.random(90) < 0.5
    started = []

    def remembered(start=second_process._started):
        started.append(start())
        return started[-1]

    second_process._started = remembered

    def scores():
        return shift_scores(features.__getitem__, is_member)
"""


def run(script: str) -> None:
    code = textwrap.dedent(BEGINNING) + textwrap.dedent(script)
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_scores_are_the_same_and_scikit_learn_stays_out() -> None:
    run("""
        with loading_beside():
            beside = scores()
            assert "sklearn" not in sys.modules
            again = scores()  # one task only: the next is done here
        assert "sklearn" in sys.modules
        assert np.array_equal(beside, again)
        with loading_beside():  # scikit-learn is here already
            assert np.array_equal(scores(), beside)
        assert len(started) == 1
    """)


def test_whatever_fails_is_done_here() -> None:
    run("""
        def without_answer(program):
            sys.executable, before = program, sys.executable
            with loading_beside():
                sys.executable = before
                found = scores()
            sys.modules.pop("sklearn", None)  # as if it had not been loaded
            return found

        nowhere, failed, empty = map(without_answer, ("/nowhere/python", "/bin/false", "/bin/true"))
        assert np.array_equal(nowhere, failed) and np.array_equal(failed, empty)
        with loading_beside():
            started[-1].kill()
            assert np.array_equal(scores(), empty)
        assert len(started) == 4 and started[0] is None
    """)


def test_it_ends_with_the_audit() -> None:
    run("""
        for stop in (KeyboardInterrupt, SystemExit, ValueError):
            try:
                with loading_beside():
                    raise stop
            except stop:
                assert started[-1].returncode is not None
    """)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="Linux shows its processes in /proc")
def test_it_ends_when_this_process_is_killed() -> None:
    code = textwrap.dedent(BEGINNING) + textwrap.dedent("""
        with loading_beside():
            print(started[-1].pid, flush=True)
            os.kill(os.getpid(), 9)
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == -9
    until = time.monotonic() + 60
    while time.monotonic() < until and _is_running(int(done.stdout)):
        time.sleep(0.05)
    assert not _is_running(int(done.stdout))


def _is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False
