"""A handful of faults at random; `benchmarks/fault_injections.py` draws as many as wanted."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.faults import injections, kinds
from tests.faults.injections import Case, Expected, Outcome

REPO = Path(__file__).resolve().parents[2]
HERE = ("kill -9 at a time", "kill -9 at a write", "full disk, injected", "file truncated", "file changed",
        "file zeroed", "file removed", "clock jumps", "two runs at once")  # fmt: skip


def injected(*arguments: str) -> list[int]:
    """Injections that struck, missed before, recoveries, by a remedy, wrong verdicts, silent losses."""
    command = [sys.executable, "benchmarks/fault_injections.py", *arguments]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"seed {arguments[1]}, numbers 0 to " in done.stdout
    (total,) = [line for line in done.stdout.splitlines() if line.startswith("| all |")]
    return [int(count) for count in total.split("|")[2:-1]]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_whatever_happens_the_verdict_is_the_same() -> None:
    struck, _, recovered, _, wrong, lost = injected("--seed", "290", "--n", "8", "--kinds", *HERE)
    assert (struck, recovered, wrong, lost) == (8, 8, 0, 0)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_node_lost_from_a_cluster_changes_nothing() -> None:
    pytest.importorskip("ray", reason="Ray is not installed (pip install 'leakscope[ray]')")
    struck, _, recovered, _, wrong, lost = injected("--seed", "3", "--n", "1", "--kinds", "Ray node lost")
    assert (struck, recovered, wrong, lost) == (1, 1, 0, 0)


def sound(struck: bool) -> Outcome:
    return Outcome(0, "case", "kind", "", struck, recovered=True, same_verdict=True, nothing_lost=True)


@pytest.mark.parametrize(
    ("attempts", "n_missed", "is_good"),
    [
        ([sound(True)], 0, True),
        ([sound(False), sound(False), sound(True)], 2, True),
        ([sound(False), Outcome(0, "case", "kind", problems=["lost"]), sound(True)], 1, False),
        ([sound(False)] * 40, 39, False),
    ],
)
def test_a_miss_is_drawn_again_and_whatever_it_broke_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attempts: list[Outcome], n_missed: int, is_good: bool
) -> None:
    left = iter(attempts)
    monkeypatch.setattr(injections, "_attempted", lambda *given: next(left))
    outcome = injections.inject(7, 1, {}, tmp_path, ["kind"])
    assert (outcome.n_missed, outcome.is_good) == (n_missed, is_good)


def test_changed_bytes_of_any_file_and_files_left_behind_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the count of losses rests on: an outcome is not good when anything differs."""
    monkeypatch.setattr(injections, "verified", lambda folder: [])
    expected = Expected({"results.json": b"1", "signals/loss.npy": b"2"}, seconds=1.0, n_writes=1)
    (tmp_path / "signals").mkdir()
    for files, same_verdict, nothing_lost in (
        ({"results.json": b"1", "signals/loss.npy": b"2", "manifest.json": b"any"}, True, True),
        ({"results.json": b"0", "signals/loss.npy": b"2"}, False, True),
        ({"results.json": b"1", "signals/loss.npy": b"0"}, True, False),
        ({"results.json": b"1", "signals/loss.npy": b"2", "rest.tmp": b""}, True, False),
    ):
        for name, content in files.items():
            (tmp_path / name).write_bytes(content)
        outcome = Outcome(0, "case", "kind", recovered=True, struck=True)
        injections.check(tmp_path, expected, outcome)
        assert (outcome.same_verdict, outcome.nothing_lost) == (same_verdict, nothing_lost)
        assert outcome.is_good == (same_verdict and nothing_lost)
        for name in files:
            (tmp_path / name).unlink()


PLACES_OF_CASES = ("here", "processes", "ray")


def _noted(ran: list[str], place: str, folder: Path) -> None:
    ran.append(place)


def test_a_fault_that_never_happens_to_a_case_is_not_drawn_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    expected = Expected({}, 0.0, 0)
    cases = {place: (Case(place, partial(_noted, ran, place), place), expected) for place in PLACES_OF_CASES}
    monkeypatch.setattr(injections, "recover", lambda case, folder, outcome: case.run(folder))
    for kind, place in (("worker killed", "processes"), ("Ray node lost", "ray"), ("file changed", "here")):
        monkeypatch.setitem(kinds.KINDS, kind, lambda *given: nullcontext())
        injections._attempted(0, kind, np.random.default_rng(0), cases, tmp_path / place)
        assert ran == [place]
        ran.clear()
