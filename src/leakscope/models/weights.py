"""A file of weights becomes a network.

Two formats are read: safetensors, and the state dicts that `torch.save` writes. The latter are pickles; they
are read with `weights_only=True`, which refuses a pickle that would run code.
"""

from __future__ import annotations

import pickle
import struct
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from leakscope.data.columns import listed
from leakscope.disk.storage import user_file
from leakscope.errors import InputError, first_line
from leakscope.models.registry import build
from leakscope.models.torchvision_names import has_torchvision_names, renamed
from leakscope.recipe import Option, Recipe

TORCH_SUFFIXES = (".pt", ".pth", ".bin", ".ckpt")
SUFFIXES = (".safetensors", *TORCH_SUFFIXES)
_CHECKPOINT_KEYS = ("state_dict", "model_state_dict", "model")
_UNREADABLE = (RuntimeError, OSError, EOFError, ValueError, LookupError, TypeError, AttributeError,
               AssertionError, ArithmeticError, MemoryError, ImportError, struct.error)  # fmt: skip
"""What torch raises on damaged files, collected by fuzzing."""


def read_state(path: Path | str) -> dict[str, Tensor]:
    """The named tensors of a file of weights, on the CPU.

    Raises:
        InputError: names the file and what is wrong with it.
    """
    path = user_file(path, SUFFIXES, "weights as")
    stored = _read_safetensors(path) if path.suffix.lower() == ".safetensors" else _read_torch(path)
    return _state_dict(path, stored)


def load_net(
    path: Path | str,
    net: str,
    net_options: Mapping[str, Option],
    input_shape: tuple[int, ...],
    n_classes: int,
) -> nn.Module:
    """The network with the file's weights, in evaluation mode; see `leakscope.models.given.NetWeights`."""
    built = build(Recipe(net=net, net_options=tuple(net_options.items())), input_shape, n_classes)
    state = read_state(path)
    if net == "resnet18" and has_torchvision_names(state):
        try:
            state = renamed(state, net_options)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
    problems = _state_problems(built.state_dict(), state)
    if problems:
        raise InputError(f"{path} does not fit net={net!r} with options {dict(net_options)}: "
                         + "; ".join(problems))  # fmt: skip
    built.load_state_dict(state)
    return built.eval()


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        state: dict[str, Tensor] = load_file(path)
    except (SafetensorError, *_UNREADABLE) as error:
        raise InputError(f"{path}: cannot be read as safetensors ({first_line(error)})") from error
    return state


def _read_torch(path: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about old pickle protocols
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise InputError(
            f"{path} holds more than tensors: reading it could run code, so it is refused; save the weights "
            "alone, torch.save(net.state_dict(), path), or as safetensors"
        ) from error
    except _UNREADABLE as error:
        raise InputError(f"{path}: cannot be read as torch weights ({first_line(error)})") from error


def _state_dict(path: Path, stored: Any) -> dict[str, Tensor]:
    """The state dict itself, or the one a checkpoint holds under a usual key."""
    if isinstance(stored, dict):
        for key in _CHECKPOINT_KEYS:
            if isinstance(stored.get(key), dict):
                stored = stored[key]
    if not isinstance(stored, dict) or not all(isinstance(v, Tensor) for v in stored.values()):
        raise InputError(f"{path} holds no state dict (names and tensors); save net.state_dict()")
    prefix = "module."  # added by DataParallel
    wrapped = all(name.startswith(prefix) for name in stored)
    return {name.removeprefix(prefix) if wrapped else name: tensor for name, tensor in stored.items()}


def _state_problems(expected: Mapping[str, Tensor], stored: Mapping[str, Tensor]) -> list[str]:
    """Missing names, unexpected names and shapes that differ."""
    shapes = [
        f"{name} is {tuple(stored[name].shape)}, the net has {tuple(expected[name].shape)}"
        for name in expected
        if name in stored and stored[name].shape != expected[name].shape
    ]
    problems = {
        "missing ": [name for name in expected if name not in stored],
        "unexpected ": [name for name in stored if name not in expected],
        "": shapes,
    }
    return [f"{what}{listed(names, at_most=4)}" for what, names in problems.items() if names]
