"""A shallow convolutional network for images of any size from 4 x 4."""

from __future__ import annotations

from torch import nn

from leakscope.models.image_shape import check_images


def cnn(
    input_shape: tuple[int, ...], n_classes: int, channels: int = 16, batch_norm: bool = True
) -> nn.Module:
    """Two 3x3 convolutions with pooling, then a linear layer on a 4 x 4 map."""
    check_images("cnn", input_shape, smallest=4)
    layers: list[nn.Module] = []
    for n_in, n_out in ((input_shape[0], channels), (channels, 2 * channels)):
        layers.append(nn.Conv2d(n_in, n_out, 3, padding=1, bias=not batch_norm))
        if batch_norm:
            layers.append(nn.BatchNorm2d(n_out))
        layers += [nn.ReLU(), nn.MaxPool2d(2)]
    head = [nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(2 * channels * 16, n_classes)]
    return nn.Sequential(*layers, *head)
