"""What the steps of a training reveal about each canary, read where it is final: after the step.

A gradient that is read before an optimizer's step may still lack its noise, which some optimizers add in
their step. So gradients are taken from what the step left behind: the optimizer's running mean where it has
one, the change of the parameters otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from leakscope.array_types import FloatArray
from leakscope.dp.coordinates import Coordinates, standardized

_MOST_STORED = 10_000_000  # values
_FEW_VALUES = 0.1  # of the canaries; noise gives nearly every canary a value of its own


class _Mean(NamedTuple):
    """A running mean of gradients in an optimizer: new = decay * old + weight * gradient."""

    name: str
    decay: float


class Updates:
    """Scores of the canaries, summed over the updates of one training."""

    def __init__(self, coordinates: Coordinates, parameters: Sequence[nn.Parameter], optimizer: Any) -> None:
        self._coordinates, self._parameters = coordinates, list(parameters)
        self.scores: FloatArray = np.zeros(len(coordinates.tensor))
        self.n_steps, self.n_noiseless = 0, 0
        self._values: list[npt.NDArray[np.float32]] = []
        self._reads_parameters, self._scale = True, np.ones(len(coordinates.tensor))
        self._last_parameters = self.at_canaries(self._parameters)
        self._last_mean: FloatArray = np.zeros(len(self.scores))
        if hasattr(optimizer, "register_step_post_hook"):
            optimizer.register_step_post_hook(lambda stepped, *_: self._after_step(stepped))

    def at_canaries(self, tensors: Sequence[torch.Tensor]) -> FloatArray:
        """The canaries' coordinates of tensors like the parameters; float64 (canaries,)."""
        with torch.no_grad(), torch._C._DisableFuncTorch():  # the loop may be inside vmap or grad
            values: FloatArray = self._coordinates.read(tensors).double().cpu().numpy()
        return values

    def values(self) -> FloatArray | None:
        """What each update showed of each canary, (updates, canaries); None: they are too many to store."""
        if len(self._values) < self.n_steps:
            return None
        return np.array(self._values, dtype=np.float64)

    def read_parameters(self) -> None:
        """Reads how the parameters have changed, if they have."""
        if not self._reads_parameters:
            return
        parameters = self.at_canaries(self._parameters)
        if (parameters != self._last_parameters).any():
            self._record((self._last_parameters - parameters) / self._scale)
            self._last_parameters = parameters

    def read_gradients(self, gradients: Sequence[torch.Tensor]) -> None:
        """Reads the gradients of one step; from now on, the parameters are not read."""
        self._reads_parameters = False
        self._record(self.at_canaries(gradients))

    def _after_step(self, optimizer: torch.optim.Optimizer) -> None:
        # One scale for all steps, whatever the schedule; a step at rate 0 changes nothing.
        rates = {
            id(p): _signed_rate(group.get("lr", 1.0), bool(group.get("maximize")))
            for group in optimizer.param_groups
            for p in group["params"]
        }
        self._scale = np.array([rates[id(p)] for p in self._parameters])[self._coordinates.tensor]
        mean = _running_mean(optimizer)
        states = [optimizer.state[p].get(mean.name) for p in self._parameters] if mean else []
        if mean is None or any(state is None for state in states):
            return
        self._reads_parameters = False
        values = self.at_canaries(states)
        self._record((values - mean.decay * self._last_mean) * np.sign(self._scale))
        self._last_mean = values

    def _record(self, values: FloatArray) -> None:
        """Adds one step to the scores; a step that overflowed says nothing."""
        if not np.isfinite(values).all():
            return
        self.n_steps += 1
        if self.n_steps * len(values) <= _MOST_STORED:
            self._values.append(values.astype(np.float32))
        self.n_noiseless += len(np.unique(values)) <= max(2, _FEW_VALUES * len(values))
        self.scores += standardized(values, self._coordinates.group)


def _signed_rate(rate: float, ascends: bool) -> float:
    """The learning rate by which changes of parameters are divided, negative where they ascend."""
    size = float(rate) or 1.0
    return -size if ascends else size


def _running_mean(optimizer: torch.optim.Optimizer) -> _Mean | None:
    """The running mean that an optimizer has; None: a step changes the parameters by the gradient alone."""
    group = optimizer.param_groups[0]
    if "betas" in group:
        return _Mean("exp_avg", float(group["betas"][0]))
    if group.get("momentum"):
        return _Mean("momentum_buffer", float(group["momentum"]))
    return None
