"""The scaling study's datasets and the role of each model, with the published seeds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from leakscope.array_types import BoolArray, IntArray
from leakscope.data.gaussian import gaussian, split
from leakscope.design import balanced
from leakscope.randomness import Purpose, generator
from leakscope.studies.scaling.config import ScalingConfig
from leakscope.types import Design, Records

# The published seeds of two repeats are 500 apart. If targets were redrawn with them, shadow 0 of a repeat
# would draw the data of the target two repeats later; independent repeats are therefore further apart.
_PUBLISHED_STRIDE, _WIDE_STRIDE = 500, 100_000


class Roles(NamedTuple):
    """Which model plays which role; int64 arrays of model indices.

    Targets come first and reference models last, so that more shadow or reference models leave the
    randomness of the targets unchanged.
    """

    targets: IntArray  # (repeats,)
    shadows: IntArray  # (repeats, shadows)
    references: IntArray  # (repeats, references)


def roles(config: ScalingConfig) -> Roles:
    """The model indices of each role."""
    n, k = config.n_repeats, config.n_shadow
    index = np.arange(n * config.models_per_repeat)
    return Roles(index[:n], index[n : n * (1 + k)].reshape(n, k), index[n * (1 + k) :].reshape(n, -1))


def population(config: ScalingConfig) -> tuple[Records, Design]:
    """All repeats' datasets as one table, and which rows each model trains on and is queried on."""
    datasets: list[Records] = []  # repeat by repeat: the target's, then the shadow models'
    members: list[BoolArray] = []
    references: list[BoolArray] = []
    for repeat in range(config.n_repeats):
        drawn, in_masks = _repeat_data(config, repeat)
        datasets += drawn
        members += in_masks
        references += _reference_members(config, repeat, in_masks[0])
    by_repeat = np.arange(len(datasets)).reshape(config.n_repeats, -1)
    own = np.concatenate([by_repeat[:, 0], by_repeat[:, 1:].reshape(-1)])  # of targets, of shadow models
    dataset = np.concatenate([own, np.repeat(by_repeat[:, 0], config.n_reference)])  # (models,)
    in_mask = np.concatenate([np.stack(members)[own],
                              np.array(references, dtype=bool).reshape(-1, config.n_samples)])  # fmt: skip
    columns = dataset[:, None] * config.n_samples + np.arange(config.n_samples)
    return _concatenated(datasets), Design(in_mask, columns)


def _repeat_data(config: ScalingConfig, repeat: int) -> tuple[list[Records], list[BoolArray]]:
    """Datasets and members of a repeat's target and shadow models."""
    size = (config.n_samples, config.n_features, config.n_classes)
    fixed = config.target_data == "fixed"
    seed = config.seed + repeat * (_PUBLISHED_STRIDE if fixed else _WIDE_STRIDE)
    target_seed = config.seed if fixed else seed
    datasets = [gaussian(target_seed, *size)]
    members = [split(target_seed, config.n_samples, config.train_fraction)]
    for i in range(config.n_shadow):
        centres_seed = target_seed if config.shadow_data == "same" else None
        datasets.append(gaussian(seed + 1000 + 100 * i, *size, centres_seed=centres_seed))
        members.append(split(seed + 2000 + 50 * i, config.n_samples, config.train_fraction))
    return datasets, members


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
        name="gaussian",
        class_names=datasets[0].class_names,
    )
