"""The scaling study's datasets and the role of each model, with the published seeds."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from leakscope.array_types import BoolArray, IntArray
from leakscope.data.gaussian import gaussian, split
from leakscope.data.registry import load
from leakscope.design import balanced
from leakscope.randomness import Purpose, generator
from leakscope.studies.scaling.config import GAUSSIAN, ScalingConfig
from leakscope.types import Design, Records

# The published seeds of two repeats are 500 apart. If targets were redrawn with them, shadow 0 of a repeat
# would draw the data of the target two repeats later; independent repeats are therefore further apart.
_PUBLISHED_STRIDE, _WIDE_STRIDE = 500, 100_000


class Roles(NamedTuple):
    """Which model plays which role; int64 arrays of model indices.

    Targets come first and reference models after shadow models, so that more shadow or reference models leave
    the randomness of the targets unchanged; the models of further initializations come last.
    """

    targets: IntArray  # (repeats,)
    shadows: IntArray  # (repeats, shadows)
    references: IntArray  # (repeats, references)


def roles(config: ScalingConfig, initialization: int = 0) -> Roles:
    """The model indices of each role; only the first initialization has reference models."""
    n, k = config.n_repeats, config.n_shadow
    n_own = n * (1 + k)
    start = initialization * n_own + (n * config.n_reference if initialization else 0)
    own = start + np.arange(n_own)
    references = n_own + np.arange(n * config.n_reference)
    return Roles(own[:n], own[n:].reshape(n, k), references.reshape(n, -1)[:, : None if start == 0 else 0])


def load_source(config: ScalingConfig, data_dir: Path | None) -> Records | None:
    """The records that target and shadow models share; None for Gaussian classes, which are drawn."""
    return None if config.dataset == GAUSSIAN else load(config.dataset, data_dir)


def population(config: ScalingConfig, source: Records | None = None) -> tuple[Records, Design]:
    """All repeats' datasets as one table, and which rows each model trains on and is queried on.

    `source` holds the records of any other dataset than the Gaussian classes.
    """
    datasets: list[Records] = []  # repeat by repeat: the target's, then the shadow models'
    references: list[BoolArray] = []
    members = np.stack([split(s, config.n_samples, config.train_fraction) for s in split_seeds(config)])
    for repeat in range(config.n_repeats):
        datasets += _drawn(config, repeat) if source is None else _parts(config, repeat, source)
        references += _reference_members(config, repeat, members[repeat])
    by_repeat = np.arange(len(datasets)).reshape(config.n_repeats, -1)
    own = np.concatenate([by_repeat[:, 0], by_repeat[:, 1:].reshape(-1)])  # of targets, of shadow models
    again = np.tile(own, config.n_initializations - 1)
    dataset = np.concatenate([own, np.repeat(by_repeat[:, 0], config.n_reference), again])  # (models,)
    of_references = np.array(references, dtype=bool).reshape(-1, config.n_samples)
    in_mask = np.concatenate([members, of_references, *[members] * (config.n_initializations - 1)])
    columns = dataset[:, None] * config.n_samples + np.arange(config.n_samples)
    return _concatenated(datasets), Design(in_mask, columns)


def repeat_seed(config: ScalingConfig, repeat: int) -> int:
    """The seed from which those of a repeat's target and shadow models follow."""
    stride = _PUBLISHED_STRIDE if config.target_data == "fixed" else _WIDE_STRIDE
    return config.seed + repeat * stride


def _target_seed(config: ScalingConfig, repeat: int) -> int:
    return config.seed if config.target_data == "fixed" else repeat_seed(config, repeat)


def split_seeds(config: ScalingConfig) -> list[int]:
    """The seeds of the splits into members and non-members: one per target, then one per shadow model."""
    repeats = range(config.n_repeats)
    shadows = [repeat_seed(config, r) + 2000 + 50 * i for r in repeats for i in range(config.n_shadow)]
    return [*(_target_seed(config, r) for r in repeats), *shadows]


def _drawn(config: ScalingConfig, repeat: int) -> list[Records]:
    """Gaussian classes of a repeat's target and shadow models."""
    size = (config.n_samples, config.n_features, config.n_classes)
    seed, target_seed = repeat_seed(config, repeat), _target_seed(config, repeat)
    centres_seed = target_seed if config.shadow_data == "same" else None
    shadows = [seed + 1000 + 100 * i for i in range(config.n_shadow)]
    return [
        gaussian(target_seed, *size, class_sd=config.class_sd),
        *(gaussian(one, *size, centres_seed=centres_seed, class_sd=config.class_sd) for one in shadows),
    ]


def _parts(config: ScalingConfig, repeat: int, source: Records) -> list[Records]:
    """Records of a repeat's target and shadow models: the target's from a random half, theirs from the other.

    Shadow models of one repeat may share records with each other, never with their target.
    """
    order: IntArray = np.random.RandomState(_target_seed(config, repeat)).permutation(len(source))
    for_target, for_shadows = np.array_split(order, 2)
    seed, n = repeat_seed(config, repeat), config.n_samples
    shadows = [
        np.random.RandomState(seed + 1000 + 100 * i).permutation(for_shadows)[:n]
        for i in range(config.n_shadow)
    ]
    return [source.take(rows) for rows in (for_target[:n], *shadows)]


def _reference_members(config: ScalingConfig, repeat: int, target_members: BoolArray) -> list[BoolArray]:
    """Random subsets of the target's records, as large as its training set."""
    rng = generator(config.seed, repeat, Purpose.DESIGN)
    if 2 * int(target_members.sum()) == config.n_samples and config.n_reference:
        return list(balanced(config.n_reference, config.n_samples, rng))
    return [rng.permutation(target_members) for _ in range(config.n_reference)]


def _concatenated(datasets: list[Records]) -> Records:
    return Records(
        features=np.concatenate([d.features for d in datasets]),
        labels=np.concatenate([d.labels for d in datasets]),
        ids=np.concatenate([[f"{k}:{i}" for i in range(len(d))] for k, d in enumerate(datasets)]),
        name=datasets[0].name,
        class_names=datasets[0].class_names,
    )
