"""Reads plain files of weights without torch: state dicts of float32 tensors, and nothing else.

A state dict that `torch.save` wrote is a zip archive of a pickle and raw numbers. The pickle is read by an
unpickler that knows three names and refuses all others, so it cannot run code. Whatever is not as plain as
that is left to torch, which reads it or says what is wrong.
"""

from __future__ import annotations

import pickle
import zipfile
from collections import OrderedDict
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

State = dict[str, npt.NDArray[np.float32]]

_MOST_BYTES = 1 << 24
_STORAGE = "FloatStorage"


def plain_state(path: Path) -> State | None:
    """The named arrays of a small file of weights; None where torch has to read it."""
    try:
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            return None
        state = _of_safetensors(path) if path.suffix.lower() == ".safetensors" else _of_archive(path)
    except Exception:  # whatever a damaged or unusual file raises: torch says what is wrong with it
        return None
    is_plain = all(
        isinstance(name, str) and isinstance(array, np.ndarray) and array.dtype == np.float32
        for name, array in state.items()
    )
    return state if is_plain else None


def _of_safetensors(path: Path) -> State:
    from safetensors.numpy import load_file

    state: State = load_file(path)
    return state


def _of_archive(path: Path) -> State:
    with zipfile.ZipFile(path) as archive:
        names = {name.partition("/")[2]: name for name in archive.namelist()}
        if archive.read(names["byteorder"]) != b"little":
            raise ValueError("numbers of another order of bytes")
        if sum(entry.file_size for entry in archive.infolist()) > _MOST_BYTES:
            raise ValueError("larger than the file")
        with archive.open(names["data.pkl"]) as file:
            state = _Unpickler(file, archive, names).load()
    if type(state) not in (dict, OrderedDict):
        raise ValueError("no state dict")
    return dict(state)


class _Stored(NamedTuple):
    """The numbers of a tensor, as they lie in the archive."""

    numbers: npt.NDArray[np.float32]


class _Unpickler(pickle.Unpickler):
    """Knows a dict, and float32 tensors of a CPU that lie in memory row by row."""

    def __init__(self, file: Any, archive: zipfile.ZipFile, names: dict[str, str]) -> None:
        super().__init__(file)
        self._archive, self._names = archive, names

    def find_class(self, module: str, name: str) -> Any:
        known = {
            ("collections", "OrderedDict"): OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2"): _tensor,
            ("torch", _STORAGE): _STORAGE,
        }
        if (module, name) not in known:
            raise pickle.UnpicklingError(f"{module}.{name}")
        return known[module, name]

    def persistent_load(self, saved: Any) -> _Stored:
        kind, storage, key, _, n_numbers = saved
        if kind != "storage" or storage != _STORAGE:
            raise pickle.UnpicklingError("another type of numbers")
        numbers = np.frombuffer(self._archive.read(self._names[f"data/{key}"]), dtype="<f4")
        if len(numbers) != n_numbers:
            raise pickle.UnpicklingError("numbers are missing")
        return _Stored(numbers)


def _tensor(
    stored: _Stored, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: Any
) -> npt.NDArray[np.float32]:
    """The part of the numbers that a tensor has."""
    by_rows = tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))
    numbers = stored.numbers[offset : offset + prod(shape)]
    if strides != by_rows or offset < 0 or len(numbers) != prod(shape):
        raise pickle.UnpicklingError("not row by row")
    return numbers.reshape(shape).copy()
