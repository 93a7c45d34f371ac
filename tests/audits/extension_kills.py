"""Kills an extension at every single write, rename and removal, and lets a rerun finish it.

Run as a script in a process of its own, because it forks: `python -m tests.audits.extension_kills FOLDER`
prints the number of deaths survived for each moment of dying.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from leakscope.audits.report import markdown
from leakscope.audits.run import audit
from leakscope.engine import request
from leakscope.runs.verification import verify_run
from tests.engine.small_population import RECIPE, contents, records
from tests.faults.kill_points import MOMENTS

_KILLED = 9


def population(folder: Path, models: int) -> None:
    audit(records(), RECIPE, folder, models=models, attacks=("loss",), fpr=(0.1,), device="cpu")


def die_at_move(n: int) -> None:
    """The n-th file or folder of the bank has just been moved."""
    original, count = Path.rename, itertools.count()

    def rename(self: Path, target: Path) -> Path:
        moved = original(self, target)
        if next(count) == n:
            os._exit(_KILLED)
        return moved

    Path.rename = rename  # type: ignore[assignment, method-assign]


def deaths_survived(root: Path, start: Path, models: int, die: Callable[[int], None], step: int) -> int:
    """Dies at one moment after the other, until there are no more; checks each time."""
    expected = root / "expected"
    shutil.copytree(start, expected)
    population(expected, models)
    for n_survived, n in enumerate(itertools.count(0, step)):
        folder = root / str(n)
        shutil.copytree(start, folder)
        child = os.fork()
        if child == 0:
            die(n)
            population(folder, models)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, _KILLED), f"the run itself failed with {code}"
        if code == 0:
            return n_survived
        population(folder, models)
        assert contents(folder) == contents(expected), f"death {n} changed the run"
        shutil.rmtree(folder)
    raise AssertionError("unreachable")


def main(root: Path) -> None:
    torch.set_num_threads(1)  # a fork keeps no threads
    os.fsync = lambda number: None  # a killed process, unlike a power cut, loses nothing it has written
    markdown.write_report = lambda *_: None  # what is written from the results is not at stake
    request.BLOCK_SIZES = (4, 4)
    population(root / "4", 4)
    shutil.copytree(root / "4", root / "8")
    population(root / "8", 8)
    survived = {}
    for start, models in (("4", 8), ("8", 12)):
        for moment, die in {**MOMENTS, "after a move": die_at_move}.items():
            step = 1 if moment in ("after a move", "while removing") else 3
            survived[f"{start} to {models}, {moment}"] = deaths_survived(
                root / f"{start}, {moment}", root / start, models, die, step
            )
        assert verify_run(root / f"{start}, {moment}" / "expected").problems == []
    print(json.dumps(survived))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
