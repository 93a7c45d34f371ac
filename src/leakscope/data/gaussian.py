"""Gaussian classes: the synthetic records of the toy study of model size and overfitting.

The study writes N(mu, 1.5 I), but its numbers come from a standard deviation of 1.5, and so does
this generator. The order of the random draws is part of the dataset: one legacy `RandomState` draws
the centres, then each class in order, then one permutation of all rows, so that a seed gives the very
records behind the published table.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leakscope.array_types import BoolArray, IntArray
from leakscope.disk.string_arrays import numbered_ids
from leakscope.errors import InputError
from leakscope.types import Records

STANDARD_DEVIATION = 1.5
_LARGEST_SEED = 2**32 - 1  # what a RandomState takes


def gaussian(
    seed: int = 42,
    n_samples: int = 500,
    n_features: int = 10,
    n_classes: int = 5,
    centres_seed: int | None = None,
    class_sd: float = STANDARD_DEVIATION,
) -> Records:
    """Records of `n_classes` Gaussian classes around random centres.

    Args:
        seed: seed of the samples and, unless `centres_seed` is given, of the centres.
        n_samples: number of records; where it does not divide evenly the first classes get one more.
        n_features: number of features.
        n_classes: number of classes.
        centres_seed: takes the centres from this seed instead, which makes two calls with different
            `seed` two samples of the same distribution.
        class_sd: standard deviation of every class.

    Returns:
        float32 features (n_samples, n_features), in random order; ids carry the seeds.
    """
    _check_sizes(n_samples, n_features, n_classes)
    random = _random_state("seed", seed)
    centres = random.randn(n_classes, n_features)  # drawn in any case: the samples come after it
    if centres_seed is not None:
        centres = _random_state("centres_seed", centres_seed).randn(n_classes, n_features)
    each, n_larger = divmod(n_samples, n_classes)
    labels = np.repeat(np.arange(n_classes, dtype=np.int64), each + (np.arange(n_classes) < n_larger))
    features = random.randn(n_samples, n_features) * class_sd + centres[labels]
    order = random.permutation(n_samples)
    world = f"{seed}" if centres_seed is None else f"{seed}@{centres_seed}"
    return Records(
        features=features[order].astype(np.float32),
        labels=labels[order],
        ids=numbered_ids(f"gaussian-{world}-", n_samples, width=4),
        name="gaussian",
        class_names=tuple(f"class {index}" for index in range(n_classes)),
    )


def overlapping(seed: int = 0, n_samples: int = 4000, class_sd: float = 2.5) -> Records:
    """Records of ten Gaussian classes in twenty dimensions that overlap far.

    A network that fits them memorizes them, so its outputs reveal members without reference models.

    Args:
        seed: seed of the samples and of the centres.
        n_samples: number of records.
        class_sd: standard deviation of every class; the centres' is 1.
    """
    return replace(gaussian(seed, n_samples, 20, 10, class_sd=class_sd), name="overlapping")


def split(seed: int, n_samples: int, train_fraction: float = 0.5) -> BoolArray:
    """Who is a member: bool (n_samples,), true for the first rows of a fresh permutation."""
    in_mask = np.zeros(n_samples, dtype=np.bool_)
    in_mask[member_order(seed, n_samples, train_fraction)] = True
    return in_mask


def member_order(seed: int, n_samples: int, train_fraction: float) -> IntArray:
    """The members' rows in the order of the permutation; int64 (members,).

    Raises:
        InputError: `train_fraction` leaves no members, or no non-members.
    """
    n_members = int(n_samples * train_fraction) if 0 < train_fraction < 1 else 0
    if not 0 < n_members < n_samples:
        raise InputError(
            f"train_fraction={train_fraction} of n_samples={n_samples} leaves one side of the split empty; "
            "give a fraction between 0 and 1 that leaves at least one record on each side"
        )
    order: IntArray = _random_state("seed", seed).permutation(n_samples)
    return order[:n_members]


def _check_sizes(n_samples: int, n_features: int, n_classes: int) -> None:
    problems = []
    if n_classes < 2:
        problems.append(f"n_classes={n_classes} must be at least 2")
    if n_features < 1:
        problems.append(f"n_features={n_features} must be at least 1")
    if n_samples < 2 * n_classes:
        least = 2 * max(n_classes, 2)
        problems.append(f"n_samples={n_samples} must be at least {least}: two records for each class")
    if problems:
        raise InputError("gaussian: " + "; ".join(problems))


def _random_state(argument: str, seed: int) -> np.random.RandomState:
    if not 0 <= seed <= _LARGEST_SEED:
        raise InputError(f"{argument}={seed} must be a whole number from 0 to {_LARGEST_SEED}")
    return np.random.RandomState(seed)
