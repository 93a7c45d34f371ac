"""Hooks that give canaries their gradients inside somebody else's training loop.

The features of a canary are replaced before the model sees them, and its output is replaced on the way out.
The backward pass of that output ends in the one parameter that the canary owns. What then happens to the
gradient, per record or per batch, is up to the loop. Opacus computes gradients of single records
layer by layer, beside the backward pass: there, rows of `grad_sample` are replaced before they are clipped.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from leakscope.array_types import IntArray
from leakscope.dp.planted import DAMAGED, by_row
from leakscope.errors import InputError

_OUTPUT = 0.5  # of canaries; the slope of no usual loss vanishes there


class Tally:
    """How many canary rows a backward pass reached outside torch.func, and how many had a slope."""

    def __init__(self) -> None:
        self.n_rows, self.n_with_slope = 0, 0

    def count(self, canary: torch.Tensor, on_owned: torch.Tensor) -> None:
        """Counts the rows of one backward pass; inside torch.func, values cannot be looked at."""
        if torch._C._functorch.is_functorch_wrapped_tensor(on_owned):
            return
        self.n_rows += int((canary >= 0).sum())
        self.n_with_slope += int((on_owned > 0).sum())


class CanaryRows(torch.autograd.Function):
    """Outputs of a batch; those of canaries act on one parameter each, and on nothing else."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        output: torch.Tensor,
        owned: torch.Tensor,
        canary: torch.Tensor,
        norm: float,
        silent: bool,
        tally: Tally,
    ) -> torch.Tensor:
        """The outputs, a constant for canaries."""
        return torch.where(along(canary >= 0, output), torch.full_like(output, _OUTPUT), output)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        """Remembers which rows are canaries."""
        _, _, canary, ctx.norm, ctx.silent, ctx.tally = inputs
        ctx.save_for_backward(canary)

    @staticmethod
    def backward(ctx: Any, slope: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """All of a canary's slope, times `norm`, goes to the parameter it owns."""
        (canary,) = ctx.saved_tensors
        is_canary = canary >= 0
        on_owned = by_row(slope).abs().sum(dim=1) * is_canary * ctx.norm
        ctx.tally.count(canary, on_owned)
        keep = ~is_canary & (not ctx.silent)
        return torch.where(along(keep, slope), slope, 0.0), on_owned, None, None, None, None


def along(rows: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """One value per row, shaped so that it applies to all entries of its row."""
    return rows.reshape(rows.shape[0], *[1] * (like.ndim - 1))


class Sighting:
    """The rows of one forward pass that are canaries."""

    def __init__(self, canary: torch.Tensor) -> None:
        plain = _without_transforms(canary)
        self.n_rows = len(plain)
        self.rows = np.flatnonzero(plain >= 0)
        self.canaries = plain[self.rows]
        self.n_damaged = int((plain == DAMAGED).sum())


def _without_transforms(tensor: torch.Tensor) -> IntArray:
    """The rows of a tensor, also of one that torch.func (vmap, grad) wraps; int64 (rows,)."""
    functorch = torch._C._functorch
    while functorch.is_functorch_wrapped_tensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
    with torch._C._DisableFuncTorch():
        return tensor.detach().reshape(-1).cpu().numpy()


def rows_of_samples(sightings: list[Sighting], n_rows: int) -> list[tuple[int, int]]:
    """(row, canary) pairs of gradients per sample, which stem from the last forward passes.

    Raises:
        InputError: the rows are not those of whole forward passes.
    """
    used: list[Sighting] = []
    for sighting in reversed(sightings):
        if sum(s.n_rows for s in used) >= n_rows:
            break
        used.insert(0, sighting)
    if sum(s.n_rows for s in used) != n_rows:
        raise InputError(
            f"{n_rows} gradients per sample, but the last forward passes had "
            f"{[s.n_rows for s in sightings[-3:]]} rows: the model of attach() computed other batches"
        )
    pairs, offset = [], 0
    for sighting in used:
        pairs += [(offset + int(r), int(c)) for r, c in zip(sighting.rows, sighting.canaries, strict=True)]
        offset += sighting.n_rows
    return pairs
