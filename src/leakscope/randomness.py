"""Where every random number comes from: (run seed, model index, purpose).

No generator is shared between models or purposes, so a model's random numbers do not depend on
which models are trained beside it, in which process, or in which order.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from leakscope.errors import InputError


class Purpose(IntEnum):
    """What random numbers are for. Values are part of a bank's identity: never renumber."""

    INITIALISATION = 0
    BATCH_ORDER = 1
    DROPOUT = 2
    ESTIMATOR = 3
    DESIGN = 4
    AUGMENTATION = 6
    NOISE = 7
    SAMPLING = 8
    MIXUP = 9
    OUTPUTS = 10
    RANDOM_INPUTS = 11
    CANARIES = 12
    QUERIES = 13
    TREATMENT = 20
    DISTILLATION_PARTS = 21
    DISTILLATION_SUB_MODEL = 22


def generator(run_seed: int, model: int, purpose: Purpose, part: int = 0) -> np.random.Generator:
    """A fresh generator for one model and one purpose; each part of a training may have its own."""
    return np.random.Generator(np.random.PCG64(_sequence(run_seed, model, purpose, part)))


def seed_integer(run_seed: int, model: int, purpose: Purpose, bits: int = 63) -> int:
    """A non-negative integer seed of at most `bits` bits, for libraries that want one."""
    words = _sequence(run_seed, model, purpose).generate_state(1, np.uint64)
    return int(words[0] >> np.uint64(64 - bits))


def _sequence(run_seed: int, model: int, purpose: Purpose, part: int = 0) -> np.random.SeedSequence:
    if run_seed < 0:
        raise InputError(f"seed={run_seed}: must be 0 or more")
    return np.random.SeedSequence([run_seed, model, int(purpose), *([part] if part else [])])


def skip_float32(rng: np.random.Generator, n: int) -> None:
    """Moves the generator behind the next `n` numbers that `rng.random(dtype=np.float32)` would give."""
    rng.bit_generator.advance(n // 2)  # type: ignore[attr-defined]  # PCG64: two of them to a step
    if n % 2:
        rng.random(dtype=np.float32)
