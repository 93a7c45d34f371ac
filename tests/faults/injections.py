"""Faults at random: something goes wrong with a run, it is run again, and the verdict must be the same.

Every run is a process of its own, forked from this one, which has imported everything and computed nothing
(threads would not survive a fork). Each injection draws a kind of fault from (seed, number), and a case (what
is run) and all of the fault's details from (seed, number, attempt), so that any one can be repeated alone:
`benchmarks/fault_injections.py`. A fault that missed is drawn again until it strikes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from leakscope.errors import LeakscopeError

CRASHED = 70
_ATTEMPTS = 40
_SECONDS_FOR_A_RUN = 120

Work = Callable[[], object]


class Ending(NamedTuple):
    """How a process ended: its exit code (negative: the signal) and what it said."""

    code: int
    said: str


class Process:
    """One piece of work in a forked process."""

    def __init__(self, work: Work) -> None:
        self._reader, writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._reader)
            code, said = _done(work)
            os.write(writer, said.encode()[:60_000])
            os._exit(code)
        os.close(writer)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> Ending:
        with os.fdopen(self._reader, "rb") as pipe:
            said = pipe.read().decode()
        _, status = os.waitpid(self.pid, 0)
        return Ending(os.waitstatus_to_exitcode(status), said)


def _done(work: Work) -> Ending:
    """What the command line makes of the work: an exit code and one line, or a traceback."""
    signal.alarm(_SECONDS_FOR_A_RUN)  # a hang is killed, and counts as not recovered
    try:
        said = work()
    except LeakscopeError as error:
        return Ending(error.exit_code, str(error))
    except BaseException:
        return Ending(CRASHED, traceback.format_exc())
    return Ending(0, "" if said is None else json.dumps(said))


class Case(NamedTuple):
    """Something to run into a folder.

    Attributes:
        name: what is run.
        run: runs it.
        place: where models are trained: "here", in "processes" of its own, or by "ray".
        alone: runs the same elsewhere, to know what to expect; None: `run` does.
    """

    name: str
    run: Callable[[Path], None]
    place: str = "here"
    alone: Callable[[Path], None] | None = None


@dataclass(frozen=True)
class Expected:
    """An undisturbed run: its files, how long it took, how many files it wrote."""

    contents: dict[str, bytes]
    seconds: float
    n_writes: int


@dataclass
class Outcome:
    """What became of one injection: recovered, with the same verdict, nothing lost; all three must hold.

    `struck` is whether the fault met the run at all: a kill may come when it is over. `n_missed` counts the
    attempts before this one that did not; what they left behind was checked as well.
    """

    number: int
    case: str
    kind: str
    detail: str = ""
    struck: bool = False
    recovered: bool = False
    same_verdict: bool = False
    nothing_lost: bool = False
    by_remedy: bool = False
    n_missed: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        return self.recovered and self.same_verdict and self.nothing_lost and not self.problems

    @property
    def is_good(self) -> bool:
        return self.struck and self.is_sound


def contents(folder: Path) -> dict[str, bytes]:
    """Every file but the manifests, which hold the time of day and how long training took."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "manifest.json"
    }


def undisturbed(case: Case, folder: Path) -> Expected:
    def counted() -> int:
        original, calls = os.fsync, [0]

        def fsync(number: int) -> None:
            calls[0] += 1
            original(number)

        os.fsync = fsync
        (case.alone or case.run)(folder)
        return calls[0]

    started = time.monotonic()
    ending = Process(counted).wait()
    assert ending.code == 0, ending.said
    return Expected(contents(folder), time.monotonic() - started, int(ending.said))


def recover(case: Case, folder: Path, outcome: Outcome) -> None:
    """Runs the command again, and does what its message says where it says something."""
    for _ in range(3):
        ending = Process(lambda: case.run(folder)).wait()
        if ending.code == 0:
            outcome.recovered = True
            return
        if ending.code not in (2, 3):
            outcome.problems.append(f"the next run ended with {ending.code}: {ending.said}")
            return
        if not _follow_remedy(ending.said, folder):
            outcome.problems.append(f"no way on: {ending.said}")
            return
        outcome.by_remedy = True


def _follow_remedy(said: str, folder: Path) -> bool:
    """Removes what the message says to remove; never more than it names."""
    named = [Path(text) for text in re.findall(rf"{re.escape(str(folder))}[^\s:;,()]*", said)]
    if "remove it to train" in said or "remove it and run" in said:
        named[0].unlink()
    elif "or remove this one" in said:
        shutil.rmtree(named[0])
    else:
        return False
    return True


def check(folder: Path, expected: Expected, outcome: Outcome) -> None:
    """The same bytes as undisturbed, nothing left behind, and `verify` agrees."""
    found = contents(folder)
    verdict = "results.json"
    outcome.same_verdict = found.get(verdict) == expected.contents[verdict]
    if not outcome.same_verdict:
        outcome.problems.append("results.json differs")
    differing = {n for n in {*found, *expected.contents} if found.get(n) != expected.contents.get(n)}
    problems = [*sorted(differing - {verdict}), *verified(folder)]
    outcome.nothing_lost = not problems
    outcome.problems += problems


def verified(folder: Path) -> list[str]:
    """What `verify` finds wrong; a refusal counts."""
    from leakscope.runs.verification import verify_run

    ending = Process(lambda: verify_run(folder).problems).wait()
    return json.loads(ending.said) if ending.code == 0 else [f"verify: {ending.code} {ending.said}"]


def inject(
    number: int, seed: int, cases: dict[str, tuple[Case, Expected]], root: Path, kinds: list[str]
) -> Outcome:
    """One injection that strikes, its recovery and what came of it."""
    kind = kinds[int(np.random.default_rng([seed, number]).integers(len(kinds)))]
    for attempt in range(_ATTEMPTS):
        rng = np.random.default_rng([seed, number, attempt])
        outcome = _attempted(number, kind, rng, cases, root / f"{number:05d}")
        outcome.n_missed = attempt
        if outcome.struck or not outcome.is_sound:
            return outcome
    return outcome  # never struck, which is not good


def _attempted(
    number: int, kind: str, rng: np.random.Generator, cases: dict[str, tuple[Case, Expected]], root: Path
) -> Outcome:
    from tests.faults.kinds import KINDS, PLACES

    eligible = [both for both in cases.values() if both[0].place == PLACES.get(kind, "here")]
    case, expected = eligible[int(rng.integers(len(eligible)))]
    folder = root / "run"
    folder.parent.mkdir(parents=True)
    outcome = Outcome(number, case.name, kind)
    try:
        with KINDS[kind](rng, case, expected, folder, outcome):
            recover(case, folder, outcome)
            if outcome.recovered:
                check(folder, expected, outcome)
    finally:
        shutil.rmtree(folder.parent, ignore_errors=True)
    return outcome
