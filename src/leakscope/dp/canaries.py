"""Canaries in your own training loop: one training, one test of a claim of differential privacy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from leakscope.array_types import BoolArray, FloatArray
from leakscope.dp.coordinates import Coordinates, standardized
from leakscope.dp.hooks import CanaryRows, Sighting, rows_of_samples
from leakscope.dp.one_run import audit_scores
from leakscope.dp.planted import MOST_CANARIES, PlantedDataset, canaries_in, placeholder
from leakscope.dp.verdict import ClaimVerdict
from leakscope.errors import InputError
from leakscope.privacy.claim import Claim

NAME = "gradient canaries, one run"


class Canaries:
    """Gradient canaries that test a claim of differential privacy with one run of your own training code.

    A canary is a record whose gradient is one coordinate of one parameter, with a norm far above any
    clipping norm. Each canary is in the training set by its own fair coin. Your code draws it, clips it, sums
    it, adds noise, as with any record. The noisy gradients then show who was in, as far as your code lets
    them.

        canaries = leakscope.dp.Canaries(1000)
        dataset = canaries.plant(dataset)              # before the data loader
        ...                                            # model, optimizer; for Opacus: make_private(...)
        canaries.attach(model, optimizer)
        ...                                            # your training loop, as it is
        print(canaries.audit(leakscope.dp.Claim(epsilon=8, delta=1e-5)))

    - Tensors: `x, y = canaries.plant(x, y)`.
    - Opacus: give `attach` the optimizer that `make_private` returns, and the model that you call
      (with `wrap_model=False`, that is your own model).
    - A loop without `torch.optim`: call `attach(model)`. Updates are then read from the model's parameters.
      If they are not stored in the model, call `observe(noisy_gradients)` in each step.
    - Your own clipping of `parameter.grad_sample`: call `insert()` after `backward()`, before you clip.

    Args:
        number: how many canaries; about half of them will be in. At most the number of trainable parameters.
        silence_others: ordinary records get a gradient of zero, so that only noise can hide a canary. Privacy
            is claimed for all training sets, hence for this one as well. The model learns nothing. False
            trains the model as usual, and the test is weaker.
        seed: of coins and coordinates; fresh by default. Training must not use the same one.
        norm: of a canary's gradient before clipping.
    """

    def __init__(
        self, number: int = 1000, *, silence_others: bool = True, seed: int | None = None, norm: float = 1e6
    ) -> None:
        if not 2 <= number <= MOST_CANARIES:
            raise InputError(f"number={number}: give 2 to {MOST_CANARIES:,} canaries")
        self._rng = np.random.default_rng(seed)
        self._is_in: BoolArray = self._rng.random(number) < 0.5
        self._silent, self._norm = silence_others, norm
        self._coordinates: Coordinates | None = None
        self._names: list[str] = []
        self._parameters: list[nn.Parameter] = []
        self._record_ndim: int | None = None
        self._current: torch.Tensor | None = None
        self._sightings: list[Sighting] = []
        self._seen = np.zeros(number, dtype=np.int64)
        self._sum: FloatArray = np.zeros(number)
        self._n_steps, self._n_noiseless = 0, 0
        self._reads_iterates, self._iterate = False, np.zeros(0)

    @property
    def is_in(self) -> BoolArray:
        """The coins; bool (canaries,)."""
        return self._is_in.copy()

    @property
    def scores(self) -> FloatArray:
        """Scores so far, higher means in; float64 (canaries,)."""
        return self._sum.copy()

    def plant(self, dataset: Any, labels: Any = None) -> Any:
        """Your training set with canaries.

        Args:
            dataset: a dataset with `len()` and `[index]` whose records are tuples, a tensor of features
                first; or a tensor of features, (records, ...).
            labels: a tensor, with a tensor of features only.

        Returns:
            A dataset, or both tensors.
        """
        inside = np.flatnonzero(self._is_in)
        if labels is None:
            planted = PlantedDataset(dataset, inside)
            self._record_ndim = dataset[0][0].ndim
            return planted
        self._record_ndim = dataset.ndim - 1
        features = [placeholder(dataset[0], int(canary)) for canary in inside]
        return torch.cat([dataset, torch.stack(features)]), torch.cat(
            [labels, labels[:1].repeat(len(inside), *[1] * (labels.ndim - 1))]
        )

    def attach(self, model: nn.Module, optimizer: Any = None) -> None:
        """Gives canaries their gradients, and reads the gradients of every step of the optimizer.

        Args:
            model: the model that the training loop calls; its output has one row per record.
            optimizer: a `torch.optim` optimizer or one of Opacus. Its gradients are read where it applies
                them, so they are what a step reveals. None: updates are read from the parameters.
        """
        if self._record_ndim is None:
            raise InputError("plant canaries in the training set first: dataset = canaries.plant(dataset)")
        if self._coordinates is not None:
            raise InputError("these canaries are attached already; one Canaries object tests one training")
        trainable = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self._names, self._parameters = list(trainable), list(trainable.values())
        self._coordinates = Coordinates([p.shape for p in self._parameters], len(self._is_in), self._rng)
        model.register_forward_pre_hook(self._before_forward, with_kwargs=True)
        model.register_forward_hook(self._after_forward)
        if optimizer is None:
            self._reads_iterates, self._iterate = True, self._read(self._parameters)
            return
        if hasattr(optimizer, "clip_and_accumulate"):
            self._enter_opacus(optimizer)
        getattr(optimizer, "original_optimizer", optimizer).register_step_pre_hook(self._before_step)

    def insert(self) -> None:
        """Replaces canaries' rows of `parameter.grad_sample`: after backward(), before your own clipping."""
        coordinates = self._attached()
        samples = [_as_parts(p) for p in self._parameters]
        n_rows = sum(len(part) for part in samples[0])
        for row, canary in rows_of_samples(self._sightings, n_rows):
            for part in samples[coordinates.tensor[canary]]:
                if row < len(part):
                    part[row].reshape(-1)[int(coordinates.place[canary])] = self._norm
                    break
                row -= len(part)
        self._sightings.clear()

    def observe(self, gradients: Mapping[str, torch.Tensor] | Sequence[torch.Tensor]) -> None:
        """Reads the noisy gradients of one step: what your code applies to the parameters, after the noise.

        Args:
            gradients: of all trainable parameters, in the order of `model.parameters()`.
        """
        self._reads_iterates = False
        tensors = list(gradients.values()) if isinstance(gradients, Mapping) else list(gradients)
        self._record(self._read(tensors))

    def audit(self, claim: Claim) -> ClaimVerdict:
        """The verdict on a claim.

        Raises:
            InputError: canaries never reached the training, or nothing was observed.
        """
        self._attached()
        self._read_iterate()
        if not self._seen.any():
            raise InputError(
                "no canary reached the model. Train on what plant() returned, call the model that was "
                "attached, and plant after steps that change the features"
            )
        if not self._n_steps:
            raise InputError(
                "no update was observed. Give attach() the optimizer, or call observe(noisy_gradients) in "
                "each step"
            )
        return audit_scores(self._sum, self._is_in, claim, name=NAME, white_box=True, assumed=self._assumed())

    def _assumed(self) -> list[str]:
        sentences = ["Everything that was observed is what the claim covers: all updates of the training."]
        if self._n_noiseless:
            sentences.append(
                f"In {self._n_noiseless:,} of {self._n_steps:,} updates, no noise was seen on any canary. If "
                "noise is added later, these are not the updates to observe: call observe(...) after it."
            )
        return sentences

    def _attached(self) -> Coordinates:
        if self._coordinates is None:
            raise InputError("attach the canaries to the model first: canaries.attach(model, optimizer)")
        return self._coordinates

    def _enter_opacus(self, optimizer: Any) -> None:
        clip = optimizer.clip_and_accumulate

        def insert_and_clip() -> None:
            self.insert()
            clip()

        optimizer.clip_and_accumulate = insert_and_clip

    def _before_forward(self, model: nn.Module, args: Any, kwargs: Any) -> Any:
        self._current = None
        self._read_iterate()
        if not torch.is_grad_enabled():
            return None
        if not args or not torch.is_tensor(args[0]):
            raise InputError("the model's first argument has to be the tensor of features")
        features = args[0]
        is_single = features.ndim == self._record_ndim
        batch = features.unsqueeze(0) if is_single else features
        self._current = canaries_in(batch, len(self._is_in))
        self._notice(self._current)
        is_canary = (self._current >= 0).reshape(-1, *[1] * (batch.ndim - 1))
        cleaned = torch.where(is_canary, torch.zeros_like(batch), batch)
        return (cleaned.squeeze(0) if is_single else cleaned, *args[1:]), kwargs

    def _notice(self, canary: torch.Tensor) -> None:
        sighting = Sighting(canary)
        np.add.at(self._seen, sighting.canaries, 1)
        self._sightings = [*self._sightings[-999:], sighting]

    def _after_forward(self, model: nn.Module, args: Any, output: Any) -> Any:
        if self._current is None:
            return None
        if not torch.is_tensor(output):
            raise InputError("the model's output has to be one tensor with a row per record")
        canary, self._current = self._current, None
        parameters = dict(
            model.named_parameters(remove_duplicate=False)
        )  # of this call: torch.func has its own
        owned = self._attached().read([parameters[name] for name in self._names])[canary.clamp(min=0)]
        rows = (
            output
            if output.ndim and output.shape[0] == len(canary) and not self._is_single(args)
            else output.unsqueeze(0)
        )
        replaced: torch.Tensor = CanaryRows.apply(  # type: ignore[no-untyped-call]
            rows, owned, canary, self._norm, self._silent
        )
        return replaced.reshape(output.shape)

    def _is_single(self, args: Any) -> bool:
        return bool(args[0].ndim == self._record_ndim)

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self.observe([torch.zeros_like(p) if p.grad is None else p.grad for p in self._parameters])

    def _read(self, tensors: Sequence[torch.Tensor]) -> FloatArray:
        with torch.no_grad(), torch._C._DisableFuncTorch():  # the loop may be inside vmap or grad
            return self._attached().read(tensors).double().cpu().numpy()

    def _read_iterate(self) -> None:
        if not self._reads_iterates:
            return
        iterate = self._read(self._parameters)
        if (iterate != self._iterate).any():
            self._record(self._iterate - iterate)
            self._iterate = iterate

    def _record(self, values: FloatArray) -> None:
        """Adds one step to the scores; a step with overflowing gradients says nothing."""
        if not np.isfinite(values).all():
            return
        self._n_steps += 1
        self._n_noiseless += len(np.unique(values)) < len(values) / 4
        self._sum += standardized(values, self._attached().group)


def _as_parts(parameter: Any) -> list[torch.Tensor]:
    """Gradients per sample, one tensor per backward pass."""
    samples = getattr(parameter, "grad_sample", None)
    if samples is None:
        raise InputError("a parameter has no grad_sample: call backward() first, with hooks that compute it")
    return samples if isinstance(samples, list) else [samples]
