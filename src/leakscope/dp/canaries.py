"""Canaries in your own training loop: one training, one test of a claim of differential privacy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np
import torch
from torch import nn

from leakscope.array_types import BoolArray, FloatArray
from leakscope.dp.coordinates import Coordinates
from leakscope.dp.draws import SeenDraws
from leakscope.dp.hooks import CanaryRows, Sighting, Tally, along, rows_of_samples
from leakscope.dp.one_run import Placed, audit_scores
from leakscope.dp.planted import MOST_CANARIES, PlantedDataset, canaries_in, placeholder
from leakscope.dp.updates import Updates
from leakscope.dp.verdict import ClaimVerdict
from leakscope.errors import InputError
from leakscope.privacy.claim import Claim

NAME = "gradient canaries, one run"
_FEWEST = 10
_FAR = 6  # standard errors; noise does not turn scores around so far
_REMEMBERED = 1000  # forward passes whose gradients per sample may be computed later


class Canaries:
    """Gradient canaries that test a claim of differential privacy with one run of your own training code.

    A canary is a record whose gradient is one coordinate of one parameter, with a norm far above any
    clipping norm. Each canary is in the training set by its own fair coin. Your code draws it, clips it, sums
    it, adds noise, as with any record. The noisy gradients then show who was in, unless your code
    hides it.

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
        if not isinstance(number, int) or not _FEWEST <= number <= MOST_CANARIES:
            raise InputError(f"number={number!r}: give {_FEWEST} to {MOST_CANARIES:,} canaries")
        if seed is not None and (not isinstance(seed, int) or seed < 0):
            raise InputError(f"seed={seed!r}: must be a whole number of at least 0, or None")
        if not (norm > 0 and isfinite(norm)):
            raise InputError(f"norm={norm}: must be above 0 and finite")
        self._rng = np.random.default_rng(seed)
        self._is_in: BoolArray = self._rng.random(number) < 0.5
        self._silent, self._norm = silence_others, norm
        self._shape: tuple[int, ...] | None = None  # of a record's features
        self._names: list[str] = []
        self._parameters: list[nn.Parameter] = []
        self._coordinates: Coordinates | None = None
        self._updates: Updates | None = None
        self._current: torch.Tensor | None = None
        self._sightings: list[Sighting] = []
        self._is_seen = np.zeros(number, dtype=np.bool_)
        self._draws = SeenDraws(number)
        self._n_inserted, self._has_samples = 0, False
        self._tally = Tally()

    @property
    def is_in(self) -> BoolArray:
        """The coins; bool (canaries,)."""
        return self._is_in.copy()

    @property
    def scores(self) -> FloatArray:
        """Scores so far, higher means in; float64 (canaries,)."""
        updates = self._attached()
        updates.read_parameters()
        return updates.scores.copy()

    def plant(self, dataset: Any, labels: Any = None) -> Any:
        """Your training set with canaries.

        Args:
            dataset: a dataset with `len()` and `[index]` whose records are tuples, a tensor of features
                first; or a tensor of features, (records, ...).
            labels: a tensor, with a tensor of features only.

        Returns:
            A dataset, or both tensors.
        """
        if self._shape is not None:
            raise InputError(
                "these canaries are planted already: planted twice, a canary is two records. Make a new "
                "Canaries object, and plant it in the training set as it was before"
            )
        inside = np.flatnonzero(self._is_in)
        if labels is None:
            planted = PlantedDataset(dataset, inside)
            self._shape = tuple(dataset[0][0].shape)
            return planted
        if not torch.is_tensor(labels) or len(labels) != len(dataset) or len(dataset) == 0:
            raise InputError("give features and labels as tensors with one row per record")
        self._shape = tuple(dataset.shape[1:])
        features = torch.stack([placeholder(dataset[0], int(canary)) for canary in inside])
        same_label = labels[:1].expand(len(inside), *labels.shape[1:])
        return torch.cat([dataset, features]), torch.cat([labels, same_label])

    def attach(self, model: nn.Module, optimizer: Any = None) -> None:
        """Gives canaries their gradients, and reads the gradients of every step of the optimizer.

        Args:
            model: the model that the training loop calls; its output has one row per record.
            optimizer: a `torch.optim` optimizer or one of Opacus. Gradients are read from what its steps
                leave behind. None: they are read from the changes of the parameters.
        """
        if self._shape is None:
            raise InputError("plant canaries in the training set first: dataset = canaries.plant(dataset)")
        if self._coordinates is not None:
            raise InputError("these canaries are attached already; one Canaries object tests one training")
        _refuse_ghost_clipping(optimizer)
        plain = getattr(optimizer, "original_optimizer", optimizer)  # Opacus wraps one of torch
        trainable = _trainable(model, plain)
        self._names, self._parameters = list(trainable), list(trainable.values())
        self._coordinates = Coordinates([p.shape for p in self._parameters], len(self._is_in), self._rng)
        self._updates = Updates(self._coordinates, self._is_in, self._parameters, plain)
        model.register_forward_pre_hook(self._before_forward, with_kwargs=True)
        model.register_forward_hook(self._after_forward)
        if hasattr(optimizer, "clip_and_accumulate"):
            self._enter_opacus(optimizer)

    def insert(self) -> None:
        """Replaces canaries' rows of `parameter.grad_sample`: after backward(), before your own clipping."""
        self._attached()
        coordinates = self._coordinates
        assert coordinates is not None, "attached"
        samples = [_as_parts(p) for p in self._parameters]
        n_rows = sum(len(part) for part in samples[0])
        for row, canary in rows_of_samples(self._sightings, n_rows):
            for part in samples[coordinates.tensor[canary]]:
                if row < len(part):
                    self._n_inserted += 1
                    part[row].reshape(-1)[int(coordinates.place[canary])] = self._norm
                    break
                row -= len(part)
        self._sightings.clear()

    def observe(self, gradients: Mapping[str, torch.Tensor] | Sequence[torch.Tensor]) -> None:
        """Reads the noisy gradients of one step: what your code applies to the parameters, after the noise.

        Args:
            gradients: of all trainable parameters, by name or in the order of `model.parameters()`.
        """
        updates = self._attached()
        if isinstance(gradients, Mapping):
            missing = [name for name in self._names if name not in gradients]
            if missing:
                raise InputError(f"observe: no gradient of {', '.join(missing)}")
            gradients = [gradients[name] for name in self._names]
        shapes = [tuple(getattr(gradient, "shape", ())) for gradient in gradients]
        expected = [tuple(parameter.shape) for parameter in self._parameters]
        if shapes != expected:
            raise InputError(
                f"observe: gradients of shapes {shapes}; the trainable parameters have {expected}"
            )
        updates.read_gradients(gradients)

    def audit(self, claim: Claim) -> ClaimVerdict:
        """The verdict on a claim.

        Raises:
            InputError: canaries never reached the training, or nothing was observed.
        """
        updates = self._attached()
        updates.read_parameters()
        self._check_reached(updates)
        assumed = self._assumed(updates, claim)
        values = updates.values() if self._silent else None
        return audit_scores(
            updates.scores,
            self._is_in,
            claim,
            name=NAME,
            # Gradients of other records, and updates that were not stored, hide what kind of noise there is.
            white_box=values is not None or claim.is_gaussian,
            updates=values,
            placed=Placed(
                self._draws.of_updates(updates.n_stored),
                self._coordinates.tensor if self._coordinates else None,
            ),
            assumed=assumed,
        )

    def _assumed(self, updates: Updates, claim: Claim) -> list[str]:
        """What has to be true, and what weakens the test, in sentences."""
        assumed = ["What was observed is what the claim covers: every update of the training."]
        if claim.steps is not None and claim.steps != updates.n_steps:
            assumed.append(f"The claim has {claim.steps:,} steps; {updates.n_steps:,} updates were observed.")
        n_in, n_seen = int(self._is_in.sum()), int(self._is_seen.sum())
        if n_seen < n_in:
            assumed.append(
                f"Only {n_seen:,} of the {n_in:,} canaries that are in were drawn, which weakens the test."
            )
        if updates.n_noiseless:
            assumed.append(
                f"In {updates.n_noiseless:,} of {updates.n_steps:,} updates, next to no noise was seen on "
                "any canary. If noise is added later, call observe(noisy_gradients) after it."
            )
        if updates.rescales:
            assumed.append(
                "The optimizer rescales gradients, which weakens this test. Call observe(noisy_gradients) "
                "before each of its steps."
            )
        return assumed

    def _check_reached(self, updates: Updates) -> None:
        if not self._is_seen.any():
            raise InputError(
                "no canary reached the model. Train on what plant() returned, call the model that was "
                "attached, and plant after steps that change the features"
            )
        if self._has_samples and not self._n_inserted:
            raise InputError(
                "the loop uses grad_sample, which canaries did not reach. Give attach() the optimizer of "
                "Opacus, or call insert() after backward()"
            )
        if self._tally.n_rows and not self._tally.n_with_slope and not self._n_inserted:
            raise InputError(
                "the loss does not depend on the outputs of canaries, so nothing was tested. Canaries have "
                "the label of the first record: begin with one that the loss neither ignores nor weights by 0"
            )
        if not updates.n_steps:
            raise InputError(
                "no update was observed. If parameters are not stored in the model, call "
                "observe(noisy_gradients) in each step"
            )
        if updates.n_noiseless and updates.n_outside_steps:
            raise InputError(
                "next to no noise was seen in steps of the optimizer, but parameters also changed between "
                "its steps. If noise is added there, call observe(noisy_gradients) in each step"
            )
        self._check_direction(updates)

    def _check_direction(self, updates: Updates) -> None:
        inside, outside = updates.scores[self._is_in], updates.scores[~self._is_in]
        error = np.sqrt(inside.var() / len(inside) + outside.var() / len(outside))
        if inside.mean() - outside.mean() < -_FAR * error:
            raise InputError(
                "canaries that are in have lower scores than the others: updates have the opposite sign. Let "
                "the loop descend, or call observe(-noisy_gradients) in each step"
            )

    def _attached(self) -> Updates:
        if self._updates is None:
            raise InputError("attach the canaries to the model first: canaries.attach(model, optimizer)")
        return self._updates

    def _enter_opacus(self, optimizer: Any) -> None:
        clip = optimizer.clip_and_accumulate

        def insert_and_clip() -> None:
            self.insert()
            clip()

        optimizer.clip_and_accumulate = insert_and_clip

    def _before_forward(self, model: nn.Module, args: Any, kwargs: Any) -> Any:
        self._current = None
        if not torch.is_grad_enabled():  # an evaluation, maybe with averaged weights for its time
            return None
        self._attached().read_parameters()
        if not args or not torch.is_tensor(args[0]):
            raise InputError("the model's first argument has to be the tensor of features")
        is_single = args[0].shape == self._shape
        batch = args[0].unsqueeze(0) if is_single else args[0]
        self._current = canaries_in(batch, len(self._is_in))
        self._notice(Sighting(self._current))
        cleaned = torch.where(along(self._current >= 0, batch), torch.zeros_like(batch), batch)
        return (cleaned.squeeze(0) if is_single else cleaned, *args[1:]), kwargs

    def _notice(self, sighting: Sighting) -> None:
        if sighting.n_damaged:
            raise InputError(
                f"{sighting.n_damaged} records hold parts of a canary: something changes the features on the "
                "way to the model, such as a crop with padding. Leave it out for the test, or plant after it"
            )
        if not self._is_in[sighting.canaries].all():
            raise InputError(
                "a canary that is out reached the model: the training set has canaries of another Canaries "
                "object, too. Plant in the training set as it was before"
            )
        self._is_seen[sighting.canaries] = True
        self._draws.notice(self._attached().n_steps, sighting.canaries)
        self._has_samples |= any(getattr(p, "grad_sample", None) is not None for p in self._parameters)
        self._sightings = [*self._sightings[-_REMEMBERED:], sighting]

    def _after_forward(self, model: nn.Module, args: Any, output: Any) -> Any:
        canary, self._current = self._current, None
        if canary is None:
            return None
        is_single = args[0].shape == self._shape
        if not torch.is_tensor(output) or (not is_single and output.shape[:1] != canary.shape):
            raise InputError("the model's output has to be one tensor with a row per record")
        # Parameters of this very call: torch.func gives the model others than its own.
        parameters = dict(model.named_parameters(remove_duplicate=False))
        assert self._coordinates is not None, "attached"
        owned = self._coordinates.read([parameters[name] for name in self._names])[canary.clamp(min=0)]
        rows = output.unsqueeze(0) if is_single else output
        replaced: torch.Tensor = CanaryRows.apply(  # type: ignore[no-untyped-call]
            rows, owned, canary, self._norm, self._silent, self._tally
        )
        return replaced.reshape(output.shape)


def _refuse_ghost_clipping(optimizer: Any) -> None:
    """Opacus then clips by weights of losses, which the gradients of canaries do not pass through."""
    if any("FastGradientClipping" in base.__name__ for base in type(optimizer).__mro__):
        raise InputError(
            "Opacus's ghost clipping has no gradients per sample, which canaries need: test the claim with "
            "grad_sample_mode='hooks'"
        )


def _trainable(model: nn.Module, optimizer: Any) -> dict[str, nn.Parameter]:
    """The parameters that the training changes, by name: those of the optimizer, where there is one."""
    trainable = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not hasattr(optimizer, "param_groups"):
        return trainable
    changed = {id(p) for group in optimizer.param_groups for p in group["params"]}
    trainable = {name: p for name, p in trainable.items() if id(p) in changed}
    if not trainable:
        raise InputError("the optimizer has none of the model's parameters: attach the model it trains")
    return trainable


def _as_parts(parameter: Any) -> list[torch.Tensor]:
    """Gradients per sample, one tensor per backward pass."""
    samples = getattr(parameter, "grad_sample", None)
    if samples is None:
        raise InputError(
            "a parameter has no grad_sample, which canaries need: call backward() first, with hooks that "
            "compute it"
        )
    return samples if isinstance(samples, list) else [samples]
