"""Fills a bank on this machine, block by block, picking up where an earlier run stopped."""

from __future__ import annotations

import platform
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import leakscope
from leakscope.bank.bank import Bank
from leakscope.bank.identity import Identity
from leakscope.bank.lock import folder_lock
from leakscope.bank.run_folder import plain
from leakscope.errors import InputError, TrainingError
from leakscope.models.registry import build, net_digest
from leakscope.recipe import AnyRecipe, EstimatorRecipe, FunctionRecipe, Recipe
from leakscope.signals import CLASSIFICATION_SIGNALS
from leakscope.train.estimators import fit_block
from leakscope.train.functions import call_block
from leakscope.train.loop import Answers, Progress, choose_trainer, inputs_from, train_block
from leakscope.types import CLASSIFICATION_KEPT, REGRESSION_KEPT, Design, IntArray, Records

_STACKED_NUMBERS = 2_000_000  # parameters of one block together: enough to fill the cores, few to lose
_BLOCK_SIZES = (8, 128)
_ESTIMATORS_IN_BLOCK = 16


def complete_bank(
    folder: Path,
    records: Records,
    design: Design,
    recipe: AnyRecipe,
    seed: int,
    kept: tuple[str, ...] = (),
    device: str = "auto",
    progress: Progress = lambda _: None,
) -> Bank:
    """The bank of these records, design, recipe and seed: loaded if whole, else trained where missing.

    Args:
        folder: the bank's folder; created when absent, resumed when it holds this very bank.
        records: the records.
        design: who is in which training set.
        recipe: how one model is trained.
        seed: run seed; all randomness derives from it.
        kept: signals to keep; empty: the usual ones of the task.
        device: "auto", "cpu", "cuda" or "cuda:N".
        progress: called with models' worth of work done, also for work found on disk.
    """
    identity = check_request(records, design, recipe, seed, kept, device)
    with folder_lock(folder):
        bank = Bank.create(folder, identity, design, records.labels)
        is_whole = bank.is_complete and not bank.damage()
        pending = [] if is_whole else bank.pending()
        progress(design.n_models - sum(len(bank.blocks[b]) for b in pending))
        if not is_whole:
            worker = Worker(records, design, recipe, seed, tuple(identity.signals), device_of(device))
            for block in pending:
                started = time.perf_counter()
                models = bank.blocks[block]
                answers = worker.answers(models, progress)
                notes = {
                    "trainer": answers.trainer,
                    "note": answers.note,
                    "lost_models": _lost(models, answers),
                    "seconds": round(time.perf_counter() - started, 3),
                }
                bank.add_block(block, answers.signals, notes)
            bank.finish(_about(worker))
    if len(bank.lost) == design.n_models:
        raise TrainingError(
            f"every model diverged (not finite at epoch {min(bank.lost.values())}); lower the rate"
        )
    return bank


def check_request(
    records: Records, design: Design, recipe: AnyRecipe, seed: int, kept: tuple[str, ...], device: str
) -> Identity:
    """What `complete_bank` would make of its arguments; raises what is wrong with them, writes nothing."""
    if seed < 0:
        raise InputError(f"seed={seed}: must be 0 or more")
    device_of(device)
    if isinstance(recipe, Recipe) and (recipe.flips or recipe.crop) and records.features.ndim != 4:
        shape = tuple(records.features.shape[1:])
        raise InputError(
            f"flips and crop are for images (channels, height, width), got records of shape {shape}"
        )
    return _identity(records, design, recipe, seed, _checked_signals(kept, records))


class Worker:
    """Everything needed to answer for any block; the records are put on the device once."""

    def __init__(
        self,
        records: Records,
        design: Design,
        recipe: AnyRecipe,
        seed: int,
        kept: tuple[str, ...],
        device: torch.device,
    ) -> None:
        self.records, self.design, self.recipe, self.seed, self.kept = records, design, recipe, seed, kept
        self.device = device
        self.note: str | None = None
        if isinstance(recipe, Recipe):
            self._inputs = inputs_from(records, self.device)
            self._trainer, self.note = choose_trainer(recipe, self._inputs)

    def answers(self, models: IntArray, progress: Progress) -> Answers:
        """What these models, trained now, say about all records."""
        common = (self.design, self.recipe, models, self.seed, self.kept)
        if isinstance(self.recipe, EstimatorRecipe):
            return fit_block(self.records, *common, progress=progress)  # type: ignore[arg-type]
        if isinstance(self.recipe, FunctionRecipe):
            return call_block(self.records, *common, progress=progress)  # type: ignore[arg-type]
        return train_block(self._inputs, *common, self._trainer, progress)  # type: ignore[arg-type]


def block_size(recipe: AnyRecipe, records: Records) -> int:
    """Models trained together; follows from the network alone, so that every machine plans alike."""
    if isinstance(recipe, EstimatorRecipe | FunctionRecipe):
        return _ESTIMATORS_IN_BLOCK
    net = build(recipe, tuple(records.features.shape[1:]), records.n_classes)
    n_parameters = sum(p.numel() for p in net.parameters())
    return int(np.clip(_STACKED_NUMBERS // max(n_parameters, 1), *_BLOCK_SIZES))


def _identity(
    records: Records, design: Design, recipe: AnyRecipe, seed: int, kept: tuple[str, ...]
) -> Identity:
    described = {**recipe.as_dict(), "evaluated_epochs": list(recipe.evaluated_epochs)}
    if isinstance(recipe, Recipe):
        shape = tuple(records.features.shape[1:])
        described["net_sha256"] = net_digest(recipe, shape, records.n_classes)
    return Identity(
        records={"name": records.name, "records": len(records), "sha256": records.digest},
        design={"models": design.n_models, "columns": design.n_columns, "sha256": design.digest},
        recipe=plain(described),
        seed=seed,
        signals=list(kept),
        block_size=block_size(recipe, records),
    )


def _checked_signals(kept: tuple[str, ...], records: Records) -> tuple[str, ...]:
    """The signals to keep, sorted; raises when models of this task do not have one."""
    known = CLASSIFICATION_SIGNALS if records.is_classification else REGRESSION_KEPT
    unknown = sorted(set(kept) - set(known))
    if unknown:
        task = "a classifier" if records.is_classification else "a regression model"
        raise InputError(f"signals={unknown}: {task} has {', '.join(sorted(known))}")
    return tuple(sorted(kept or (CLASSIFICATION_KEPT if records.is_classification else REGRESSION_KEPT)))


def device_of(name: str) -> torch.device:
    """The device of this name, "auto" included; raises when this machine has none such."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise InputError(f"device={name!r} is unknown; use 'auto', 'cpu', 'cuda' or 'cuda:N'")
    device = torch.device(name)
    n_devices = torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= n_devices:
        found = f"{n_devices} CUDA devices" if n_devices else "no CUDA device"
        raise InputError(f"device={name!r}: this machine has {found}; use 'cpu' or 'auto'")
    return device


def _lost(models: IntArray, answers: Answers) -> dict[str, int]:
    return {str(m): int(e) for m, e in zip(models, answers.lost_at, strict=True) if e}


def _about(worker: Worker) -> dict[str, Any]:
    """Facts for the manifest that are not part of the identity."""
    return {
        "device": str(worker.device),
        "note": worker.note,
        "versions": {
            "leakscope": leakscope.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
    }
