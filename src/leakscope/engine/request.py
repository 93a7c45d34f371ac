"""What is asked of an engine, checked before anything is written: the bank's identity and block plan."""

from __future__ import annotations

import re
from typing import Protocol

import numpy as np
import torch

from leakscope.bank.identity import Identity
from leakscope.bank.run_folder import to_jsonable
from leakscope.errors import InputError
from leakscope.models.registry import build, net_digest
from leakscope.recipe import AnyRecipe, EstimatorRecipe, FunctionRecipe, Recipe
from leakscope.signals.registry import (
    CLASSIFICATION,
    REGRESSION,
    default_signals,
    find_signal,
    source_digests,
)
from leakscope.types import Design, Records

_STACKED_NUMBERS = 2_000_000  # parameters of one block together: enough to fill the cores, few to lose
_BLOCK_SIZES = (8, 128)
_ESTIMATORS_IN_BLOCK = 16
_BLOCK_ANSWERS = 40_000_000  # models x checkpoints x records


class Place(Protocol):
    """Where devices may be: this machine, or a cluster."""

    def check_device(self, device: str) -> None:
        """Raises InputError when there is no such device."""


class ThisMachine:
    """The devices of this machine."""

    def check_device(self, device: str) -> None:
        """Raises InputError when this machine has no such device."""
        device_of(device)


def check_request(
    records: Records,
    design: Design,
    recipe: AnyRecipe,
    seed: int,
    kept: tuple[str, ...],
    device: str,
    place: Place | None = None,
) -> Identity:
    """What `complete_bank` would make of its arguments; raises what is wrong with them, writes nothing."""
    if seed < 0:
        raise InputError(f"seed={seed}: must be 0 or more")
    (place or ThisMachine()).check_device(device)
    if isinstance(recipe, Recipe) and (recipe.flips or recipe.crop) and records.features.ndim != 4:
        shape = tuple(records.features.shape[1:])
        raise InputError(
            f"flips and crop are for images (channels, height, width), got records of shape {shape}"
        )
    return _identity(records, design, recipe, seed, _checked_signals(kept, records))


def block_size(recipe: AnyRecipe, records: Records) -> int:
    """Models trained together; follows from what is asked alone, so that every machine plans alike."""
    n_answers = len(records) * len(recipe.evaluated_epochs)
    most = max(1, _BLOCK_ANSWERS // n_answers)  # what a block has to say is in memory until it is written
    if isinstance(recipe, EstimatorRecipe | FunctionRecipe):
        return min(_ESTIMATORS_IN_BLOCK, most)
    net = build(recipe, tuple(records.features.shape[1:]), records.n_classes)
    n_parameters = sum(p.numel() for p in net.parameters())
    return min(int(np.clip(_STACKED_NUMBERS // max(n_parameters, 1), *_BLOCK_SIZES)), most)


def check_device_name(name: str) -> None:
    """Raises InputError when no machine could have a device of this name."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", name):
        raise InputError(f"device={name!r} is unknown; use 'auto', 'cpu', 'cuda' or 'cuda:N'")


def device_of(name: str) -> torch.device:
    """The device of this name, "auto" included; raises when this machine has none such."""
    check_device_name(name)
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    n_devices = torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= n_devices:
        found = f"{n_devices} CUDA devices" if n_devices else "no CUDA device"
        raise InputError(f"device={name!r}: this machine has {found}; use 'cpu' or 'auto'")
    return device


def _identity(
    records: Records, design: Design, recipe: AnyRecipe, seed: int, kept: tuple[str, ...]
) -> Identity:
    described = {**recipe.as_dict(), "evaluated_epochs": list(recipe.evaluated_epochs)}
    if isinstance(recipe, Recipe):
        shape = tuple(records.features.shape[1:])
        described["net_sha256"] = net_digest(recipe, shape, records.n_classes)
    own_signals = source_digests(kept)
    if own_signals:
        described["signals_sha256"] = own_signals
    return Identity(
        records={"name": records.name, "records": len(records), "sha256": records.digest},
        design={"models": design.n_models, "columns": design.n_records, "sha256": design.digest},
        recipe=to_jsonable(described),
        seed=seed,
        signals=list(kept),
        block_size=block_size(recipe, records),
    )


def _checked_signals(kept: tuple[str, ...], records: Records) -> tuple[str, ...]:
    """The signals to store, sorted; raises when models of this task do not have one."""
    task = CLASSIFICATION if records.is_classification else REGRESSION
    for name in kept:
        find_signal(name, task)
    return tuple(sorted(kept or default_signals(task)))
