"""Wide residual networks (Zagoruyko and Komodakis 2016): WRN-28-2 by default."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn
from torch.nn import functional

from leakscope.errors import InputError
from leakscope.models.image_shape import check_images


def wide_resnet(
    input_shape: tuple[int, ...], n_classes: int, depth: int = 28, widen: int = 2, dropout: float = 0.0
) -> nn.Module:
    """WRN-`depth`-`widen`: three stages of (depth - 4) / 6 pre-activation blocks."""
    check_images("wide_resnet", input_shape, smallest=8)
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
            layers.append(PreactivationBlock(n_in if block == 0 else n_out, n_out, stride, dropout))
    head = [nn.BatchNorm2d(widths[-1]), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, *head, nn.Linear(widths[-1], n_classes))


class PreactivationBlock(nn.Module):
    """Norm, relu, convolution, twice; where the shape changes the shortcut starts after the first relu."""

    def __init__(self, n_in: int, n_out: int, stride: int, dropout: float) -> None:
        super().__init__()
        self.first_norm = nn.BatchNorm2d(n_in)
        self.first = nn.Conv2d(n_in, n_out, 3, stride, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(n_out)
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
