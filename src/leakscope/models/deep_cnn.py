"""A deeper plain convolutional network (VGG's pattern), for images of any size from 8 x 8."""

from __future__ import annotations

from torch import nn

from leakscope.models.image_shape import check_images


def deep_cnn(input_shape: tuple[int, ...], n_classes: int, channels: int = 32) -> nn.Module:
    """Three stages of two 3x3 convolutions, each halving the image and doubling the channels."""
    check_images("deep_cnn", input_shape, smallest=8)
    layers: list[nn.Module] = []
    n_in = input_shape[0]
    for n_out in (channels, 2 * channels, 4 * channels):
        for _ in range(2):
            layers += [nn.Conv2d(n_in, n_out, 3, padding=1, bias=False), nn.BatchNorm2d(n_out), nn.ReLU()]
            n_in = n_out
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(n_in, n_classes))
