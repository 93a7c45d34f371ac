"""Threads sleep where others need the cores, and only there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from leakscope.cli.waiting import choose_waiting, running_elsewhere

CORES = os.cpu_count() or 1
ASLEEP = {"OMP_WAIT_POLICY": "PASSIVE"}


def counted(folder: Path, running: int) -> Path:
    path = folder / "loadavg"
    path.write_text(f"0.50 0.40 0.30 {running}/812 4242\n")
    return path


@pytest.mark.parametrize(
    ("others", "own", "expected"),
    [(0, CORES, {}), (1, CORES, ASLEEP), (CORES - 1, 1, {}), (CORES, 1, ASLEEP)],
)
def test_threads_sleep_once_others_leave_too_few_cores(
    tmp_path: Path, others: int, own: int, expected: dict[str, str]
) -> None:
    environment = {"OMP_NUM_THREADS": str(own)}
    choose_waiting(environment, counted(tmp_path, others + 1))
    assert environment == {"OMP_NUM_THREADS": str(own), **expected}


@pytest.mark.parametrize("name", ["OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"])
def test_what_the_user_has_chosen_stays(tmp_path: Path, name: str) -> None:
    environment = {name: "7"}
    choose_waiting(environment, counted(tmp_path, 100 * CORES))
    assert environment == {name: "7"}


@pytest.mark.parametrize("text", [None, "", "0.1 0.2 0.3", "a b c d/e f"])
def test_a_system_that_does_not_count_gives_its_mean_load(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "loadavg"
    if text is not None:
        path.write_text(text)
    assert running_elsewhere(path) == pytest.approx(os.getloadavg()[0], abs=1.5)


def test_the_command_chooses_before_torch_is_loaded() -> None:
    """OpenMP reads the environment once, when it is loaded."""
    program = (
        "import os, sys; from leakscope.cli import main, waiting\n"
        "seen = []\n"
        "waiting.choose_waiting = lambda: seen.append('torch' in sys.modules)\n"
        "sys.argv = ['leakscope', '--version']\n"
        "try: main.main()\n"
        "except SystemExit: pass\n"
        "assert seen == [False], seen\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
