"""ResNet-18 (He et al. 2016) for small images: a 3x3 stem without pooling, four stages of two blocks."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from leakscope.models.image_shape import check_images


def resnet18(input_shape: tuple[int, ...], n_classes: int, channels: int = 64) -> nn.Module:
    """Eleven million parameters at the usual 64 channels."""
    check_images("resnet18", input_shape, smallest=8)
    layers: list[nn.Module] = [_conv3(input_shape[0], channels), nn.BatchNorm2d(channels), nn.ReLU()]
    n_in = channels
    for stage in range(4):
        n_out = channels * 2**stage
        layers += [ResidualBlock(n_in, n_out, stride=1 if stage == 0 else 2), ResidualBlock(n_out, n_out)]
        n_in = n_out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(n_in, n_classes))


class ResidualBlock(nn.Module):
    """Two convolutions and a shortcut, which is a 1x1 convolution where the shape changes."""

    def __init__(self, n_in: int, n_out: int, stride: int = 1) -> None:
        super().__init__()
        self.first, self.first_norm = _conv3(n_in, n_out, stride), nn.BatchNorm2d(n_out)
        self.second, self.second_norm = _conv3(n_out, n_out), nn.BatchNorm2d(n_out)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or n_in != n_out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out)
            )

    def forward(self, x: Tensor) -> Tensor:
        """(rows, channels, height, width) -> the same, with this block's channels and stride."""
        inner = functional.relu(self.first_norm(self.first(x)))
        return functional.relu(self.second_norm(self.second(inner)) + self.shortcut(x))


def _conv3(n_in: int, n_out: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(n_in, n_out, 3, stride, padding=1, bias=False)
