"""The training of one unit of work, the same for every engine.

A unit is a block of the bank, or a single model of a block where models are trained one at a time anyway:
the outputs are the same either way, and small units keep every core busy. Engines differ only in where
units run.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np

from leakscope.array_types import AnyArray, IntArray
from leakscope.bank.manifest import BlockNotes
from leakscope.engine.request import TrainingRequest, device_of
from leakscope.errors import InputError, first_line
from leakscope.frames.frame import Frame
from leakscope.recipe import AnyRecipe, Recipe
from leakscope.signals.asked import Asked
from leakscope.train.block import UNFOLLOWED, BlockSignals, Follow
from leakscope.train.perceptrons import Perceptrons

if TYPE_CHECKING:
    import torch


class Unit(NamedTuple):
    """What one worker trains at once: some models of one block."""

    block: int
    models: tuple[int, ...]


class TrainedUnit(NamedTuple):
    """A trained unit.

    Attributes:
        signals: name -> (models, checkpoints, columns[, classes or queries]).
        notes: how it was trained.
        not_stacked_reason: why models that could have been stacked were not; None: no such reason.
        device: where it was trained.
    """

    signals: dict[str, AnyArray]
    notes: BlockNotes
    not_stacked_reason: str | None
    device: str


class Worker:
    """Trains any models of a request on one device; the records are moved to the device once.

    Attributes:
        request: what is trained.
        device: where: "cpu", "cuda" or "cuda:N".
        perceptrons: how small perceptrons are trained without torch, on a CPU; None: other models.
    """

    def __init__(self, request: TrainingRequest, device: str) -> None:
        self.request, self._not_stacked_reason = request, None
        self.perceptrons = perceptrons_of(request) if device in ("auto", "cpu") else None
        if self.perceptrons is not None:
            self.device, self._trainer = "cpu", "dense"
            return
        there = device_of(device)
        self.device = str(there)
        if isinstance(request.recipe, Recipe):
            from leakscope.train.loop import choose_trainer, inputs_from, with_standard_labels

            inputs = with_standard_labels(inputs_from(request.records, there, request.outputs))
            self._inputs = replace(inputs, queries=request.asked.queries)
            self._trainer, self._not_stacked_reason = choose_trainer(request.recipe, self._inputs)

    def train(self, models: IntArray, follow: Follow = UNFOLLOWED) -> BlockSignals:
        """Trains these models and evaluates them on all records."""
        request = self.request
        if self.perceptrons is not None:
            return self.perceptrons.train(request.design, models, request.seed, request.signal_names, follow)
        common = (request.design, request.recipe, models, request.seed, request.signal_names)
        if isinstance(request.recipe, Recipe):
            from leakscope.train.loop import train_block

            return train_block(self._inputs, *common, self._trainer, follow)  # type: ignore[arg-type]
        from leakscope.train.black_box import fit_block

        return fit_block(request.records, *common, follow.progress, request.asked)  # type: ignore[arg-type]

    def train_unit(self, unit: Unit, follow: Follow) -> TrainedUnit:
        """Trains the unit; its signals, with what the manifest records about them."""
        started = time.perf_counter()
        block = self.train(np.array(unit.models), follow)
        diverged = {m: int(e) for m, e in zip(unit.models, block.diverged_at, strict=True) if e}
        seconds = block.seconds or time.perf_counter() - started
        notes = BlockNotes(block.trainer, block.note, seconds, diverged)
        return TrainedUnit(block.signals, notes, self._not_stacked_reason, self.device)

    @property
    def trains_serially(self) -> bool:
        """True when models are trained one after the other, so that each can be a unit of its own."""
        return not isinstance(self.request.recipe, Recipe) or self._trainer == "serial"

    def units_of(self, block: int, models: Sequence[int]) -> list[Unit]:
        """Models of one block as units; those of perceptrons are short, because nothing is saved in them."""
        if self.perceptrons is None:
            return units_of(block, models, self.trains_serially)
        most = self.perceptrons.models_at_once
        return [Unit(block, tuple(models[at : at + most])) for at in range(0, len(models), most)]


def perceptrons_of(request: TrainingRequest) -> Perceptrons | None:
    """How the models are trained without torch; None where that is impossible."""
    asked, recipe = request.asked, request.recipe
    if not isinstance(recipe, Recipe) or asked != Asked() or request.design.columns is not None:
        return None
    return Perceptrons.of(request.records, recipe, request.signal_names)


def trains_serially(request: TrainingRequest, device: torch.device | None) -> bool:
    """True when models of this request are trained one at a time; decided without a worker."""
    recipe, records = request.recipe, request.records
    if not isinstance(recipe, Recipe) or recipe.trainer == "serial":
        return True
    if device is None:
        return False  # the trainer is chosen where the device is
    import torch

    from leakscope.train.loop import Inputs, choose_trainer

    x = torch.from_numpy(np.array(records.features[:2], dtype=np.float32)).to(device)
    y = torch.from_numpy(np.array(records.labels[:2])).to(device)
    return choose_trainer(recipe, Inputs(x, y, records.n_classes))[0] == "serial"


def units_of(block: int, models: Sequence[int], one_per_model: bool) -> list[Unit]:
    """Models of one block as units: one per model, or a single one."""
    return [Unit(block, (m,)) for m in models] if one_per_model else [Unit(block, tuple(models))]


def sendable(value: Any) -> bytes:
    """A pickle that can also hold functions of the user's own script; written and read within one run."""
    from joblib.externals.loky.backend.reduction import dumps

    return bytes(dumps(value))


def send_to(file: IO[bytes], frame: Frame | None) -> None:
    """Writes a user's table where other processes of this run read it.

    Raises:
        InputError: it holds something that cannot be pickled.
    """
    from joblib.externals.loky.backend.reduction import dump

    try:
        dump(frame, file)
    except (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise InputError(
            f"the table cannot be sent to other processes ({first_line(error)}); leave out the column, or "
            "train in this one with leakscope.EstimatorRecipe(estimator, processes=1)"
        ) from error


def why_not_sendable(recipe: AnyRecipe) -> str | None:
    """Why a recipe cannot be sent to another process; None when it can."""
    try:
        sendable(recipe)
    except (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError) as error:
        return str(error)
    return None


@contextmanager
def threads_limited(n_threads: int) -> Iterator[None]:
    """Limits torch, BLAS and OpenMP to this many threads; the last bits of an output depend on it."""
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    with threadpool_limits(n_threads):
        torch.set_num_threads(n_threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)
