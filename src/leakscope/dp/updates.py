"""What the steps of a training reveal about each canary, read where it is final: after the step.

A gradient that is read before an optimizer's step may still lack its noise, which some optimizers add in
their step. So gradients are taken from what the step left behind: the optimizer's running mean where it has
one, the change of the parameters otherwise. What weight decay added to either is known, and taken out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from leakscope.array_types import BoolArray, FloatArray
from leakscope.dp.coordinates import Coordinates, standardized
from leakscope.dp.missing_noise import lacks_noise

_MOST_STORED = 10_000_000  # values


_OF_RESCALING = {"centered", "rho", "etas", "lr_decay", "beta2_decay", "ns_coefficients"}
"""Options of RMSprop, Adadelta, Rprop, Adagrad, Adafactor and Muon, which rescale gradients."""


class _Mean(NamedTuple):
    """A running mean of gradients in an optimizer: new = decay * old + weight * gradient."""

    name: str
    decay: float
    weight: float


class Updates:
    """Scores of the canaries, summed over the updates of one training."""

    def __init__(
        self, coordinates: Coordinates, is_in: BoolArray, parameters: Sequence[nn.Parameter], optimizer: Any
    ) -> None:
        self._coordinates, self._is_in, self._parameters = coordinates, is_in, list(parameters)
        self.scores: FloatArray = np.zeros(len(coordinates.tensor))
        self.n_steps, self.n_noiseless = 0, 0
        self.n_outside_steps = 0  # changes of parameters between steps whose gradients are read from a mean
        self._values: list[npt.NDArray[np.float32]] = []
        self.rescales = any(_OF_RESCALING & group.keys() for group in getattr(optimizer, "param_groups", []))
        self._reads_parameters, self._reads_means = True, False
        self._rates: FloatArray = np.ones(len(coordinates.tensor))
        self._weight_decays: FloatArray = np.zeros(len(coordinates.tensor))
        self._last_parameters = self.at_canaries(self._parameters)
        self._last_mean: FloatArray = np.zeros(len(self.scores))
        if hasattr(optimizer, "register_step_post_hook"):
            optimizer.register_step_post_hook(lambda stepped, *_: self._after_step(stepped))

    def at_canaries(self, tensors: Sequence[torch.Tensor]) -> FloatArray:
        """The canaries' coordinates of tensors like the parameters; float64 (canaries,)."""
        with torch.no_grad(), torch._C._DisableFuncTorch():  # the loop may be inside vmap or grad
            values: FloatArray = self._coordinates.read(tensors).double().cpu().numpy()
        return values

    @property
    def n_stored(self) -> int:
        """How many updates are stored, the first ones."""
        return len(self._values)

    def values(self) -> FloatArray | None:
        """What each update showed of each canary, (updates, canaries); None: they are too many to store."""
        if len(self._values) < self.n_steps:
            return None
        return np.array(self._values, dtype=np.float64)

    def read_parameters(self) -> None:
        """Reads how the parameters have changed, if they have."""
        parameters = self.at_canaries(self._parameters)
        if not (parameters != self._last_parameters).any():
            return
        if self._reads_parameters:
            changes = (self._last_parameters - parameters) / np.abs(self._rates)
            self._record(self._undecayed(changes))
        self.n_outside_steps += self._reads_means
        self._last_parameters = parameters

    def read_gradients(self, gradients: Sequence[torch.Tensor]) -> None:
        """Reads the gradients of one step; from now on, the parameters are not read."""
        self._reads_parameters = self._reads_means = False
        self._record(self.at_canaries(gradients))

    def _after_step(self, optimizer: torch.optim.Optimizer) -> None:
        groups = {id(p): group for group in optimizer.param_groups for p in group["params"]}
        of_parameters = [groups[id(p)] for p in self._parameters]
        self._rates = self._per_canary([_signed_rate(group) for group in of_parameters])
        self._weight_decays = self._per_canary([_weight_decay(group) for group in of_parameters])
        means = [mean for group in of_parameters if (mean := _running_mean(group, self.n_steps == 0))]
        if len(means) < len(of_parameters):
            return
        pairs = zip(self._parameters, means, strict=True)
        states = [state for p, mean in pairs if (state := optimizer.state[p].get(mean.name)) is not None]
        if len(states) < len(means):
            return
        self._reads_parameters, self._reads_means = False, True
        values, decays = self.at_canaries(states), self._per_canary([mean.decay for mean in means])
        weights = self._per_canary([mean.weight for mean in means])
        self._record(self._undecayed(values - decays * self._last_mean, weights) / weights)
        self._last_mean, self._last_parameters = values, self.at_canaries(self._parameters)

    def _per_canary(self, of_parameters: Sequence[float]) -> FloatArray:
        """What each canary's parameter has; float64 (canaries,)."""
        return np.array(of_parameters, dtype=np.float64)[self._coordinates.tensor]

    def _undecayed(self, changes: FloatArray, weight: FloatArray | float = 1.0) -> FloatArray:
        """Gradients from what a step added, which descends and has weight decay in it."""
        decayed = weight * self._weight_decays * self._last_parameters
        gradients: FloatArray = (changes - decayed) * np.sign(self._rates)
        return gradients

    def _record(self, values: FloatArray) -> None:
        """Adds one step to the scores; a step that overflowed says nothing."""
        if not np.isfinite(values).all():
            return
        self.n_steps += 1
        if self.n_steps * len(values) <= _MOST_STORED:
            self._values.append(values.astype(np.float32))
        self.n_noiseless += bool(lacks_noise(values[None], self._is_in)[0])
        self.scores += standardized(values, self._coordinates.group)


def _signed_rate(group: Mapping[str, Any]) -> float:
    """The learning rate by which changes of parameters are divided, negative where they ascend.

    One scale for all steps, whatever the schedule; a step at rate 0 changes nothing.
    """
    size = float(group.get("lr", 1.0)) or 1.0
    return -size if group.get("maximize") else size


def _weight_decay(group: Mapping[str, Any]) -> float:
    """What is added to the gradient for each unit of a parameter; AdamW adds nothing to gradients."""
    return 0.0 if group.get("decoupled_weight_decay") else float(group.get("weight_decay", 0.0))


def _running_mean(group: Mapping[str, Any], is_first: bool) -> _Mean | None:
    """The running mean of a group's gradients; None: a step changes its parameters by the gradient alone."""
    if "betas" in group:
        decay = float(group["betas"][0])
        return _Mean("exp_avg", decay, 1 - decay)
    if group.get("momentum"):
        weight = 1.0 if is_first else 1 - float(group.get("dampening", 0.0))
        return _Mean("momentum_buffer", float(group["momentum"]), weight)
    return None
