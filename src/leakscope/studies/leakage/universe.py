"""The records of the leakage study in principal components, and the chosen ones among them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from leakscope.array_types import AnyArray, FloatArray, IntArray
from leakscope.data import registry
from leakscope.data.published import data_root
from leakscope.errors import InputError
from leakscope.randomness import Purpose, generator
from leakscope.types import Records


class Universe(NamedTuple):
    """All records, and those whose leakage is measured.

    Attributes:
        name: of the dataset.
        features: float64 (records, components), principal components in descending order of variance.
        targets: float64 (records,), from 0 to 1.
        ids: of all records.
        chosen: int64, indices of the chosen records; a smaller study has the first of them.
    """

    name: str
    features: FloatArray
    targets: FloatArray
    ids: AnyArray
    chosen: IntArray


def available_dataset(data_dir: Path | None) -> str:
    """ "adult" where its files are present, otherwise "digits"."""
    return "adult" if registry.dataset("adult").is_present(data_root(data_dir)) else "digits"


def load_universe(dataset: str, n_chosen: int, seed: int, data_dir: Path | None = None) -> Universe:
    """The records in principal components, and `n_chosen` of them chosen at random.

    Features are centered and scaled; a constant one stays 0. The components come from all records, chosen or
    not: they are part of the public preprocessing, as in Farokhi and Kaafar (2020).
    """
    options = {"encoding": "integer"} if dataset == "adult" else {}
    records: Records = registry.load(dataset, data_dir, **options)
    x = records.features.reshape(len(records), -1).astype(np.float64)
    spread = x.std(axis=0)
    x = (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    _, directions = np.linalg.eigh(x.T @ x)
    directions = directions[:, ::-1]
    largest = np.abs(directions).argmax(axis=0)  # an eigenvector's sign is arbitrary; this fixes it
    directions = directions * np.sign(directions[largest, np.arange(len(largest))])
    if n_chosen > len(records) // 2:
        raise InputError(
            f"records={n_chosen}: choose at most half of the {len(records):,} records of {records.name}"
        )
    chosen = chosen_records(len(records), n_chosen, seed)
    targets = records.labels.astype(np.float64) / max(records.n_classes - 1, 1)  # 0 to 1
    return Universe(records.name, x @ directions, targets, records.ids, chosen)


def chosen_records(n_records: int, n_chosen: int, seed: int) -> IntArray:
    """Indices of records drawn at random; more of them begin with the same ones."""
    return generator(seed, 0, Purpose.DESIGN).permutation(n_records)[:n_chosen]
