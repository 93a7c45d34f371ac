"""How one model is trained: frozen, hashable, comparable data."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from leakscope.code_identity.description import described, name_of, unfitted
from leakscope.errors import InputError
from leakscope.privacy.settings import Privacy

OPTIMIZERS = ("sgd", "adam", "adamw")
SCHEDULES = ("constant", "cosine", "step")
TRAINERS = ("auto", "stacked", "serial")
SOFT_LABELS = ("label_smoothing", "label_entropy", "entropy_weight", "mixup", "distillation")
"""Settings that soften what a classifier is trained towards."""
OF_CLASSIFIERS = ("label_smoothing", "label_entropy", "entropy_weight", "relax_loss")
"""Settings that a regression cannot have."""
PRECISIONS = ("float32", "bfloat16")
TREATMENTS = ("leave_out", "down_weight", "clip_more")
CHOICES = ("early", "random", "listed")
EARLY = 0.25
"""Share of the epochs in the early window, by default."""

_MIXES_RECORDS = ("sam_rho", "mixup", "relax_loss", "distillation")
"""Settings with which a record acts on the model by more than its own gradient."""

Option = str | int | float | bool | None


@dataclass(frozen=True)
class Treatment:
    """Targeted treatment of a few members of each model.

    Flagging members is part of the training, so every model of a population goes through it, the reference
    models of an attack as well. A member that is left out still counts as a member: the question is what the
    whole procedure reveals about who was in the data.

    Attributes:
        how: what becomes of flagged members: "leave_out" (no training on them), "down_weight" (their loss
            counts `weight` times) or "clip_more" (DP-SGD clips their gradients to `weight` times its norm).
        choice: who is flagged: "early" (the most exposed members after `epochs` epochs, as
            `leakscope.Monitor` ranks them), "random", or "listed" (the members among `records`).
        share: share of each model's members that are flagged early or at random.
        weight: weight of the loss of a flagged member, for "down_weight"; of its clipping norm, for
            "clip_more".
        epochs: length of the early window; None: a quarter of the recipe's epochs.
        restart: train from scratch once members are flagged; if false, the model of the early window is
            trained on, so every flagged member has had the epochs of the window.
        records: indices of records, for "listed".
    """

    how: Literal["leave_out", "down_weight", "clip_more"] = "leave_out"
    choice: Literal["early", "random", "listed"] = "early"
    share: float = 0.05
    weight: float = 0.1
    epochs: int | None = None
    restart: bool = True
    records: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        problems = _treatment_problems(self)
        if problems:
            raise InputError("treatment: " + "; ".join(problems))

    def window(self, epochs: int) -> int:
        """Epochs of the early window in a training of `epochs` epochs; 0: members are flagged before it."""
        if self.restart and self.choice != "early":
            return 0
        return max(1, round(EARLY * epochs)) if self.epochs is None else self.epochs


@dataclass(frozen=True)
class Distillation:
    """SELENA (Tang et al. 2022): a model that learns each member's label from models not trained on it.

    The members of a model are divided at random into `models` equal parts. Each of as many sub-models is
    trained without `left_out` of the parts, so each member is new to `left_out` sub-models. The mean of their
    predicted probabilities is the member's soft label, on which the model itself is trained.

    Attributes:
        models: number of sub-models; the publication has 25.
        left_out: number of sub-models that are not trained on a member; the publication has 10.
    """

    models: int = 5
    left_out: int = 2

    def __post_init__(self) -> None:
        if not 1 <= self.left_out < self.models:
            raise InputError(
                f"distillation: left_out={self.left_out}: must be at least 1 and below models={self.models}"
            )


@dataclass(frozen=True)
class Recipe:
    """A network and how to train it.

    Attributes:
        net: a shipped network ("linear", "mlp", "cnn", "deep_cnn", "resnet18", "wide_resnet") or
            "package.module:factory", a function
            `factory(input_shape, n_classes, **net_options) -> torch.nn.Module`.
        net_options: keyword arguments of the factory, as sorted pairs.
        optimizer: "sgd", "adam" or "adamw".
        lr: learning rate, at the start of its schedule.
        momentum: momentum of sgd.
        nesterov: Nesterov's form of momentum, of sgd.
        sam_rho: radius of sharpness-aware minimization around the optimizer (Foret et al. 2021); 0: without.
        weight_decay: strength of weight decay; with adamw decoupled from the gradient.
        schedule: course of the learning rate: "constant"; "cosine" (to zero over the run); "step" (times
            `step_factor` after each epoch of `step_epochs`).
        step_epochs: epochs after which the "step" schedule lowers the learning rate.
        step_factor: what the "step" schedule multiplies the learning rate by.
        label_smoothing: share of the label's probability that is spread over all classes.
        label_entropy: the least entropy of the labels that classifiers are trained on, as a share of the
            largest, log(classes); the label keeps the largest probability (HAMP, Chen and Pattabiraman 2024).
        entropy_weight: weight of the entropy of the outputs, which is subtracted from the loss (HAMP).
        relax_loss: the loss of a batch at which training settles: below it, ascent and flatter labels take
            turns by epoch (RelaxLoss, Chen et al. 2022); 0: without.
        mixup: each batch is mixed with a permutation of itself, by shares drawn from Beta(mixup, mixup)
            (Zhang et al. 2018); 0: without.
        deduplicate: train each model on only the first of its members that are equal in features and label.
        flips: mirror images left to right at random, each time they are trained on.
        crop: shift images by up to this many pixels in each direction at random, padded with the mean.
        precision: number format of forward and backward passes in training; weights and outputs are always
            float32.
        privacy: train with DP-SGD; None: without. Batches are then drawn at random at every step, and
            `batch_size` is their expected size.
        batch_size: records per step.
        epochs: how often a model sees each of its members.
        checkpoints: epochs after which the models are evaluated on every record; empty: the last. Not for
            the references of `[target]`.
        trainer: "stacked" (a block of models at once), "serial" (one at a time) or "auto".
        treatment: targeted treatment of the members most exposed early in training; None: without.
        distillation: training on labels that models not trained on a member predict; None: without.
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
    label_entropy: float = 0.0
    entropy_weight: float = 0.0
    relax_loss: float = 0.0
    mixup: float = 0.0
    deduplicate: bool = False
    flips: bool = False
    crop: int = 0
    precision: Literal["float32", "bfloat16"] = "float32"
    privacy: Privacy | None = None
    batch_size: int = 64
    epochs: int = 30
    checkpoints: tuple[int, ...] = ()
    trainer: Literal["auto", "stacked", "serial"] = "auto"
    treatment: Treatment | None = None
    distillation: Distillation | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "net_options", tuple(sorted(self.net_options)))
        problems = _recipe_problems(self)
        if problems:
            raise InputError("; ".join(problems))

    @property
    def evaluated_epochs(self) -> tuple[int, ...]:
        """The checkpoints, or the last epoch when none are named."""
        return self.checkpoints or (self.epochs,)

    @property
    def guarantees_privacy(self) -> bool:
        """Whether the training is differentially private with the epsilon that it spends.

        Members that are clipped more are covered, but flagging them is not, unless they are listed in
        advance: one record more may change which others are flagged.
        """
        return self.privacy is not None and (self.treatment is None or self.treatment.choice == "listed")

    @property
    def early_reads(self) -> int:
        """How often the models of early stages are evaluated on every record."""
        treatment = self.treatment
        reads = treatment.window(self.epochs) if treatment and treatment.choice == "early" else 0
        return reads + (self.distillation.models if self.distillation else 0)

    @property
    def epochs_of_all_stages(self) -> int:
        """Epochs on all members that cost as much as the training of one model, early stages included."""
        treatment, sub = self.treatment, self.distillation
        before = treatment.window(self.epochs) if treatment and treatment.restart else 0
        return self.epochs + before + (self.epochs * (sub.models - sub.left_out) if sub else 0)

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
        description: dict[str, object] = described(self.estimator)
        return description

    @property
    def code(self) -> dict[str, object]:
        """Objects whose code decides what the models are."""
        return {"estimator": type(self.estimator), "parameters": unfitted(self.estimator)}


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
        return f"train={name_of(self.train)}"

    def description(self) -> dict[str, object]:
        """The function's name; part of a bank's identity, as `code` is."""
        return {"train": name_of(self.train)}

    @property
    def code(self) -> dict[str, object]:
        """Objects whose code decides what the models are."""
        return {"train": self.train}


AnyRecipe = Recipe | EstimatorRecipe | FunctionRecipe


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
    for name in ("weight_decay", "sam_rho", "crop", "entropy_weight", "relax_loss", "mixup"):
        if not 0 <= getattr(recipe, name) < math.inf:
            problems.append(f"{name}={getattr(recipe, name)}: must be 0 or more")
    for name in ("momentum", "label_smoothing", "label_entropy"):
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
    problems += _loss_problems(recipe)
    if recipe.schedule == "step" and not recipe.step_epochs:
        problems.append("schedule='step' needs step_epochs, for example (30, 60)")
    bad = [e for e in recipe.checkpoints if not 1 <= e <= recipe.epochs]
    if bad or list(recipe.checkpoints) != sorted(set(recipe.checkpoints)):
        problems.append(f"checkpoints={list(recipe.checkpoints)}: must rise within 1..epochs={recipe.epochs}")
    return [*problems, *_stage_problems(recipe), *_privacy_problems(recipe)]


def _stage_problems(recipe: Recipe) -> list[str]:
    """What is wrong with the stages of a training."""
    treatment, problems = recipe.treatment, []
    if treatment and recipe.distillation:
        problems.append("give either treatment or distillation")
    if treatment and treatment.how == "clip_more" and recipe.privacy is None:
        problems.append("treatment: how='clip_more' needs DP-SGD, which clips: give privacy, too")
    if treatment and (window := treatment.window(recipe.epochs)) >= recipe.epochs:
        problems.append(f"treatment: epochs={window}: must be below the recipe's epochs={recipe.epochs}")
    elif treatment and not treatment.restart and recipe.evaluated_epochs[0] <= window:
        problems.append(
            f"treatment: restart=false: checkpoint {recipe.evaluated_epochs[0]} lies in the early window of "
            f"{window} epochs, before members are treated"
        )
    return problems


def _treatment_problems(treatment: Treatment) -> list[str]:
    problems = []
    for name, allowed in {"how": TREATMENTS, "choice": CHOICES}.items():
        if getattr(treatment, name) not in allowed:
            problems.append(f"{name}={getattr(treatment, name)!r}: choose one of {', '.join(allowed)}")
    if not 0 < treatment.share <= 0.5:
        problems.append(f"share={treatment.share}: must be above 0 and at most 0.5")
    if not 0 <= treatment.weight <= 1:
        problems.append(f"weight={treatment.weight}: must be in [0, 1]")
    if treatment.how == "clip_more" and treatment.weight == 0:
        problems.append("weight=0.0: a clipping norm is above 0; how='leave_out' trains on none of them")
    if treatment.epochs is not None and treatment.epochs < 1:
        problems.append(f"epochs={treatment.epochs}: must be at least 1")
    if treatment.epochs is not None and treatment.restart and treatment.choice != "early":
        problems.append(
            f"epochs={treatment.epochs} would do nothing: choice={treatment.choice!r} needs no early window"
        )
    if (treatment.choice == "listed") != bool(treatment.records):
        problems.append("records belong to choice='listed': give both or neither")
    if any(record < 0 for record in treatment.records):
        problems.append(f"there is no record {min(treatment.records)}: indices are 0 or more")
    return problems


def _loss_problems(recipe: Recipe) -> list[str]:
    """Settings of the training loss that exclude each other, in words."""
    problems = []
    if recipe.label_entropy and recipe.label_smoothing:
        problems.append("label_entropy and label_smoothing exclude each other: both smooth the labels")
    soft = [name for name in SOFT_LABELS if getattr(recipe, name)]
    if recipe.relax_loss and soft:
        problems.append(f"relax_loss and {', '.join(soft)} exclude each other: it has labels of its own")
    return problems


def _privacy_problems(recipe: Recipe) -> list[str]:
    """What does not go with DP-SGD."""
    if recipe.privacy is None:
        return []
    problems = [
        f"privacy and {name} exclude each other: {name} makes a record's gradient depend on the other records"
        for name in _MIXES_RECORDS
        if getattr(recipe, name)
    ]
    if recipe.treatment and recipe.treatment.how != "clip_more":
        problems.append(
            f"privacy and treatment exclude each other for how={recipe.treatment.how!r}; with DP-SGD, clip "
            "flagged members more (how='clip_more')"
        )
    if recipe.privacy.views > 1 and not (recipe.flips or recipe.crop):
        problems.append(f"privacy.views={recipe.privacy.views}: views are made by flips and crop; set one")
    return problems
