"""Jobs in a second process: the same results, whatever happens to it. In fresh processes."""

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
    from leakscope.disk import second_process as module
    from leakscope.disk.second_process import Job, is_running, load, second_process, shared_out
    from leakscope.evaluate.hygiene.shift import ShiftTask, forest_scores

    module._cores = lambda: 2
    MODULES = ("matplotlib.figure",)
    rng = np.random.default_rng(0)
    features, is_member = rng.normal(size=(90, 3)), rng.random(90) < 0.5
    task = ShiftTask(features, is_member, np.arange(90))
    started = []

    def remembered(when_idle, start=module._started):
        started.append(start(when_idle))
        return started[-1]

    module._started = remembered

    def scores():
        return Job(forest_scores, task).result()
"""


def run(script: str) -> None:
    code = textwrap.dedent(BEGINNING) + textwrap.dedent(script)
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_results_are_the_same_and_matplotlib_stays_out() -> None:
    run("""
        with second_process(MODULES):
            assert is_running()
            beside = scores()
            assert np.array_equal(scores(), beside)
            process = Job(os.getpid)
            Job(print, "no answer").result()
            assert process.result() == started[0].pid
            assert "matplotlib" not in sys.modules
        assert not is_running() and np.array_equal(scores(), beside)
        with second_process(("json.tool",), is_needed=False):
            assert not is_running()
        assert len(started) == 1
    """)


def test_it_loads_modules_while_it_waits() -> None:
    run("""
        def is_loaded(name):
            return Job(eval, f"{name!r} in __import__('sys').modules").result()

        with second_process(("json.tool",), ("no_such_module", "colorsys")):
            assert is_loaded("json.tool")
            until = time.monotonic() + 60
            while not is_loaded("colorsys") and time.monotonic() < until:
                time.sleep(0.3)
            assert is_loaded("colorsys") and "colorsys" not in sys.modules
            assert not is_loaded("wave")
    """)


def test_a_waiting_job_comes_before_modules() -> None:
    run("""
        from pathlib import Path
        from tempfile import mkdtemp

        folder = Path(mkdtemp())
        (folder / "slow_to_load.py").write_text("import time; time.sleep(2)")
        sys.path.append(str(folder))
        with second_process(("json.tool",), ("slow_to_load",)):
            first, second = (Job(time.monotonic) for _ in range(2))
            assert second.result() - first.result() < 2  # nothing was loaded between them
    """)


def test_items_are_shared_out_in_order() -> None:
    run("""
        items = [rng.normal(size=1_000) for _ in range(40)]
        with second_process(MODULES):
            both = shared_out(np.sort, items)
            Job(time.sleep, 0.05)
            processes = shared_out(module.load, [()] * 20)
            Job(time.sleep, 600)
            assert Job(abs, -1).result_now() == 1  # it waits for nobody
            assert shared_out(abs, [-1, -2]) == [1, 2]
        with second_process(MODULES):
            try:
                shared_out(len, [[1], 2, [3]])
            except TypeError:  # as it would without a second process
                pass
            else:
                raise AssertionError
            assert Job(os.getpid).result_now() in (os.getpid(), started[1].pid)
            assert Job(os.getpid).result() == started[1].pid  # and it goes on
        assert all(np.array_equal(one, np.sort(item)) for one, item in zip(both, items, strict=True))
        assert processes == [None] * 20
    """)


def test_whatever_fails_is_done_here() -> None:
    run("""
        def without_answer(program):
            sys.executable, before = program, sys.executable
            with second_process(MODULES):
                sys.executable = before
                result = scores()
            return result

        nowhere, failed, empty = map(without_answer, ("/nowhere/python", "/bin/false", "/bin/true"))
        assert np.array_equal(nowhere, failed) and np.array_equal(failed, empty)
        with second_process(MODULES):
            assert Job(lambda: 1).result() == 1  # cannot be pickled
            assert np.array_equal(shared_out(lambda item: item + 1, [1, 2]), [2, 3])
            large = Job(np.sum, np.broadcast_to(np.int8(1), 1 << 27))  # would take long to send
            assert large._beside is None and large.result() == 1 << 27
            wide = np.broadcast_to(np.float32(0), (1 << 20, 17))
            assert Job(len, task._replace(features=wide))._beside is None
            late = Job(forest_scores, task)
            started[-1].kill()
            assert np.array_equal(scores(), empty)
            assert shared_out(abs, [-1, -2, -3]) == [1, 2, 3]
        assert np.array_equal(late.result(), empty)
        assert len(started) == 4 and started[0] is None
    """)


def test_it_ends_with_the_audit() -> None:
    run("""
        for stop in (KeyboardInterrupt, SystemExit, ValueError):
            try:
                with second_process(MODULES):
                    Job(time.sleep, 600)
                    raise stop
            except stop:
                assert started[-1].returncode is not None
    """)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="Linux shows its processes in /proc")
def test_it_ends_when_this_process_is_killed() -> None:
    code = textwrap.dedent(BEGINNING) + textwrap.dedent("""
        with second_process(MODULES):
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
