"""How far a block is in training, and everything that its next step depends on; saved and resumed.

Batches and views derive from (seed, model, purpose) and the position, so their generators need not be stored.
What is stored: the position, all tensors that a step changes, the signals of the checkpoints passed, what
earlier stages found out, and torch's global generators where a model trained alone may draw from them. A
network that keeps state elsewhere (a counter in Python, say) is not saved during training: resumed, it would
not give the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from leakscope.array_types import AnyArray, IntArray
from leakscope.disk.saved_training import SavedTraining
from leakscope.disk.sealed import Sealed
from leakscope.train.stage_size import StageSize

HAS_OWN_STATE = "not saved during training: the network keeps state outside its parameters and buffers"
_NOT_STATE = ("_parameters", "_buffers", "_modules", "training")


class Position(NamedTuple):
    """Where a training was, and the arrays of that moment."""

    stage: int
    epoch: int
    step: int
    arrays: Mapping[str, AnyArray]


@dataclass(eq=False)
class TrainingState:
    """A block in training.

    Attributes:
        diverged_at: int64 (models,), as in `BlockSignals`.
        saved: where to save it; None: nowhere.
        stages: the trainings that the block goes through, one after the other; most recipes have one.
        carried: what earlier stages found out; changed in place, when an epoch is done.
        stage: stages done.
        epoch: epochs done.
        step: steps done of the next epoch.
        checkpoints: the signals at each checkpoint passed.
        notes: what did not go as planned.
    """

    diverged_at: IntArray
    saved: SavedTraining | None = None
    stages: tuple[StageSize, ...] = (StageSize(),)
    carried: Mapping[str, AnyArray] = field(default_factory=dict)
    stage: int = 0
    epoch: int = 0
    step: int = 0
    checkpoints: list[dict[str, AnyArray]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _tensors: list[Tensor] = field(default_factory=list)
    _nets: list[nn.Module] = field(default_factory=list)
    _generators: list[Callable[[], Tensor]] = field(default_factory=list)
    _digest: bytes = b""
    _was_read: bool = False
    _to_resume: Position | None = None

    @property
    def n_steps(self) -> int:
        """Steps of an epoch."""
        return self.stages[self.stage].steps

    @property
    def is_last_stage(self) -> bool:
        """True in the stage whose models are attacked."""
        return self.stage == len(self.stages) - 1

    def share(self, epoch: int, step: int = 0) -> float:
        """The share of the training that is done after so many epochs and steps of the stage."""
        own = [stage.epochs - stage.first for stage in self.stages]
        in_stage = epoch - self.stages[self.stage].first + step / self.n_steps
        return (sum(own[: self.stage]) + in_stage) / sum(own)

    @property
    def seconds(self) -> float | None:
        """Training time so far, that of earlier processes included; None: not measured."""
        return None if self.saved is None else self.saved.seconds

    def resume(self, tensors: list[Tensor], nets: list[nn.Module], is_alone: bool) -> bool:
        """Makes `tensors`, all that a step changes, and torch's generators what they were when last saved.

        Returns:
            False when this stage was complete by then.
        """
        self._tensors, self._nets, device = tensors, nets, tensors[0].device
        self._generators = [torch.get_rng_state] if is_alone else []
        if is_alone and device.type == "cuda":
            self._generators.append(lambda: torch.cuda.get_rng_state(device))
        if self.saved is not None:
            self._digest = _own_state(nets)
            self._read(self.saved)
        there = self._to_resume
        if there is None or self.stage < there.stage:
            return there is None
        self._to_resume, self.epoch, self.step = None, there.epoch, there.step
        for n, tensor in enumerate(tensors):
            stored = torch.from_numpy(there.arrays[f"tensor-{n}"].copy())
            tensor.copy_(stored.view(tensor.dtype).view(tensor.shape))
        if is_alone:
            torch.set_rng_state(torch.from_numpy(there.arrays["generator-0"].copy()))
            if device.type == "cuda":
                torch.cuda.set_rng_state(torch.from_numpy(there.arrays["generator-1"].copy()), device)
        return True

    def advance(self) -> None:
        """The stage is done: on to the next, from the models as they are where it continues with them."""
        following = self.stages[self.stage + 1]
        if following.first and self._to_resume is None:
            arrays = {name: array.copy() for name, array in self._arrays()}
            self._to_resume = Position(self.stage + 1, following.first, 0, arrays)
        self.stage, self.epoch, self.step = self.stage + 1, following.first, 0

    def _read(self, saved: SavedTraining) -> None:
        """Reads what was saved, once: the tensors are those of all stages alike."""
        if self._was_read:
            return
        self._was_read, state = True, saved.read()
        if state is None or not self._fits(state[0]):
            return
        (header, arrays), self.checkpoints = state
        self.notes = list(header["notes"])
        self.diverged_at[:] = arrays["diverged_at"]
        for name, values in self.carried.items():
            values[...] = arrays[f"carried-{name}"]
        self._to_resume = Position(header["stage"], header["epoch"], header["step"], arrays)

    def passed(self, epoch: int, step: int) -> None:
        """After `epoch` epochs and `step` steps of the next one: saves when it is due."""
        if self.saved is not None and self.saved.is_due():
            self.epoch, self.step = epoch, step
            self._save(self.saved)

    def _save(self, saved: SavedTraining) -> None:
        if HAS_OWN_STATE in self.notes:
            return
        if _own_state(self._nets) != self._digest:
            self.notes.append(HAS_OWN_STATE)
            return
        header = {
            "stage": self.stage,
            "epoch": self.epoch,
            "step": self.step,
            "share": self.share(self.epoch, self.step),
            "notes": self.notes,
        }
        saved.write(header, dict(self._arrays()), self.checkpoints)

    def _arrays(self) -> Iterator[tuple[str, AnyArray]]:
        yield "diverged_at", self.diverged_at
        for name, values in self.carried.items():
            yield f"carried-{name}", values
        for n, tensor in enumerate(self._tensors):
            yield f"tensor-{n}", _bytes_of(tensor)
        for n, state in enumerate(self._generators):
            yield f"generator-{n}", state().numpy()

    def _fits(self, state: Sealed) -> bool:
        """True when position and arrays are such as this training has."""
        wanted = {name: array.nbytes for name, array in self._arrays()}
        stage, epoch, step = (state.header.get(name) for name in ("stage", "epoch", "step"))
        if not isinstance(stage, int) or stage not in range(len(self.stages)):
            return False
        size = self.stages[stage]
        return (
            {name: array.nbytes for name, array in state.arrays.items()} == wanted
            and epoch in range(size.first, size.epochs + 1)
            and step in range(size.steps)
        )


def _bytes_of(tensor: Tensor) -> AnyArray:
    """The tensor's bytes, whatever its type; numpy has no bfloat16."""
    array: AnyArray = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return array


def _own_state(nets: list[nn.Module]) -> bytes:
    """A digest of what networks hold beside trained parameters and buffers."""
    sha = hashlib.sha256()
    for module in (module for net in nets for module in net.modules()):
        for frozen in (p for p in module.parameters(recurse=False) if not p.requires_grad and not p.is_meta):
            sha.update(_bytes_of(frozen).data)
        for name, value in vars(module).items():
            if name not in _NOT_STATE:
                sha.update(name.encode() + _pickled(value))
    return sha.digest()


class _Pickler(pickle.Pickler):
    """Modules and parameters are looked at where they are registered, not where else they are named."""

    def persistent_id(self, value: object) -> str | None:
        return type(value).__name__ if isinstance(value, nn.Module | nn.Parameter) else None


def _pickled(value: object) -> bytes:
    """A pickle, only to be compared; empty when there is none."""
    file = io.BytesIO()
    try:
        _Pickler(file).dump(value)
    except Exception:  # whatever a user's object raises: functions, locks and the like
        return b""
    return file.getvalue()


def unsaved(n_models: int) -> TrainingState:
    """The state of a training that nobody saves."""
    return TrainingState(np.zeros(n_models, dtype=np.int64))
