"""How much faster than other tools is a whole audit of the same model and data, and is it as strong?

Rivals: sacroml (LiRA) and the Adversarial Robustness Toolbox, ART (shadow models, and a classifier trained on
their outputs), each as its documentation has it, in its fastest setting, in a process and an environment of
its own. All audit the same trained network about the same records with the same number of shadow models of
the same recipe; AUC and TPR at 1% FPR are computed by one function from each tool's scores. leakscope runs
its whole audit, report included. The plain PyTorch loop is timed beside them (stacked_against_loop.py).

    python -m venv .venv-rivals && .venv-rivals/bin/pip install -r benchmarks/rivals/requirements.txt
    python benchmarks/against_rivals.py --write        # `make bench` does both

Without that environment, the rivals are skipped; without a dataset's files, the sizes that need them; both
are reported. --write writes the tables of a whole run into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from leakscope.errors import LeakscopeError
from leakscope.stats.roc_summary import roc_summary
from rivals.measuring import (
    HERE,
    AuditFailedError,
    Measured,
    compile_to_bytecode,
    environment,
    lines_of_user_code,
    run_audit,
)
from rivals.problem import SIZES, Problem, Size, make_problem
from rivals.tables import Question, Reached, markdown, show, write_between_marks

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
RIVALS_PYTHON = ROOT / ".venv-rivals" / "bin" / "python"
FPR = 0.01
OUR_ROUNDS = 3  # at least; ours takes seconds


@dataclass(frozen=True)
class Contender:
    """A tool in one of its variants.

    Attributes:
        name: in the tables.
        script: in rivals/.
        option: of the script.
        is_ours: runs in leakscope's environment.
        is_whole: false where it uses another contender's shadow models: what it takes is not an audit's time.
    """

    name: str
    script: str
    option: str = ""
    is_ours: bool = False
    is_whole: bool = True


OURS = Contender("leakscope", "audit_leakscope", is_ours=True)


def contenders(size: Size) -> tuple[Contender, ...]:
    """Who audits a problem of this size; ART's notebook takes a random forest, which does not scale."""
    suffix = "pytorch" if size.framework == "PyTorch" else "sklearn"
    sacroml, art = f"audit_sacroml_{suffix}", f"audit_art_{suffix}"
    fastest = (
        OURS,
        Contender("sacroml offline", sacroml, "offline"),
        Contender("sacroml online", sacroml, "online-carlini", is_whole=False),
        Contender("ART lr", art, "lr"),
    )
    return (*fastest, Contender("ART rf", art, "rf")) if size.name == "small" else fastest


def main() -> None:
    options = _options()
    started = time.perf_counter()
    has_rivals = options.rivals_python.exists()
    if not has_rivals:
        print(f"sacroml and ART are left out: {options.rivals_python} is not there. Make it as follows.")
        print("\n".join(line.strip() for line in str(__doc__).splitlines() if "requirements.txt" in line))
    compile_to_bytecode(ROOT / "src" / "leakscope")
    n_threads = _faster_thread_count(options.rivals_python) if has_rivals else 1
    questions, reached = _plain_loop(), []
    for size in SIZES:
        if size.name in options.sizes:
            found = _measured(size, options, n_threads, has_rivals)
            reached += found
            questions += _questions(size, found)
    about = _about(options, n_threads, time.perf_counter() - started)
    show(about, questions, reached)
    if options.write and len(reached) == sum(len(contenders(size)) for size in SIZES):
        write_between_marks(PAGE, markdown(about, questions, reached))
    elif options.write:
        print(f"{PAGE.name} is left as it is: not everything was measured")


def _options() -> argparse.Namespace:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    names = [size.name for size in SIZES]
    arguments.add_argument("--rivals-python", type=_absolute, default=RIVALS_PYTHON)
    arguments.add_argument("--sizes", nargs="*", choices=names, default=names)
    arguments.add_argument("--rounds", type=int, default=1, help="of the rivals; medians are shown")
    arguments.add_argument("--write", action="store_true", help="keep the tables in docs/benchmarks.md")
    return arguments.parse_args()


def _absolute(path: str) -> Path:
    """Links are kept: a virtual environment's python is one."""
    return Path(path).absolute()


def _measured(size: Size, options: argparse.Namespace, n_threads: int, has_rivals: bool) -> list[Reached]:
    """Every contender's audit of one size."""
    found = []
    with tempfile.TemporaryDirectory(prefix="rivals-") as scratch:
        try:
            problem = make_problem(size, Path(scratch))
        except LeakscopeError as error:
            print(f"{size.name} is left out: {error}")
            return []
        for contender in contenders(size):
            if not contender.is_ours and not has_rivals:
                continue
            try:
                found.append(_reached(contender, problem, options, n_threads))
                print("  " + ", ".join(found[-1].cells()), flush=True)
            except AuditFailedError as error:
                print(f"{size.name}, {contender.name} is left out: it failed with {error}")
    return found


def _reached(contender: Contender, problem: Problem, options: argparse.Namespace, n_threads: int) -> Reached:
    """The medians over rounds; the scores are the first round's."""
    python = Path(sys.executable) if contender.is_ours else options.rivals_python
    rounds = max(OUR_ROUNDS, options.rounds) if contender.is_ours else options.rounds
    runs: list[Measured] = []
    for _ in range(rounds if contender.is_whole else 1):
        if contender.is_whole:
            _clear(problem.folder)
        threads = None if contender.is_ours else n_threads
        runs.append(run_audit(python, contender.script, problem.folder, contender.option, threads))
    judged = roc_summary(runs[0].scores, problem.is_member, (FPR,))
    return Reached(
        size=problem.size.name,
        tool=contender.name,
        auc=judged.auc,
        tpr=judged.points[0].tpr,
        seconds=statistics.median(run.seconds for run in runs) if contender.is_whole else None,
        cpu_seconds=statistics.median(run.cpu_seconds for run in runs) if contender.is_whole else None,
        import_seconds=statistics.median(run.import_seconds for run in runs),
        peak_bytes=max(run.peak_bytes for run in runs),
        n_lines=lines_of_user_code(contender.script),
    )


def _clear(folder: Path) -> None:
    """Removes what an earlier run left in folders, so that no tool reuses models trained before."""
    for left in folder.iterdir():
        if left.is_dir():
            shutil.rmtree(left)


def _questions(size: Size, reached: list[Reached]) -> list[Question]:
    """Our time beside each rival's whole audit."""
    work = f"{size.n_records:,} {size.dataset} records, {size.n_shadows} models x {size.epochs} epochs"
    asked = f"{size.name}: {work}, {size.framework}"
    taken = {line.tool: line.seconds for line in reached if line.seconds is not None}
    ours = taken.pop(OURS.name, None)
    return [] if ours is None else [Question(asked, ours, name, theirs) for name, theirs in taken.items()]


def _plain_loop() -> list[Question]:
    """Training alone, without attacks: the 60 models of the scaling study."""
    command = [sys.executable, "-m", "rivals.plain_loop", str(OUR_ROUNDS)]
    said = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, check=True).stdout
    taken: dict[str, float] = json.loads(said)
    ours = taken.pop("stacked")
    asked = "training alone: the scaling study's 60 models"
    return [Question(asked, ours, name, seconds) for name, seconds in taken.items()]


def _faster_thread_count(python: Path) -> int:
    """One thread or all, whichever trains a single small network faster."""
    taken = {}
    for n_threads in sorted({1, len(os.sched_getaffinity(0))}):
        command = [str(python), "-m", "rivals.threads"]
        said = subprocess.run(
            command,
            cwd=HERE.parent,
            env=environment(n_threads),
            capture_output=True,
            text=True,
            check=True,
        )
        taken[n_threads] = float(said.stdout)
    print("rivals, one training step by threads:", {n: f"{us:.0f} us" for n, us in taken.items()})
    return min(taken, key=lambda n: taken[n])


def _about(options: argparse.Namespace, n_threads: int, seconds: float) -> str:
    """On what this was measured, in one paragraph."""
    versions = [f"leakscope's environment: {_versions(Path(sys.executable), ('leakscope', 'torch'))}"]
    if options.rivals_python.exists():
        names = ("sacroml", "adversarial-robustness-toolbox", "torch", "scikit-learn")
        versions.append(f"the rivals': {_versions(options.rivals_python, names)}")
    n_cores, rounds = len(os.sched_getaffinity(0)), options.rounds
    return (
        f"Measured on {date.today().isoformat()} on {n_cores} CPU cores, in one run of {seconds / 60:.0f} "
        f"minutes ({'; '.join(versions)}). Medians of {max(OUR_ROUNDS, rounds)} runs of ours and {rounds} of "
        f"each rival's. Numeric threads: ours {n_cores}, rivals' {n_threads}, which is faster for them."
    )


def _versions(python: Path, names: tuple[str, ...]) -> str:
    listed = f"', '.join(f'{{name}} {{version(name)}}' for name in {names})"
    code = f"from importlib.metadata import version; print({listed})"
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


if __name__ == "__main__":
    main()
