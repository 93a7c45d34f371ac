"""A trained network from a file of weights, and its logits.

Files are safetensors, or what `torch.save` wrote, read with `weights_only=True`: a pickle with code in it
is refused, for reading it could run that code.
"""

from __future__ import annotations

import json
import pickle
import struct
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from leakscope.array_types import AnyArray
from leakscope.errors import InputError
from leakscope.models.registry import build
from leakscope.recipe import Recipe

TORCH_SUFFIXES = (".pt", ".pth", ".bin", ".ckpt")
SUFFIXES = (".safetensors", *TORCH_SUFFIXES)
_NESTED_UNDER = ("state_dict", "model_state_dict", "model")
_LISTED = 4
# What torch's reader and ours raise on damaged files, as fuzzing found.
_UNREADABLE = (RuntimeError, OSError, EOFError, ValueError, LookupError, TypeError, AttributeError,
               AssertionError, ArithmeticError, MemoryError, ImportError, struct.error)  # fmt: skip
_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


@dataclass(frozen=True)
class PixelScaling:
    """How images became inputs when the network was trained: `(pixel / 255 - mean) / std` by channel.

    Attributes:
        mean: one a channel, or one for all.
        std: the same, above 0.
    """

    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        if not self.mean or len(self.mean) != len(self.std) or min(self.std) <= 0:
            raise InputError(
                f"mean={list(self.mean)}, std={list(self.std)}: give one a channel, every std above 0"
            )

    def apply(self, pixels: Tensor) -> Tensor:
        """uint8 (records, channels, height, width) -> float32 of that shape."""
        if len(self.mean) not in (1, pixels.shape[1]):
            raise InputError(f"mean has {len(self.mean)} values but images have {pixels.shape[1]} channels")
        mean, std = (torch.tensor(v, dtype=torch.float32).view(1, -1, 1, 1) for v in (self.mean, self.std))
        return (pixels.float() / 255 - mean) / std


def read_state(path: Path | str) -> dict[str, Tensor]:
    """The named tensors of a file of weights, on the CPU.

    Raises:
        InputError: names the file and what is wrong with it.
    """
    path = Path(path).expanduser()
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{path}: unknown extension {path.suffix!r}; give weights as {', '.join(SUFFIXES)}")
    if not path.is_file():
        raise InputError(f"{path} is not there, or is not a file; check the path")
    stored = _read_safetensors(path) if path.suffix.lower() == ".safetensors" else _read_torch(path)
    return _named_tensors(path, stored)


def load_net(
    path: Path | str, net: str, net_options: Mapping[str, Any], input_shape: tuple[int, ...], n_classes: int
) -> nn.Module:
    """The network with the file's weights, in evaluation mode.

    Args:
        path: the weights.
        net: a shipped network's name or "package.module:factory".
        net_options: keyword arguments of the factory.
        input_shape: shape of one record.
        n_classes: number of outputs.
    """
    built = build(Recipe(net=net, net_options=tuple(net_options.items())), input_shape, n_classes)
    state = read_state(path)
    problems = _state_problems(built.state_dict(), state)
    if problems:
        raise InputError(f"{path} does not fit net={net!r} with options {dict(net_options)}: "
                         + "; ".join(problems))  # fmt: skip
    built.load_state_dict(state)
    return built.eval()


def predict_logits(
    net: nn.Module,
    features: AnyArray,
    scaling: PixelScaling | None = None,
    batch_size: int = 512,
    device: str = "cpu",
) -> npt.NDArray[np.float32]:
    """The network's outputs; float32 (records, classes).

    Args:
        net: in evaluation mode.
        features: float32 (records, ...), or uint8 images (records, channels, height, width).
        scaling: for uint8 images; by default pixels divided by 255.
        batch_size: records asked about at once.
        device: "cpu" or "cuda".
    """
    net = net.to(device)
    parts = []
    with torch.inference_mode():
        for start in range(0, len(features), batch_size):
            batch = torch.from_numpy(np.array(features[start : start + batch_size], order="C"))
            if batch.dtype == torch.uint8:
                batch = (scaling or PixelScaling()).apply(batch)
            parts.append(_outputs(net, batch.to(device)).float().cpu().numpy())
    return np.concatenate(parts)


def _outputs(net: nn.Module, batch: Tensor) -> Tensor:
    try:
        outputs = net(batch)
    except RuntimeError as error:  # shapes that do not fit end as torch's own message
        reason = str(error).splitlines()[0]
        raise InputError(
            f"the net cannot take records of shape {tuple(batch.shape[1:])}: {reason}"
        ) from error
    if not isinstance(outputs, Tensor) or outputs.ndim != 2:
        found = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise InputError(f"the net returned {found}, expected logits (records, classes)")
    return outputs


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    """A length (8 bytes), a JSON header of that length, then the numbers: no code, and no library needed."""
    content = path.read_bytes()
    try:
        header_ends = 8 + int.from_bytes(content[:8], "little")
        header = json.loads(content[8:header_ends])
        numbers = content[header_ends:]
        return {n: _tensor(numbers, entry) for n, entry in header.items() if n != "__metadata__"}
    except _UNREADABLE as error:
        raise InputError(f"{path}: cannot be read as safetensors ({error})") from error


def _tensor(numbers: bytes, entry: dict[str, Any]) -> Tensor:
    start, end = entry["data_offsets"]
    dtype, shape = _DTYPES[entry["dtype"]], entry["shape"]
    if not 0 <= start <= end <= len(numbers) or end - start != dtype.itemsize * prod(shape):
        raise ValueError(f"bytes {start} to {end} do not hold a tensor of shape {shape}")
    if start == end:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(numbers[start:end]), dtype=dtype).view(shape)


def _read_torch(path: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", UserWarning
            )  # about pickle's protocol; refused below if it matters
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise InputError(
            f"{path} holds more than tensors: reading it could run code, so it is refused; save the weights "
            "alone, torch.save(net.state_dict(), path), or as safetensors"
        ) from error
    except _UNREADABLE as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path}: cannot be read as torch weights ({reason})") from error


def _named_tensors(path: Path, stored: Any) -> dict[str, Tensor]:
    """The state dict itself, also when it lies in a checkpoint under a usual name."""
    if isinstance(stored, dict):
        for key in _NESTED_UNDER:
            if isinstance(stored.get(key), dict):
                stored = stored[key]
    if not isinstance(stored, dict) or not all(isinstance(v, Tensor) for v in stored.values()):
        raise InputError(f"{path} holds no state dict (names and tensors); save net.state_dict()")
    prefix = "module."  # what DataParallel adds
    wrapped = all(name.startswith(prefix) for name in stored)
    return {name.removeprefix(prefix) if wrapped else name: tensor for name, tensor in stored.items()}


def _state_problems(wanted: Mapping[str, Tensor], found: Mapping[str, Tensor]) -> list[str]:
    """Missing and unexpected names and shapes that differ, in words."""
    problems = [
        f"{what} {_listed(names)}"
        for what, names in (
            ("missing", [n for n in wanted if n not in found]),
            ("unexpected", [n for n in found if n not in wanted]),
        )
        if names
    ]
    shapes = [
        f"{name} is {tuple(found[name].shape)}, the net has {tuple(wanted[name].shape)}"
        for name in wanted
        if name in found and found[name].shape != wanted[name].shape
    ]
    return [*problems, *([_listed(shapes)] if shapes else [])]


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more
