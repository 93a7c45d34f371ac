"""Training functions of a user's own, good and bad, for tests; importable by other processes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from leakscope.array_types import AnyArray, IntArray
from leakscope.types import Records

Predict = Callable[[AnyArray], AnyArray]


def centroids(given: Records, indices: IntArray, seed: int) -> Predict:
    """Logits: minus the squared distance to the members' mean of each class, and a seeded offset."""
    x, y = given.features[indices], given.labels[indices]
    means = np.stack([x[y == c].mean(axis=0) if (y == c).any() else np.zeros(x.shape[1]) for c in range(3)])
    offset = np.random.default_rng(seed).normal(size=3)
    return lambda features: -np.square(features[:, None] - means).sum(-1) + offset


def dies_once(marks: Path, spared: int) -> Callable[[Records, IntArray, int], Predict]:
    """As `centroids`, but the first process to train, other than `spared`, is killed while at it."""

    def train(given: Records, indices: IntArray, seed: int) -> Predict:
        if os.getpid() == spared:
            return centroids(given, indices, seed)
        try:
            (marks / "died").touch(exist_ok=False)
        except FileExistsError:
            return centroids(given, indices, seed)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("dead by now")

    return train


def one_always_dies(doomed_member: int, spared: int) -> Callable[[Records, IntArray, int], Predict]:
    """As `centroids`, but a process other than `spared` that trains on this record is killed, every time."""

    def train(given: Records, indices: IntArray, seed: int) -> Predict:
        if doomed_member in indices and os.getpid() != spared:
            os.kill(os.getpid(), signal.SIGKILL)
        return centroids(given, indices, seed)

    return train


def slow(seconds: float) -> Callable[[Records, IntArray, int], Predict]:
    """As `centroids`, but it takes a while."""

    def train(given: Records, indices: IntArray, seed: int) -> Predict:
        time.sleep(seconds)
        return centroids(given, indices, seed)

    return train


def fails(given: Records, indices: IntArray, seed: int) -> Predict:
    raise ArithmeticError("the user's own mistake")
