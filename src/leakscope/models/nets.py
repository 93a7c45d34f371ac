"""The networks we ship: linear, perceptrons, and convolutional networks for small images."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Literal, get_args

from torch import Tensor, nn
from torch.nn import functional

from leakscope.errors import InputError

Norm = Literal["batch", "group", "none"]
"""Batch norm mixes the rows of a batch, which rules out DP-SGD; group norm treats every row by itself."""

_GROUPS = (8, 4, 2)  # numbers of groups to try,
_CHANNELS_OF_A_GROUP = 4  # and the fewest channels of each: one alone would be standardized away
_ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh}


def linear(input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """One linear layer on the flattened input: multinomial logistic regression."""
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(input_shape), n_classes))


def mlp(
    input_shape: tuple[int, ...],
    n_classes: int,
    width: int = 128,
    depth: int = 1,
    activation: str = "relu",
    dropout: float = 0.0,
    norm: Norm = "none",
) -> nn.Module:
    """`depth` hidden layers of `width` units on the flattened input."""
    if width < 1 or depth < 1:
        raise InputError(f"mlp: width={width}, depth={depth}: both must be at least 1")
    if activation not in _ACTIVATIONS:
        raise InputError(f"mlp: activation={activation!r}: choose one of {', '.join(_ACTIVATIONS)}")
    layers: list[nn.Module] = [nn.Flatten()]
    n_in = prod(input_shape)
    for _ in range(depth):
        layers += [nn.Linear(n_in, width), *_norms("mlp", norm, width, nn.BatchNorm1d)]
        layers.append(_ACTIVATIONS[activation]())
        if dropout:
            layers.append(nn.Dropout(dropout))
        n_in = width
    return nn.Sequential(*layers, nn.Linear(n_in, n_classes))


def cnn(input_shape: tuple[int, ...], n_classes: int, channels: int = 16, norm: Norm = "batch") -> nn.Module:
    """Two 3x3 convolutions with pooling, then a linear layer on a 4 x 4 map; for images from 4 x 4."""
    _check_images("cnn", input_shape, smallest=4)
    layers: list[nn.Module] = []
    for n_in, n_out in ((input_shape[0], channels), (channels, 2 * channels)):
        layers.append(nn.Conv2d(n_in, n_out, 3, padding=1, bias=norm == "none"))
        layers += [*_norms("cnn", norm, n_out), nn.ReLU(), nn.MaxPool2d(2)]
    head = [nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(2 * channels * 16, n_classes)]
    return nn.Sequential(*layers, *head)


def deep_cnn(
    input_shape: tuple[int, ...], n_classes: int, channels: int = 32, norm: Norm = "batch"
) -> nn.Module:
    """VGG's pattern: three stages of two 3x3 convolutions that halve the image and double the channels."""
    _check_images("deep_cnn", input_shape, smallest=8)
    layers: list[nn.Module] = []
    n_in = input_shape[0]
    for n_out in (channels, 2 * channels, 4 * channels):
        for _ in range(2):
            layers.append(nn.Conv2d(n_in, n_out, 3, padding=1, bias=norm == "none"))
            layers += [*_norms("deep_cnn", norm, n_out), nn.ReLU()]
            n_in = n_out
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(n_in, n_classes))


def resnet18(
    input_shape: tuple[int, ...],
    n_classes: int,
    channels: int = 64,
    stem: str = "small",
    norm: Norm = "batch",
) -> nn.Module:
    """ResNet-18 (He et al. 2016): a stem and four stages of two blocks.

    The small stem, for small images, is a 3x3 convolution; the large one, torchvision's, a 7x7 convolution of
    stride 2 and a max pooling.
    """
    _check_images("resnet18", input_shape, smallest=8)
    if stem not in ("small", "large"):
        raise InputError(f"resnet18: stem={stem!r}: choose small or large")
    layers: list[nn.Module] = (
        [_conv3(input_shape[0], channels), _norm("resnet18", norm, channels), nn.ReLU()]
        if stem == "small"
        else [
            nn.Conv2d(input_shape[0], channels, 7, 2, padding=3, bias=False),
            _norm("resnet18", norm, channels),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, padding=1),
        ]
    )
    n_in = channels
    for stage in range(4):
        n_out = channels * 2**stage
        stride = 1 if stage == 0 else 2
        layers += [ResidualBlock(n_in, n_out, stride, norm), ResidualBlock(n_out, n_out, 1, norm)]
        n_in = n_out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(n_in, n_classes))


class ResidualBlock(nn.Module):
    """Two convolutions and a shortcut, which is a 1x1 convolution where the shape changes."""

    def __init__(self, n_in: int, n_out: int, stride: int = 1, norm: Norm = "batch") -> None:
        super().__init__()
        self.first, self.first_norm = _conv3(n_in, n_out, stride), _norm("resnet18", norm, n_out)
        self.second, self.second_norm = _conv3(n_out, n_out), _norm("resnet18", norm, n_out)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or n_in != n_out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(n_in, n_out, 1, stride, bias=False), _norm("resnet18", norm, n_out)
            )

    def forward(self, x: Tensor) -> Tensor:
        """(rows, channels, height, width) -> the same, with this block's channels and stride."""
        inner = functional.relu(self.first_norm(self.first(x)))
        return functional.relu(self.second_norm(self.second(inner)) + self.shortcut(x))


def _conv3(n_in: int, n_out: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(n_in, n_out, 3, stride, padding=1, bias=False)


def wide_resnet(
    input_shape: tuple[int, ...],
    n_classes: int,
    depth: int = 28,
    widen: int = 2,
    dropout: float = 0.0,
    norm: Norm = "batch",
) -> nn.Module:
    """WRN-`depth`-`widen` (Zagoruyko and Komodakis 2016): three stages of (depth - 4) / 6 blocks."""
    _check_images("wide_resnet", input_shape, smallest=8)
    if depth < 10 or (depth - 4) % 6 or widen < 1:
        raise InputError(
            f"wide_resnet: depth={depth}, widen={widen}: depth must be 6n + 4 (10, 16, 22, 28, ...) "
            "and widen at least 1"
        )
    widths = [16, 16 * widen, 32 * widen, 64 * widen]
    layers: list[nn.Module] = [nn.Conv2d(input_shape[0], widths[0], 3, padding=1, bias=False)]
    for stage, (n_in, n_out) in enumerate(pairwise(widths)):
        for block in range((depth - 4) // 6):
            stride = 2 if stage > 0 and block == 0 else 1
            layers.append(PreactivationBlock(n_in if block == 0 else n_out, n_out, stride, dropout, norm))
    head = [_norm("wide_resnet", norm, widths[-1]), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, *head, nn.Linear(widths[-1], n_classes))


class PreactivationBlock(nn.Module):
    """Norm, relu, convolution, twice; where the shape changes the shortcut starts after the first relu."""

    def __init__(self, n_in: int, n_out: int, stride: int, dropout: float, norm: Norm = "batch") -> None:
        super().__init__()
        self.first_norm = _norm("wide_resnet", norm, n_in)
        self.first = nn.Conv2d(n_in, n_out, 3, stride, padding=1, bias=False)
        self.second_norm = _norm("wide_resnet", norm, n_out)
        self.second = nn.Conv2d(n_out, n_out, 3, padding=1, bias=False)
        self.dropout: nn.Module = nn.Dropout(dropout) if dropout else nn.Identity()
        self.shortcut: nn.Module | None = None
        if stride != 1 or n_in != n_out:
            self.shortcut = nn.Conv2d(n_in, n_out, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(rows, channels, height, width) -> the same, with this block's channels and stride."""
        active = functional.relu(self.first_norm(x))
        inner = self.dropout(functional.relu(self.second_norm(self.first(active))))
        outer: Tensor = x if self.shortcut is None else self.shortcut(active)
        outputs: Tensor = outer + self.second(inner)
        return outputs


def _norm(net: str, kind: Norm, n: int) -> nn.Module:
    """The norm of a network that has one after every convolution."""
    if kind == "none":
        raise InputError(f"{net}: norm='none': choose batch or group")
    (norm,) = _norms(net, kind, n)
    return norm


def _norms(net: str, kind: Norm, n: int, batch: type[nn.Module] = nn.BatchNorm2d) -> list[nn.Module]:
    """The norm of `n` channels, if any; group norm has 8 equal groups, or fewer where channels are few."""
    if kind not in get_args(Norm):
        raise InputError(f"{net}: norm={kind!r}: choose one of {', '.join(get_args(Norm))}")
    if kind == "none":
        return []
    if kind == "batch":
        return [batch(n)]
    fitting = (g for g in _GROUPS if n % g == 0 and n // g >= _CHANNELS_OF_A_GROUP)
    return [nn.GroupNorm(next(fitting, 1), n)]


def _check_images(net: str, input_shape: tuple[int, ...], smallest: int) -> None:
    """Raises unless records are images of at least `smallest` x `smallest` pixels."""
    if len(input_shape) != 3:
        raise InputError(
            f"{net}: records must be images (channels, height, width), got shape {input_shape}; "
            "use net='mlp' or a dataset of images"
        )
    if min(input_shape[1:]) < smallest:
        raise InputError(
            f"{net}: images must be at least {smallest} x {smallest}, got shape {input_shape}; use net='mlp'"
        )
