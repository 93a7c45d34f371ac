"""The scaling study's 60 models, stacked and in a plain loop: `python -m rivals.plain_loop ROUNDS`.

Prints one JSON line, name -> median seconds; what is timed is in stacked_against_loop.py.
"""

from __future__ import annotations

import json
import statistics
import sys

import torch

from leakscope.train.loop import inputs_from
from stacked_against_loop import CONFIG, plain_loop, population, seconds, stacked


def medians(rounds: int) -> dict[str, float]:
    """Median seconds of each way to train, in turns."""
    records, design = population(CONFIG)
    inputs = inputs_from(records, torch.device("cpu"))
    stacked(inputs, design)  # warm-up
    ways = {
        "stacked": lambda: stacked(inputs, design),
        "plain PyTorch loop": lambda: plain_loop(inputs, design),
        "PyTorch loop with a DataLoader": lambda: plain_loop(inputs, design, loader=True),
    }
    taken = [{name: seconds(way) for name, way in ways.items()} for _ in range(rounds)]
    return {name: statistics.median(times[name] for times in taken) for name in ways}


if __name__ == "__main__":
    print(json.dumps(medians(int(sys.argv[1]))))
