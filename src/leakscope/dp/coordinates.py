"""Which coordinate of which parameter each canary owns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from leakscope.array_types import FloatArray, IntArray
from leakscope.errors import InputError

_LEAST_IN_GROUP = 30


class Coordinates:
    """One coordinate per canary, spread evenly over the parameter tensors, none used twice.

    A tensor that the code under test forgets to clip or to noise then shows in its own canaries, and the
    gradients of two canaries never mix.
    """

    def __init__(self, shapes: Sequence[torch.Size], n_canaries: int, rng: np.random.Generator) -> None:
        sizes = np.array([shape.numel() for shape in shapes])
        if n_canaries > sizes.sum():
            raise InputError(
                f"{n_canaries:,} canaries, but the model has {sizes.sum():,} trainable parameters; each "
                "canary needs one of its own: ask for fewer"
            )
        numbers = evenly_shared(n_canaries, sizes)
        places = [np.sort(rng.choice(size, n, replace=False)) for size, n in zip(sizes, numbers, strict=True)]
        owner = np.repeat(np.arange(len(sizes)), numbers)
        shuffled = rng.permutation(n_canaries)  # canary -> position in the concatenation of all tensors
        self._places = [torch.from_numpy(place) for place in places]
        self._position = torch.from_numpy(shuffled)
        self.tensor = owner[shuffled]
        self.place = np.concatenate(places)[shuffled]
        self.group = _groups(self.tensor, numbers)

    def read(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        """The canaries' coordinates of parameters, or of their gradients; (canaries,), differentiable."""
        parts = [t.reshape(-1)[place.to(t.device)] for t, place in zip(tensors, self._places, strict=True)]
        joined = torch.cat([part.to(parts[0].device, parts[0].dtype) for part in parts])
        return joined[self._position.to(joined.device)]


def evenly_shared(total: int, sizes: IntArray) -> IntArray:
    """Shares of a total, as equal as possible, none above its size; int64 (sizes,)."""
    shares = np.zeros(len(sizes), dtype=np.int64)
    while (left := total - shares.sum()) > 0:
        open_ = np.flatnonzero(shares < sizes)
        each = max(1, left // len(open_))
        for index in open_:
            shares[index] += min(each, sizes[index] - shares[index], total - shares.sum())
    return shares


def _groups(tensor: IntArray, numbers: IntArray) -> list[IntArray]:
    """Canaries whose scores share a center and a scale: those of one tensor; small tensors stand together.

    A group that is still small joins the largest one: its own spread would be guesswork.
    """
    is_large = numbers >= _LEAST_IN_GROUP
    groups = [np.flatnonzero(tensor == index) for index in np.flatnonzero(is_large)]
    rest = np.flatnonzero(~is_large[tensor])
    if not len(rest):
        return groups
    groups.sort(key=len)
    if groups and len(rest) < _LEAST_IN_GROUP:
        rest = np.concatenate([groups.pop(), rest])
    return [*groups, rest]


def standardized(values: FloatArray, groups: Sequence[IntArray]) -> FloatArray:
    """Values around the mean of their group, in units of the spread within its upper and lower part.

    The mean lies between canaries that are in and canaries that are out. The spread within the parts
    is that of the noise, also where the two are far apart. No coin is looked at.
    """
    result = np.empty_like(values)
    for group in groups:
        centered = values[group] - values[group].mean()
        is_upper = centered > 0
        residual = centered.copy()
        for part in (is_upper, ~is_upper):
            if part.any():
                residual[part] -= centered[part].mean()
        spread = max(float(np.sqrt((residual**2).mean())), 1e-6 * float(np.abs(centered).max()))
        result[group] = centered / spread if spread > 0 else 0.0
    return result
