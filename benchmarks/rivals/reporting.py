"""How an audit's script begins and ends: it reads the problem, and gives back scores and seconds.

A script is run as `python -m rivals.SCRIPT FOLDER [OPTION]` from benchmarks/. It writes its scores as
scores.npy into the folder and prints one JSON line. AUC and TPR are not the
tools' own: one function judges everybody's scores, in `against_rivals.py`.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rivals.problem import Problem, read_problem


class Audit:
    """One tool's audit under way.

    Attributes:
        problem: what is audited.
        option: the tool's variant, from the command line; empty: none was named.
        seconds: of its phases so far.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()
        self.problem: Problem = read_problem(Path(sys.argv[1]))
        self.option = sys.argv[2] if len(sys.argv) > 2 else ""
        warnings.simplefilter("ignore")  # of the tools' own code

    def phase_done(self, name: str) -> None:
        """Ends the phase called `name`; the next begins."""
        now = time.perf_counter()
        self.seconds[name] = now - self._last
        self._last = now

    def finish(self, scores: npt.ArrayLike) -> None:
        """Hands over the scores (records,), higher for members, in the problem's order."""
        self.phase_done("audit")
        np.save(self.problem.folder / "scores.npy", np.asarray(scores, dtype=np.float64))
        print(json.dumps({"seconds": self.seconds}), flush=True)
