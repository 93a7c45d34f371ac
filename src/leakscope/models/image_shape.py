"""The shapes that convolutional networks accept."""

from __future__ import annotations

from leakscope.errors import InputError


def check_images(net: str, input_shape: tuple[int, ...], smallest: int) -> None:
    """Raises unless records are images of at least `smallest` x `smallest` pixels."""
    if len(input_shape) != 3:
        raise InputError(f"{net}: records must be images (channels, height, width), got shape {input_shape}")
    if min(input_shape[1:]) < smallest:
        raise InputError(
            f"{net}: images must be at least {smallest} x {smallest}, got shape {input_shape}; use net='mlp'"
        )
