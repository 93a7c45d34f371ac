"""A small convolutional network for images of any size from 4 x 4."""

from __future__ import annotations

from torch import nn

from leakscope.errors import InputError


def cnn(
    input_shape: tuple[int, ...], n_classes: int, channels: int = 16, batch_norm: bool = True
) -> nn.Module:
    """Two 3x3 convolutions with pooling, then a linear layer on a 4 x 4 map."""
    if len(input_shape) != 3:
        raise InputError(f"cnn: records must be images (channels, height, width), got shape {input_shape}")
    if min(input_shape[1:]) < 4:
        raise InputError(f"cnn: images must be at least 4 x 4, got shape {input_shape}; use net='mlp'")
    layers: list[nn.Module] = []
    for n_in, n_out in ((input_shape[0], channels), (channels, 2 * channels)):
        layers.append(nn.Conv2d(n_in, n_out, 3, padding=1, bias=not batch_norm))
        if batch_norm:
            layers.append(nn.BatchNorm2d(n_out))
        layers += [nn.ReLU(), nn.MaxPool2d(2)]
    head = [nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(2 * channels * 16, n_classes)]
    return nn.Sequential(*layers, *head)
