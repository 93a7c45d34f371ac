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

from leakscope.audits.run import audit
from leakscope.engine import request
from tests.engine.small_population import RECIPE, contents, records
from tests.faults.injections import Process, verified
from tests.faults.kill_points import MOMENTS
from tests.faults.loaded import write_no_pages

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


def finish(folder: Path, models: int) -> dict[str, bytes]:
    """Runs the audit to its end; every file of it."""
    ending = Process(lambda: population(folder, models)).wait()
    assert ending.code == 0, ending.said
    return contents(folder)


def deaths_survived(root: Path, start: Path, models: int, die: Callable[[int], None], step: int) -> int:
    """Dies at one moment after the other, until there are no more; checks each time."""
    shutil.copytree(start, root / "expected")
    expected = finish(root / "expected", models)
    for n_survived, n in enumerate(itertools.count(0, step)):
        folder = root / str(n)
        shutil.copytree(start, folder)

        def extend(n: int = n, folder: Path = folder) -> None:
            die(n)
            population(folder, models)

        ending = Process(extend).wait()
        assert ending.code in (0, _KILLED), ending.said
        if ending.code == 0:
            return n_survived
        assert finish(folder, models) == expected, f"death {n} changed the run"
        shutil.rmtree(folder)
    raise AssertionError("unreachable")


def main(root: Path) -> None:
    """This process computes nothing itself, as threads would not survive a fork."""
    os.fsync = lambda number: None  # a killed process, unlike a power cut, loses nothing it has written
    write_no_pages()
    request.BLOCK_SIZES = (4, 4)
    finish(root / "4", 4)
    shutil.copytree(root / "4", root / "8")
    finish(root / "8", 8)
    survived = {}
    for start, models in (("4", 8), ("8", 12)):
        for moment, die in {**MOMENTS, "after a move": die_at_move}.items():
            step = 1 if moment in ("after a move", "while removing") else 3
            folder = root / f"{start}, {moment}"
            survived[f"{start} to {models}, {moment}"] = deaths_survived(
                folder, root / start, models, die, step
            )
        assert verified(folder / "expected") == []
    print(json.dumps(survived))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
