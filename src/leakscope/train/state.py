"""How far a block is in training, and everything that its next step depends on; saved and resumed.

Batches and views derive from (seed, model, purpose) and the position, so their generators need not be stored.
What is stored: the position, all tensors that a step changes, the signals of the checkpoints passed, and
torch's global generators where a model trained alone may draw from them. A network that keeps state elsewhere
(a counter in Python, say) is not saved during training: resumed, it would not give the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from leakscope.array_types import AnyArray, IntArray
from leakscope.disk.saved_training import SavedTraining
from leakscope.disk.sealed import Sealed

HAS_OWN_STATE = "not saved during training: the network keeps state outside its parameters and buffers"
_NOT_STATE = ("_parameters", "_buffers", "_modules", "training")


@dataclass(eq=False)
class TrainingState:
    """A block in training.

    Attributes:
        diverged_at: int64 (models,), as in `BlockSignals`.
        saved: where to save it; None: nowhere.
        n_epochs: epochs of the whole training.
        n_steps: steps of an epoch.
        epoch: epochs done.
        step: steps done of the next epoch.
        checkpoints: the signals at each checkpoint passed.
        notes: what did not go as planned.
    """

    diverged_at: IntArray
    saved: SavedTraining | None = None
    n_epochs: int = 1
    n_steps: int = 1
    epoch: int = 0
    step: int = 0
    checkpoints: list[dict[str, AnyArray]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _tensors: list[Tensor] = field(default_factory=list)
    _nets: list[nn.Module] = field(default_factory=list)
    _generators: list[Callable[[], Tensor]] = field(default_factory=list)
    _digest: bytes = b""

    @property
    def share(self) -> float:
        """The share of the training that is done."""
        return (self.epoch + self.step / self.n_steps) / self.n_epochs

    @property
    def seconds(self) -> float | None:
        """Training time so far, that of earlier processes included; None: not measured."""
        return None if self.saved is None else self.saved.seconds

    def resume(self, tensors: list[Tensor], nets: list[nn.Module], is_alone: bool) -> None:
        """Makes `tensors`, all that a step changes, and torch's generators what they were when last saved."""
        if self.saved is None:
            return
        self._tensors, self._nets, self._digest = tensors, nets, _own_state(nets)
        device = tensors[0].device
        if is_alone:
            self._generators = [torch.get_rng_state]
            if device.type == "cuda":
                self._generators.append(lambda: torch.cuda.get_rng_state(device))
        saved = self.saved.read()
        if saved is None or not self._fits(saved[0]):
            return
        (header, arrays), self.checkpoints = saved
        self.epoch, self.step, self.notes = header["epoch"], header["step"], list(header["notes"])
        self.diverged_at[:] = arrays["diverged_at"]
        for n, tensor in enumerate(tensors):
            stored = torch.from_numpy(arrays[f"tensor-{n}"].copy())
            tensor.copy_(stored.view(tensor.dtype).view(tensor.shape))
        if is_alone:
            torch.set_rng_state(torch.from_numpy(arrays["generator-0"].copy()))
            if device.type == "cuda":
                torch.cuda.set_rng_state(torch.from_numpy(arrays["generator-1"].copy()), device)

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
        header = {"epoch": self.epoch, "step": self.step, "share": self.share, "notes": self.notes}
        saved.write(header, dict(self._arrays()), self.checkpoints)

    def _arrays(self) -> Iterator[tuple[str, AnyArray]]:
        yield "diverged_at", self.diverged_at
        for n, tensor in enumerate(self._tensors):
            yield f"tensor-{n}", _bytes_of(tensor)
        for n, state in enumerate(self._generators):
            yield f"generator-{n}", state().numpy()

    def _fits(self, state: Sealed) -> bool:
        """True when position and arrays are such as this training has."""
        wanted = {name: array.nbytes for name, array in self._arrays()}
        epoch, step = state.header.get("epoch"), state.header.get("step")
        return (
            {name: array.nbytes for name, array in state.arrays.items()} == wanted
            and epoch in range(self.n_epochs + 1)
            and step in range(self.n_steps)
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
