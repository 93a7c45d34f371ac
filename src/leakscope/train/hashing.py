"""Random numbers as a hash of (key, position): the same on every device, in every block, inside vmap."""

from __future__ import annotations

from torch import Tensor

WEYL = -7046029254386353131
"""splitmix64's odd increment, from one position to the next."""
_MULTIPLIERS = (-4658895280553007687, -7723592293110705685)  # splitmix64's two, as signed integers


def mixed(bits: Tensor) -> Tensor:
    """splitmix64's mixing of int64 numbers: 64 bits, each of which depends on all."""
    for shift, multiplier in zip((30, 27), _MULTIPLIERS, strict=True):
        bits = (bits ^ shifted(bits, shift)) * multiplier
    return bits ^ shifted(bits, 31)


def shifted(bits: Tensor, by: int) -> Tensor:
    """Logical shift right; torch's shift of a signed integer copies the sign."""
    return (bits >> by) & ((1 << (64 - by)) - 1)
