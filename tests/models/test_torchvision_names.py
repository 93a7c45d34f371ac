"""Weights under torchvision's names: a made-up state dict of its names and shapes gives the same outputs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from leakscope.errors import InputError
from leakscope.models.weights import load_net

CHANNELS, CLASSES = 8, 5


class Block(nn.Module):
    """torchvision's BasicBlock, written down again."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(n_out)
        self.conv2 = nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(n_out)
        self.downsample = None
        if stride != 1 or n_in != n_out:
            self.downsample = nn.Sequential(
                nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out)
            )

    def forward(self, x: Tensor) -> Tensor:
        inner = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        return functional.relu(inner + (x if self.downsample is None else self.downsample(x)))


class Named(nn.Module):
    """torchvision's ResNet-18 by its names; `large` chooses its own stem."""

    def __init__(self, large: bool, blocks: int = 2) -> None:
        super().__init__()
        kernel, stride, padding = (7, 2, 3) if large else (3, 1, 1)
        self.conv1 = nn.Conv2d(3, CHANNELS, kernel, stride, padding, bias=False)
        self.bn1 = nn.BatchNorm2d(CHANNELS)
        self.maxpool = nn.MaxPool2d(3, 2, 1) if large else nn.Identity()
        n_in = CHANNELS
        for stage in range(4):
            n_out = CHANNELS * 2**stage
            layers = [Block(n_in, n_out, 1 if stage == 0 else 2)]
            layers += [Block(n_out, n_out, 1) for _ in range(blocks - 1)]
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layers))
            n_in = n_out
        self.fc = nn.Linear(n_in, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(functional.relu(self.bn1(self.conv1(x))))
        for stage in range(4):
            x = getattr(self, f"layer{stage + 1}")(x)
        logits: Tensor = self.fc(functional.adaptive_avg_pool2d(x, 1).flatten(1))
        return logits


def saved(path: Path, net: nn.Module) -> Path:
    torch.manual_seed(0)
    for tensor in net.state_dict().values():
        if tensor.is_floating_point():
            tensor.uniform_(0.1, 0.9)  # running variances must be positive
    torch.save(net.state_dict(), path)
    return path


@pytest.mark.parametrize(("stem", "size"), [("small", 16), ("large", 64)])
def test_the_outputs_are_those_of_the_named_network(tmp_path: Path, stem: str, size: int) -> None:
    theirs = Named(large=stem == "large").eval()
    path = saved(tmp_path / "net.pt", theirs)
    options = {"channels": CHANNELS} | ({} if stem == "small" else {"stem": stem})
    ours = load_net(path, "resnet18", options, (3, size, size), CLASSES)
    images = torch.rand(4, 3, size, size)
    with torch.no_grad():
        torch.testing.assert_close(ours(images), theirs(images))


def test_every_name_of_torchvision_is_known_and_none_is_left_over(tmp_path: Path) -> None:
    state = Named(large=True).state_dict()
    assert len(state) == 122  # 62 parameters, 60 buffers of 20 batch norms
    path = saved(tmp_path / "net.pt", Named(large=True))
    ours = load_net(path, "resnet18", {"channels": CHANNELS, "stem": "large"}, (3, 64, 64), CLASSES)
    assert len(ours.state_dict()) == 122


@pytest.mark.parametrize(
    ("large", "options", "message"),
    [
        (True, {}, r'7x7 convolution as stem, the net has stem=\'small\'; .*\{"stem": "large"\}'),
        (False, {"stem": "large"}, r'3x3 convolution as stem, .*\{"stem": "small"\}'),
    ],
)
def test_another_stem_is_refused_with_the_option_to_give(
    tmp_path: Path, large: bool, options: dict[str, str], message: str
) -> None:
    path = saved(tmp_path / "net.pt", Named(large))
    with pytest.raises(InputError, match=message):
        load_net(path, "resnet18", {"channels": CHANNELS, **options}, (3, 64, 64), CLASSES)


def test_a_deeper_resnet_is_refused_by_name(tmp_path: Path) -> None:
    path = saved(tmp_path / "net.pt", Named(large=False, blocks=3))
    with pytest.raises(InputError, match=r"layer1\.2\.conv1\.weight is no parameter of torchvision"):
        load_net(path, "resnet18", {"channels": CHANNELS}, (3, 16, 16), CLASSES)
