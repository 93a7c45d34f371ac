"""How fast do networks train on a GPU with this source tree, and with another one, in the same run?

    python benchmarks/gpu_speed.py --before ../leakscope-before

One process per tree and case prepares (imports, compiles), and then measures in turns: 8 WRN-28-2 side by
side (32 x 32 images with flips and crops, bfloat16, batches of 256) in images per second, and 512 perceptrons
on digits (64 records in a batch, 30 epochs; initialisation and evaluation included) in models per second.
Rounds alternate between the trees. `--tiny` shrinks everything, to try the script on a CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import NamedTuple

HERE = Path(__file__).resolve().parents[1]
SECONDS_TO_PREPARE = 120
SECONDS_OF_A_ROUND = 60


class Case(NamedTuple):
    """What one process measures, by which tree; `rounds` beyond the first, which warms up."""

    name: str
    tree: Path
    kind: str
    rounds: int


def cases(before: Path) -> list[Case]:
    trees = {"before": before, "after": HERE}
    perceptrons = [Case(f"perceptrons, {when}", tree, "perceptrons", 4) for when, tree in trees.items()]
    return perceptrons + [Case(f"WRN-28-2, {when}", tree, "wide_resnets", 2) for when, tree in trees.items()]


# ---------------------------------------------------------------- in the process of a case


def rounds_of_perceptrons(tiny: bool) -> Iterator[dict[str, float]]:
    """Models per second of one training of all of them."""
    import numpy as np
    import torch

    from leakscope import load
    from leakscope.design import make_design
    from leakscope.recipe import Recipe
    from leakscope.train import loop

    n_models, together = (16, 8) if tiny else (512, 128)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    records = load("digits")
    recipe = Recipe(epochs=2 if tiny else 30)
    inputs, design = loop.inputs_from(records, device), make_design("balanced", n_models, len(records), 0)
    trainer, _ = loop.choose_trainer(recipe, inputs)
    yield {}
    while True:
        started, values, notes = time.perf_counter(), [], set()
        for start in range(0, n_models, together):
            models = np.arange(start, start + together)
            block = loop.train_block(inputs, design, recipe, models, 0, ("correct", "loss"), trainer)
            values.append(block.signals["loss"].mean())
            notes.add(block.note)
        rate = n_models / (time.perf_counter() - started)
        yield {"rate": rate, "loss": float(np.mean(values)), "notes": len(notes - {""})}


def rounds_of_wide_resnets(tiny: bool) -> Iterator[dict[str, float]]:
    """Images per second of some epochs of one training; accuracies on non-members with the last."""
    import numpy as np
    import torch

    import wide_resnets_on_a_gpu as wide
    from leakscope.design import make_design
    from leakscope.train import loop
    from leakscope.train.losses import PLAIN
    from leakscope.train.plan import BatchPlan
    from leakscope.train.queries import evaluate
    from leakscope.train.side_by_side import SideBySide, compiled_loss

    if tiny:
        wide.RECORDS, wide.MODELS, wide.BATCH = 64, 2, 16
        wide.RECIPE = replace(wide.RECIPE, net_options=(("depth", 10), ("widen", 1)), batch_size=16)
    device, models = torch.device("cuda" if torch.cuda.is_available() else "cpu"), np.arange(wide.MODELS)
    inputs = loop.inputs_from(wide.learnable_records(), device)
    design = make_design("balanced", wide.MODELS, wide.RECORDS, 0)
    plan = BatchPlan(design, models, wide.BATCH, 0)
    stack = SideBySide(loop.initial_nets(wide.RECIPE, inputs, models, 0), PLAIN, device, compiled_loss())
    before = [buffer.clone() for buffer in stack.buffers]
    rows = torch.arange(len(models) * wide.BATCH, device=device).view(len(models), wide.BATCH) % wide.RECORDS
    weight = torch.full(rows.shape, 1 / wide.BATCH, device=device)
    stack.gradients(inputs.x[rows], inputs.y[rows], weight)  # compiles
    for buffer, value in zip(stack.buffers, before, strict=True):
        buffer.copy_(value)
    yield {}
    started, done, epochs = time.perf_counter(), 0, loop.train(stack, inputs, plan, wide.RECIPE)
    for n_epochs in (1, 5, 6):
        for _ in range(n_epochs):
            next(epochs)
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds, done = time.perf_counter() - started, done + n_epochs
        found = {"rate": n_epochs * int(design.in_mask.sum()) / seconds, "seconds": seconds}
        if done == wide.EPOCHS:
            correct = evaluate(stack, inputs, design, ("correct",))["correct"]
            found["accuracy"] = float(correct[~design.in_mask].mean())
        yield found
        started = time.perf_counter()


def serve(kind: str, tiny: bool) -> None:
    """Prepares, says so, and measures one round for each line that is read."""
    rounds = (rounds_of_perceptrons if kind == "perceptrons" else rounds_of_wide_resnets)(tiny)
    next(rounds)
    print("READY", flush=True)
    for _ in sys.stdin:
        print(json.dumps(next(rounds)), flush=True)


# ---------------------------------------------------------------- in the process that compares


def start(case: Case, tiny: bool) -> subprocess.Popen[str]:
    """All at once: compiling takes several cores for most of a minute, measuring comes later, in turns."""
    arguments = [sys.executable, __file__, "--serve", case.kind]
    places = [str(case.tree / "src"), str(HERE / "benchmarks"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))}
    return subprocess.Popen(
        arguments + (["--tiny"] if tiny else []), env=environment, text=True, bufsize=1,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip


def answer(process: subprocess.Popen[str], seconds: float) -> str:
    """The next line of a process; empty when it does not come in time."""
    assert process.stdout is not None
    fd = process.stdout.fileno()
    os.set_blocking(fd, False)
    text, until = "", time.monotonic() + seconds
    while time.monotonic() < until and process.poll() is None:
        try:
            text += os.read(fd, 65536).decode()
        except BlockingIOError:
            time.sleep(0.05)
        for line in text.splitlines(keepends=True):
            if line.endswith("\n") and line.startswith(("READY", "{")):
                return line
    process.kill()
    return ""


def compare(before: Path, tiny: bool, only: str) -> None:
    started = time.monotonic()
    processes = {case: start(case, tiny) for case in cases(before) if only in case.name}
    ready = time.monotonic() + SECONDS_TO_PREPARE
    running = [case for case in processes if answer(processes[case], max(1.0, ready - time.monotonic()))]
    print(f"prepared {len(running)} of {len(processes)} after {time.monotonic() - started:.0f} s", flush=True)
    rates: dict[Case, list[float]] = {case: [] for case in running}
    for number in range(1 + max((case.rounds for case in running), default=-1)):
        for case in [case for case in running if number <= case.rounds]:
            stdin = processes[case].stdin
            assert stdin is not None
            stdin.write("go\n")
            stdin.flush()
            line = answer(processes[case], SECONDS_OF_A_ROUND)
            print(
                f"{time.monotonic() - started:4.0f} s  {case.name:26s} round {number}: {line.strip()}",
                flush=True,
            )
            if not line:
                running.remove(case)
            elif number:
                rates[case].append(json.loads(line)["rate"])
    for case, found in rates.items():
        if found:
            each = ", ".join(f"{rate:,.0f}" for rate in found)
            print(f"{case.name:26s} {median(found):12,.0f} per second ({each})")
    for process in processes.values():
        process.kill()


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--before", type=Path, help="another source tree")
    arguments.add_argument("--tiny", action="store_true")
    arguments.add_argument("--only", default="", help="cases with this in their names")
    arguments.add_argument("--serve", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.serve:
        serve(options.serve, options.tiny)
    else:
        compare(options.before.resolve(), options.tiny, options.only)


if __name__ == "__main__":
    main()
