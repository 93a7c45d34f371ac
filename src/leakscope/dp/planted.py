"""Placeholder records that stand for canaries in a training set, and how a batch is searched for them.

A placeholder has the shape and type of an ordinary record, and one number in all its entries, which says
which canary it is. It survives shuffling, sampling, loader processes, flips and crops without padding. It
does not survive arithmetic on the features: plant canaries after a step that standardizes them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import Dataset

from leakscope.array_types import IntArray
from leakscope.errors import InputError

FIRST_CODE = -(2**22)
"""The code of canary 0; canary i has this minus i. float32 holds such integers exactly; data hardly do."""
MOST_CANARIES = 2**22
DAMAGED = -2
"""In place of a canary's number: a row with parts of a placeholder."""
_EXACT = (torch.float32, torch.float64, torch.int32, torch.int64)


def placeholder(like: torch.Tensor, canary: int) -> torch.Tensor:
    """The placeholder of a canary, of the shape and type of an ordinary record's features."""
    if like.dtype not in _EXACT or like.numel() == 0:
        raise InputError(
            f"features of type {like.dtype} and shape {tuple(like.shape)}: canaries are planted among "
            "float32, float64, int32 or int64 features; plant them after the conversion"
        )
    return torch.full_like(like, FIRST_CODE - canary)


def canaries_in(features: torch.Tensor, n_canaries: int) -> torch.Tensor:
    """Which canary each row is; int64 (rows,), -1 for an ordinary record, DAMAGED for a changed placeholder.

    Raises:
        InputError: features of a type that cannot tell placeholders apart.
    """
    if features.dtype not in _EXACT:
        raise InputError(
            f"features reach the model as {features.dtype}, in which canaries cannot be distinguished: cast "
            "them inside the model, or train in float32 for the test"
        )
    flat = by_row(features)
    first = flat[:, 0]
    canary = FIRST_CODE - first
    is_code = (flat <= FIRST_CODE) & (flat > FIRST_CODE - n_canaries)
    is_one = is_code.all(dim=1) & (flat == first[:, None]).all(dim=1) & (canary == canary.round())
    other = torch.where(is_code.any(dim=1), DAMAGED, -1)
    return torch.where(is_one, canary, other).to(torch.int64)


def by_row(tensor: torch.Tensor) -> torch.Tensor:
    """All entries of each row, (rows, entries); a batch may have no rows."""
    return tensor.flatten(1) if tensor.ndim > 1 else tensor[:, None]


class PlantedDataset(Dataset[Any]):
    """A dataset with placeholder records of the canaries that are in at its end."""

    def __init__(self, dataset: Any, canaries: IntArray) -> None:
        if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__") or len(dataset) == 0:
            raise InputError(
                f"{type(dataset).__name__}: canaries are planted in a dataset with len() and [index]"
            )
        self._dataset, self._canaries = dataset, canaries
        self._likeness = dataset[0]
        if not isinstance(self._likeness, tuple | list) or not torch.is_tensor(self._likeness[0]):
            raise InputError(
                "records have to be tuples with a tensor of features first; "
                f"the first record is a {type(self._likeness).__name__}"
            )
        placeholder(self._likeness[0], 0)

    def __len__(self) -> int:
        return len(self._dataset) + len(self._canaries)

    def __getitem__(self, index: int) -> Any:
        n = len(self._dataset)
        index = index + len(self) if index < 0 else index
        if index < n:
            return self._dataset[index]
        features = placeholder(self._likeness[0], int(self._canaries[index - n]))
        return type(self._likeness)((features, *self._likeness[1:]))
