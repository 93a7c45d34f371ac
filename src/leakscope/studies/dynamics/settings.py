"""What the dynamics study can run: settings, presets, and the training recipe of each.

A setting is one population of models, stored as one bank. A preset is one setting, or several that differ in
one respect. Options that a user gives replace those of every setting of the preset.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from leakscope.attacks.base import Attack
from leakscope.attacks.spec import AttackSpec, resolve, spec_of
from leakscope.design import DESIGNS
from leakscope.dynamics.decisions import check_fpr, check_rule
from leakscope.errors import InputError
from leakscope.recipe import Option, Recipe
from leakscope.signals.registry import CLASSIFICATION, default_signals

OPTIMIZERS = ("sgd", "adamw", "sam")
_SAM_RHO = 0.05  # the radius of Foret et al. (2021) on CIFAR-10
_RATES = {"sgd": 0.1, "sam": 0.1, "adamw": 0.001}
_NET_OPTIONS: dict[str, tuple[tuple[str, Option], ...]] = {"wide_resnet": (("depth", 28), ("widen", 2))}
_FEWEST_MODELS = 4


@dataclass(frozen=True)
class Setting:
    """One population of models.

    Attributes:
        dataset: a shipped dataset, or "package.module:function", which returns records.
        net: a shipped network, or "package.module:factory".
        optimizer: "sgd" (Nesterov momentum 0.9, weight decay 5e-4), "sam" (the same with sharpness-aware
            steps of radius 0.05) or "adamw" (weight decay 0.01); the learning rate follows a cosine to zero.
        models: number of models, each trained on a random half of the records; even, but for bernoulli.
        epochs: epochs of training.
        every: epochs between checkpoints; the last epoch is always a checkpoint.
        universe: number of records to use, from the start of the dataset; None means all.
        batch_size: records per training step.
        lr: learning rate; None means 0.1, or 0.001 for adamw.
        seed: seed of design and training.
        precision: of training, "float32" or "bfloat16".
        store_logits: whether to store the logits of all classes, which uncertainty over classes needs.
        gradient_models: number of models to retrain for gradient norms (GraNd, TracIn).
        population: index of this population among independent populations of the same setting.
        dropout: probability of dropout; 0: none. Networks without such an option refuse it.
        design: how each model's records are drawn: "balanced" (each record is in half of the models),
            "bernoulli" (each membership is a coin flip, as in the publication) or "pairs" (of complements).
        bank: name of the file or folder with outputs of models that were trained elsewhere; the other
            attributes then describe how. Empty: the study trains the models.
        config: text of the config file whose records and recipe are the subject; the other attributes then
            describe them. Empty: the attributes decide.
    """

    dataset: str = "digits"
    net: str = "mlp"
    optimizer: str = "sgd"
    models: int = 20
    epochs: int = 60
    every: int = 3
    universe: int | None = None
    batch_size: int = 64
    lr: float | None = None
    seed: int = 0
    precision: str = "float32"
    store_logits: bool = True
    gradient_models: int = 0
    population: int = 0
    dropout: float = 0.0
    design: str = "balanced"
    bank: str = ""
    config: str = ""

    def __post_init__(self) -> None:
        problems = _setting_problems(self)
        if problems:
            raise InputError("; ".join(problems))

    @property
    def name(self) -> str:
        """Name of the run and of its folder; "package.module:name" is shortened to its last part."""
        dataset, net = (text.rpartition(":")[2] for text in (self.dataset, self.net))
        population = f"-population{self.population}" if self.population else ""
        return f"{dataset}-{net}-{self.optimizer}{population}"

    @property
    def run_seed(self) -> int:
        """Seed of this population's design and training."""
        return self.seed + self.population

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """Epochs of the checkpoints."""
        return tuple(sorted({*range(self.every, self.epochs + 1, self.every), self.epochs}))

    def recipe(self) -> Recipe:
        """How one model is trained; CIFAR-10 images are flipped and cropped at random."""
        is_sgd, is_photo = self.optimizer != "adamw", self.dataset == "cifar10"
        return Recipe(
            net=self.net,
            net_options=(
                *_NET_OPTIONS.get(self.net, ()),
                *([("dropout", self.dropout)] if self.dropout else []),
            ),
            optimizer="sgd" if is_sgd else "adamw",
            sam_rho=_SAM_RHO if self.optimizer == "sam" else 0.0,
            lr=_RATES[self.optimizer] if self.lr is None else self.lr,
            momentum=0.9 if is_sgd else 0.0,
            nesterov=is_sgd,
            weight_decay=5e-4 if is_sgd else 0.01,
            schedule="cosine",
            flips=is_photo,
            crop=4 if is_photo else 0,
            precision=self.precision,  # type: ignore[arg-type]  # Recipe checks it
            batch_size=self.batch_size,
            epochs=self.epochs,
            checkpoints=self.checkpoints,
        )


@dataclass(frozen=True)
class DynamicsConfig:
    """What to run: one setting, or several to compare.

    Attributes:
        settings: one bank each.
        attack: the attack as text, see `leakscope.attacks.spec`.
        fpr: the threshold is the score that this share of the other models' non-members reaches; None means
            a log likelihood ratio above 0, for attacks whose score is one.
        side: cells per side of the grid whose corner is called vulnerable.
        entropy_cells: cells per side of the histogram behind the spatial entropy.
        n_permutations: permuted designs behind the noise floor.
        n_groups: groups of models for the jackknife; fewer where there are fewer models.
    """

    settings: tuple[Setting, ...]
    attack: str = "lira"
    fpr: float | None = None
    side: int = 3
    entropy_cells: int = 20
    n_permutations: int = 5
    n_groups: int = 10

    def __post_init__(self) -> None:
        names = [setting.name for setting in self.settings]
        if not names:
            raise InputError("settings is empty; give at least one Setting")
        if len(set(names)) < len(names):
            raise InputError(
                f"two settings have the same name ({', '.join(names)}); "
                "do not set the option that the preset varies"
            )
        check_fpr(self.fpr)

    @property
    def n_models(self) -> int:
        """Number of models of all settings together."""
        return sum(setting.models for setting in self.settings)

    def resolved_attack(self) -> Attack:
        """The attack itself.

        Raises:
            InputError: it is unknown, or it cannot decide by this rule or on these signals.
        """
        attack = resolve(self.attack)
        check_rule(attack, self.fpr)
        if "logits" in attack.needs and not all(setting.store_logits for setting in self.settings):
            raise InputError(f"attack={self.attack!r} needs the logits; remove --no-logits")
        return attack

    def signals(self, setting: Setting) -> tuple[str, ...]:
        """The signals to store for a setting: the usual ones, and whatever the attack needs."""
        logits = ("logits",) if setting.store_logits else ()
        return tuple(
            dict.fromkeys((*default_signals(CLASSIFICATION), *logits, *self.resolved_attack().needs))
        )


def _setting_problems(setting: Setting) -> list[str]:
    """Everything wrong with a setting; the recipe checks network, learning rate and precision."""
    problems = [
        f"{name}={getattr(setting, name)}: must be at least 1"
        for name in ("epochs", "every", "batch_size")
        if getattr(setting, name) < 1
    ]
    if setting.optimizer not in OPTIMIZERS and not (setting.config or setting.bank):
        problems.append(f"optimizer={setting.optimizer!r}: choose one of {', '.join(OPTIMIZERS)}")
    if setting.design not in DESIGNS:
        problems.append(f"design={setting.design!r}: choose one of {', '.join(DESIGNS)}")
    if setting.config and setting.gradient_models:
        problems.append("gradient_models: only for networks that the study's own options describe")
    is_even = setting.design != "bernoulli" and not setting.bank
    if setting.models < _FEWEST_MODELS or (is_even and setting.models % 2):
        even = "even and " if is_even else ""
        problems.append(f"models={setting.models}: must be {even}at least {_FEWEST_MODELS}")
    if setting.universe is not None and setting.universe < 2 * setting.models:
        problems.append(f"universe={setting.universe}: must be at least 2 per model ({2 * setting.models})")
    if not 0 <= setting.gradient_models <= setting.models:
        problems.append(
            f"gradient_models={setting.gradient_models}: must be from 0 to models={setting.models}"
        )
    if not 0 <= setting.dropout < 1:
        problems.append(f"dropout={setting.dropout}: must be at least 0 and below 1")
    if setting.seed < 0:
        problems.append(f"seed={setting.seed}: must be at least 0")
    return problems


_WRN = Setting(net="wide_resnet", batch_size=256, precision="bfloat16", every=10, epochs=400)
_COMPARED = replace(_WRN, dataset="cifar10", universe=20_000)

# Gradients of 13 records of a WRN-28-2 fit into the memory they may take, so 20,000 records at 40 checkpoints
# are 60,000 backward passes of a model, four times as many as its training. The CNN is small enough.
_GRADIENT_MODELS = {"wide_resnet": 0, "resnet18": 0, "deep_cnn": 0, "cnn": 2}

PRESETS: dict[str, tuple[Setting, ...]] = {
    "quick": (Setting(gradient_models=4),),
    "mnist": (replace(_COMPARED, dataset="mnist"),),
    "architectures": tuple(
        replace(_COMPARED, net=net, gradient_models=models) for net, models in _GRADIENT_MODELS.items()
    ),
    "optimizers": tuple(replace(_COMPARED, optimizer=name, epochs=160) for name in OPTIMIZERS),
    "datasets": tuple(replace(_COMPARED, dataset=name) for name in ("cifar10", "fashion-mnist", "mnist")),
    "published": (replace(_WRN, dataset="cifar10", optimizer="adamw", universe=50_000),),
}
"""Preset -> its settings; "published" is the baseline of arXiv 2507.23291."""


def config_of(
    preset: str | tuple[Setting, ...] = "quick",
    populations: int = 1,
    attack: AttackSpec = "lira",
    fpr: float | None = None,
    **changes: Any,
) -> DynamicsConfig:
    """A preset with changes.

    Args:
        preset: a name in `PRESETS`, or settings of your own.
        populations: number of independent populations of each setting.
        attack: the attack that decides: text, a table with `name`, or an `Attack`.
        fpr: decide at this false positive rate; None means a log likelihood ratio above 0.
        **changes: fields of `Setting`, applied to every setting of the preset.

    Raises:
        InputError: an argument is unknown or out of range.
    """
    if isinstance(preset, str) and preset not in PRESETS:
        raise InputError(f"preset={preset!r}: choose one of {', '.join(PRESETS)}")
    if populations < 1:
        raise InputError(f"populations={populations}: must be at least 1")
    chosen = PRESETS[preset] if isinstance(preset, str) else preset
    settings = [replace(setting, **changes) for setting in chosen]
    repeated = (replace(setting, population=k) for setting in settings for k in range(populations))
    config = DynamicsConfig(tuple(repeated), spec_of(resolve(attack)), fpr)
    config.resolved_attack()
    return config
