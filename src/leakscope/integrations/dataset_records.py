"""Records from a torch dataset, and models of a population trained on parts of it.

The features of a record are the inputs of a model, all of them, flattened side by side into one row of
float32: exact for token ids, masks and pixels. So a model's `predict(features)` is a function of the features
alone, and equal records are detected as such.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any, cast

import numpy as np
import torch

from leakscope.array_types import AnyArray, IntArray
from leakscope.errors import InputError
from leakscope.types import Records

_LARGEST_EXACT = 2**24
"""Integers up to this are exact in float32."""


@dataclass(frozen=True)
class Input:
    """One input of a model.

    Attributes:
        name: its name.
        shape: shape for one record.
        dtype: of the tensor that the model takes, such as "int64".
    """

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Layout:
    """Where the inputs of a model are in the features of its records."""

    inputs: tuple[Input, ...]

    @staticmethod
    def of(tensors: Mapping[str, torch.Tensor]) -> Layout:
        """The layout of the inputs of some records, (records, ...) each."""
        return Layout(
            tuple(
                Input(name, tuple(values.shape[1:]), str(values.dtype).removeprefix("torch."))
                for name, values in tensors.items()
            )
        )

    def features(self, tensors: Mapping[str, torch.Tensor]) -> AnyArray:
        """The inputs as features; float32 (records, numbers)."""
        for one in self.inputs:
            require_exact(one.name, tensors[one.name])
        flat = [tensors[one.name].reshape(len(tensors[one.name]), -1).float() for one in self.inputs]
        return torch.cat(flat, dim=1).numpy()

    def tensors(self, features: AnyArray) -> dict[str, torch.Tensor]:
        """Features as the inputs that they were made of."""
        ends = np.cumsum([prod(one.shape) for one in self.inputs])
        parts = np.split(features, ends[:-1], axis=1)
        return {
            one.name: torch.tensor(part).reshape(-1, *one.shape).to(getattr(torch, one.dtype))
            for one, part in zip(self.inputs, parts, strict=True)
        }


def require_exact(name: str, values: torch.Tensor) -> None:
    """Raises InputError where float32 would round integers."""
    if not values.is_floating_point() and values.long().abs().max() > _LARGEST_EXACT:
        raise InputError(f"{name} has integers above {_LARGEST_EXACT:,}, which float32 rounds")


def records_of(features: AnyArray, labels: torch.Tensor, class_names: Sequence[str], name: str) -> Records:
    """Records whose ids are their positions in the dataset; numeric labels make a regression."""
    is_classes = not labels.is_floating_point()
    if labels.ndim != 1:
        raise InputError(f"labels have shape {tuple(labels.shape)}; an audit needs one label per record")
    return Records(
        features=features,
        labels=labels.numpy().astype(np.int64 if is_classes else np.float32),
        ids=np.arange(len(labels)).astype(np.str_),
        name=name,
        class_names=tuple(class_names) if is_classes else (),
    )


def part_of(dataset: Any, indices: IntArray) -> Any:
    """The part of a dataset at `indices`."""
    rows = indices.tolist()
    return dataset.select(rows) if hasattr(dataset, "select") else torch.utils.data.Subset(dataset, rows)


def seed_everything(seed: int) -> None:
    """Seeds the generators of Python, numpy and torch."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


@contextmanager
def restored_generators() -> Iterator[None]:
    """Restores the generators of Python, numpy and torch at the end of the block."""
    of_python, of_numpy, cuda = random.getstate(), np.random.get_state(), cast(Any, torch.cuda)
    devices = list(range(cuda.device_count())) if cuda.is_initialized() else []
    with torch.random.fork_rng(devices=devices):
        try:
            yield
        finally:
            random.setstate(of_python)
            np.random.set_state(of_numpy)


@contextmanager
def fixed_draws() -> Iterator[None]:
    """The same random numbers every time, so that a dataset with augmentation has the same records."""
    with restored_generators():
        seed_everything(0)
        yield
