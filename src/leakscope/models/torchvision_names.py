"""Weights of a ResNet-18 under torchvision's parameter names, for our `resnet18`.

torchvision names layers (`conv1`, `layer2.0.downsample.0`, `fc`), our network numbers them. The arithmetic is
the same. Only the stem differs: torchvision's is a 7x7 convolution of stride 2 and a max pooling, ours a 3x3
convolution; `stem="large"` builds torchvision's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from torch import Tensor

from leakscope.errors import InputError
from leakscope.recipe import Option

_BLOCK = re.compile(r"layer([1-4])\.([01])\.(conv1|bn1|conv2|bn2|downsample\.0|downsample\.1)\.(\w+)")
_PARTS = {
    "conv1": "first",
    "bn1": "first_norm",
    "conv2": "second",
    "bn2": "second_norm",
    "downsample.0": "shortcut.0",
    "downsample.1": "shortcut.1",
}
_LARGE_KERNEL = 7


def has_torchvision_names(state: Mapping[str, Tensor]) -> bool:
    """Whether the names are those of torchvision's ResNets."""
    return {"conv1.weight", "fc.weight", "layer1.0.conv1.weight"} <= set(state)


def renamed(state: Mapping[str, Tensor], options: Mapping[str, Option]) -> dict[str, Tensor]:
    """The same tensors under the names of our network.

    Raises:
        InputError: the weights are those of another ResNet, or their stem is not that of the options.
    """
    is_large = state["conv1.weight"].shape[-1] == _LARGE_KERNEL
    stem = options.get("stem", "small")
    if is_large != (stem == "large"):
        kernel = "x".join(map(str, state["conv1.weight"].shape[-2:]))
        fitting = "large" if is_large else "small"
        raise InputError(
            f"these weights have a {kernel} convolution as stem, the net has stem={stem!r}; give the net the "
            f'option {{"stem": "{fitting}"}}'
        )
    first_block = 4 if is_large else 3  # the large stem has a pooling layer
    names = {name: _renamed(name, first_block) for name in state}
    unknown = [name for name, own in names.items() if own is None]
    if unknown:
        raise InputError(
            f"{unknown[0]} is no parameter of torchvision's resnet18; deeper ResNets are not shipped, "
            "give your own network as 'package.module:factory'"
        )
    return {own: state[name] for name, own in names.items() if own is not None}


def _renamed(name: str, first_block: int) -> str | None:
    head, _, parameter = name.rpartition(".")
    outer = {"conv1": "0", "bn1": "1", "fc": f"{first_block + 10}"}
    if head in outer:
        return f"{outer[head]}.{parameter}"
    found = _BLOCK.fullmatch(name)
    if found is None:
        return None
    stage, block, part, parameter = found.groups()
    return f"{first_block + 2 * (int(stage) - 1) + int(block)}.{_PARTS[part]}.{parameter}"
