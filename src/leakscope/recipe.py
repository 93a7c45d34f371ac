"""How one model is trained: frozen, hashable, comparable data."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from leakscope.errors import InputError
from leakscope.privacy.settings import Privacy
from leakscope.types import digest_arrays
from leakscope.user_code import path_of

OPTIMIZERS = ("sgd", "adam", "adamw")
SCHEDULES = ("constant", "cosine", "step")
TRAINERS = ("auto", "stacked", "serial")
PRECISIONS = ("float32", "bfloat16")

_MIXES_RECORDS = ("sam_rho", "mixup", "relax_loss")
"""Settings with which a record acts on the model by more than its own gradient."""

Option = str | int | float | bool | None


@dataclass(frozen=True)
class Recipe:
    """A network and how to train it.

    Attributes:
        net: a shipped network ("linear", "mlp", "cnn", "deep_cnn", "resnet18", "wide_resnet") or
            "package.module:factory", a function
            `factory(input_shape, n_classes, **net_options) -> torch.nn.Module`.
        net_options: keyword arguments of the factory, as sorted pairs.
        optimizer: "sgd", "adam" or "adamw"; `momentum` and `nesterov` belong to sgd.
        sam_rho: radius of sharpness-aware minimization around the optimizer (Foret et al. 2021); 0: without.
        schedule: "constant"; "cosine" (to zero over the run); "step" (times `step_factor` after
            each epoch of `step_epochs`).
        flips: mirror images left to right at random, each time they are trained on.
        crop: shift images by up to this many pixels in each direction at random, padded with the mean.
        precision: of forward and backward passes in training; weights and outputs are always float32.
        privacy: train with DP-SGD; None: without. Batches are then drawn at random at every step, and
            `batch_size` is their expected size.
        checkpoints: epochs after which the models are evaluated on every record; empty: the last.
        trainer: "stacked" (a block of models at once), "serial" (one at a time) or "auto".
    """

    net: str = "mlp"
    net_options: tuple[tuple[str, Option], ...] = ()
    optimizer: Literal["sgd", "adam", "adamw"] = "adam"
    lr: float = 0.001
    momentum: float = 0.0
    nesterov: bool = False
    sam_rho: float = 0.0
    weight_decay: float = 0.0
    schedule: Literal["constant", "cosine", "step"] = "constant"
    step_epochs: tuple[int, ...] = ()
    step_factor: float = 0.1
    label_smoothing: float = 0.0
    flips: bool = False
    crop: int = 0
    precision: Literal["float32", "bfloat16"] = "float32"
    privacy: Privacy | None = None
    batch_size: int = 64
    epochs: int = 30
    checkpoints: tuple[int, ...] = ()
    trainer: Literal["auto", "stacked", "serial"] = "auto"

    def __post_init__(self) -> None:
        object.__setattr__(self, "net_options", tuple(sorted(self.net_options)))
        problems = _recipe_problems(self)
        if problems:
            raise InputError("; ".join(problems))

    @property
    def evaluated_epochs(self) -> tuple[int, ...]:
        """The checkpoints, or the last epoch when none are named."""
        return self.checkpoints or (self.epochs,)

    def lr_factor(self, epochs_done: float) -> float:
        """The learning rate after `epochs_done` epochs, relative to `lr`."""
        if self.schedule == "cosine":
            return 0.5 * (1 + math.cos(math.pi * epochs_done / self.epochs))
        if self.schedule == "step":
            return float(self.step_factor ** sum(epochs_done >= e for e in self.step_epochs))
        return 1.0

    def description(self) -> dict[str, object]:
        """JSON data in which different recipes differ; part of a bank's identity."""
        return {**dataclasses.asdict(self), "net_options": dict(self.net_options)}


@dataclass(frozen=True, eq=False)
class EstimatorRecipe:
    """Any scikit-learn classifier or regressor, cloned for each model.

    Every parameter called `random_state` (nested ones too) is set for each model from
    (run seed, model index), so a fixed one in `estimator` is replaced.
    """

    estimator: Any
    processes: int | None = None

    evaluated_epochs = (1,)

    def description(self) -> dict[str, object]:
        """JSON data in which different estimators differ; part of a bank's identity.

        `processes` and `random_state` are left out: the former changes no result, the latter is replaced.
        """
        described: dict[str, object] = _described(self.estimator)
        return described

    @property
    def code(self) -> dict[str, object]:
        """Objects whose code decides what the models are."""
        return {"estimator": type(self.estimator), "parameters": _unfitted(self.estimator)}


@dataclass(frozen=True, eq=False)
class FunctionRecipe:
    """The user's own training function.

    Attributes:
        train: `train(records, indices, seed) -> predict`: trains one model on the records at `indices`
            and returns a function `predict(features)` that gives logits or probabilities, one row
            per record (for a regression target, one number). All its randomness must come from `seed`.
    """

    train: Callable[..., Any]

    evaluated_epochs = (1,)

    @property
    def name(self) -> str:
        """ "module:name" of the function."""
        return f"train={_name(self.train)}"

    def description(self) -> dict[str, object]:
        """The function's name; part of a bank's identity, as `code` is."""
        return {"train": _name(self.train)}

    @property
    def code(self) -> dict[str, object]:
        """Objects whose code decides what the models are."""
        return {"train": self.train}


AnyRecipe = Recipe | EstimatorRecipe | FunctionRecipe


def _described(value: Any) -> Any:
    """JSON data in which different values differ. Not `repr`, which abbreviates long values."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, np.ndarray):
        return _described(value.tolist()) if value.dtype.kind in "OT" else f"array {digest_arrays(value)}"
    if isinstance(value, Mapping):
        return {repr(key): _described(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_described(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    if _is_estimator(value):
        described = {name: _described(inner) for name, inner in _parameters(value).items()}
        return {"estimator": path_of(type(value)), "parameters": described}
    return repr(value) if isinstance(value, float | np.generic) else _name(value)


def _unfitted(value: Any) -> Any:
    """The value with each estimator in it replaced by its class and parameters: all that a clone has."""
    if _is_estimator(value):
        return type(value), {name: _unfitted(inner) for name, inner in _parameters(value).items()}
    if type(value) in (list, tuple):
        return type(value)(map(_unfitted, value))
    return {key: _unfitted(inner) for key, inner in value.items()} if type(value) is dict else value


def _is_estimator(value: Any) -> bool:
    return hasattr(value, "get_params") and not isinstance(value, type)


def _parameters(estimator: Any) -> dict[str, Any]:
    parameters = estimator.get_params(deep=False)
    return {name: parameters[name] for name in sorted(parameters) if name != "random_state"}


def _name(value: Any) -> str:
    """ "module:name" of a class or function, of the function of a partial, of the class of an object."""
    if isinstance(value, functools.partial):
        return _name(value.func)
    return path_of(value if hasattr(value, "__qualname__") else type(value))


def _recipe_problems(recipe: Recipe) -> list[str]:
    """Everything wrong with a recipe, in words."""
    at_least_one = ("batch_size", "epochs")
    problems = [
        f"{name}={getattr(recipe, name)}: must be at least 1"
        for name in at_least_one
        if getattr(recipe, name) < 1
    ]
    if not recipe.lr > 0:
        problems.append(f"lr={recipe.lr}: must be above 0")
    for name in ("weight_decay", "sam_rho", "crop"):
        if getattr(recipe, name) < 0:
            problems.append(f"{name}={getattr(recipe, name)}: must be 0 or more")
    for name in ("momentum", "label_smoothing"):
        if not 0 <= getattr(recipe, name) < 1:
            problems.append(f"{name}={getattr(recipe, name)}: must be in [0, 1)")
    choices = {"optimizer": OPTIMIZERS, "schedule": SCHEDULES, "trainer": TRAINERS, "precision": PRECISIONS}
    for name, allowed in choices.items():
        if getattr(recipe, name) not in allowed:
            problems.append(f"{name}={getattr(recipe, name)!r}: choose one of {', '.join(allowed)}")
    if recipe.optimizer != "sgd" and (recipe.momentum or recipe.nesterov):
        problems.append(f"momentum and nesterov belong to optimizer='sgd', not {recipe.optimizer!r}")
    if recipe.nesterov and not recipe.momentum:
        problems.append("nesterov=True needs a momentum above 0")
    if recipe.schedule == "step" and not recipe.step_epochs:
        problems.append("schedule='step' needs step_epochs, for example (30, 60)")
    bad = [e for e in recipe.checkpoints if not 1 <= e <= recipe.epochs]
    if bad or list(recipe.checkpoints) != sorted(set(recipe.checkpoints)):
        problems.append(f"checkpoints={list(recipe.checkpoints)}: must rise within 1..epochs={recipe.epochs}")
    return [*problems, *_privacy_problems(recipe)]


def _privacy_problems(recipe: Recipe) -> list[str]:
    """What does not go with DP-SGD."""
    if recipe.privacy is None:
        return []
    problems = [
        f"privacy and {name} exclude each other: {name} makes a record's gradient depend on the other records"
        for name in _MIXES_RECORDS
        if getattr(recipe, name, 0)
    ]
    if recipe.privacy.views > 1 and not (recipe.flips or recipe.crop):
        problems.append(f"privacy.views={recipe.privacy.views}: views are made by flips and crop; set one")
    return problems
