"""What the dynamics study can run: settings, presets, and how each is trained.

A setting is one population of models, hence one bank; presets vary one thing between several. Options a user
gives replace a preset's in all of its settings.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from leakscope.attacks.registry import attack_classes
from leakscope.attacks.spec import resolve
from leakscope.dynamics.decisions import AboveLogRatio, AtFpr, Convention
from leakscope.errors import InputError
from leakscope.recipe import Option, Recipe
from leakscope.types import CLASSIFICATION_DEFAULTS

OPTIMIZERS = ("sgd", "adamw", "sam")
LOG_RATIO_ATTACKS = ("lira", "eb_lira")
_SAM_RHO = 0.05  # the radius of the paper that introduced it, on CIFAR-10
_RATES = {"sgd": 0.1, "sam": 0.1, "adamw": 0.001}
_NET_OPTIONS: dict[str, tuple[tuple[str, Option], ...]] = {"wide_resnet": (("depth", 28), ("widen", 2))}
_FEWEST_MODELS = 4


@dataclass(frozen=True)
class Setting:
    """One population of models.

    Attributes:
        optimizer: "sgd" (Nesterov momentum 0.9, weight decay 5e-4), "sam" (the same, with sharpness-aware
            steps of radius 0.05) or "adamw" (weight decay 0.01); the rate falls to zero as a cosine.
        models: even; each is trained on a random half of the records.
        every: epochs between checkpoints; the last epoch is always one.
        universe: the dataset's first so many records; None: all.
        lr: None: 0.1, and 0.001 for adamw.
        precision: of training, "float32" or "bfloat16".
        keep_logits: keep all classes' answers, for uncertainty over all classes.
        gradient_models: so many models are trained again for gradient norms (GraNd, TracIn).
        population: 0, 1, ...: independent populations of the same setting, by design and by training.
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
    keep_logits: bool = True
    gradient_models: int = 0
    population: int = 0

    def __post_init__(self) -> None:
        problems = _setting_problems(self)
        if problems:
            raise InputError("; ".join(problems))

    @property
    def name(self) -> str:
        """A folder's name; a user's own "package.module:factory" goes by its last part."""
        net = self.net.rpartition(":")[2]
        of_several = f"-population{self.population}" if self.population else ""
        return f"{self.dataset}-{net}-{self.optimizer}{of_several}"

    @property
    def run_seed(self) -> int:
        """Of design and training."""
        return self.seed + self.population

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """Every so many epochs, and the last."""
        return tuple(sorted({*range(self.every, self.epochs + 1, self.every), self.epochs}))

    @property
    def kept(self) -> tuple[str, ...]:
        """Signals to keep."""
        return (*CLASSIFICATION_DEFAULTS, "logits") if self.keep_logits else CLASSIFICATION_DEFAULTS

    def recipe(self) -> Recipe:
        """How one model is trained. Colour photographs are mirrored and shifted, nothing else is."""
        is_sgd, is_photo = self.optimizer != "adamw", self.dataset == "cifar10"
        return Recipe(
            net=self.net,
            net_options=_NET_OPTIONS.get(self.net, ()),
            optimizer="sgd" if is_sgd else "adamw",
            sam_rho=_SAM_RHO if self.optimizer == "sam" else 0.0,
            lr=_RATES[self.optimizer] if self.lr is None else self.lr,
            momentum=0.9 if is_sgd else 0.0,
            nesterov=is_sgd,
            weight_decay=5e-4 if is_sgd else 0.01,
            schedule="cosine",
            flips=is_photo,
            crop=4 if is_photo else 0,
            precision=self.precision,  # type: ignore[arg-type]  # Recipe says which there are
            batch_size=self.batch_size,
            epochs=self.epochs,
            checkpoints=self.checkpoints,
        )


@dataclass(frozen=True)
class DynamicsConfig:
    """What to run: one setting, or several to compare.

    Attributes:
        settings: one bank each.
        attack: "lira" (fixed variance, as fast as can be), "eb_lira", or with `fpr` any that the kept signals
            allow.
        fpr: decide at the threshold which this share of the other models' non-members reaches; None: at
            log ratio > 0.
        side: cells on a side of the grid whose corner is vulnerable.
        entropy_cells: cells on a side of the entropy's histogram.
        n_permutations: of the design, for the noise floor.
        n_groups: of models left out in turn, for standard errors; fewer where there are fewer models.
    """

    settings: tuple[Setting, ...]
    attack: str = "lira"
    fpr: float | None = None
    side: int = 3
    entropy_cells: int = 20
    n_permutations: int = 5
    n_groups: int = 10

    def __post_init__(self) -> None:
        self.convention()  # raises when the FPR is none
        known = LOG_RATIO_ATTACKS if self.fpr is None else tuple(attack_classes())
        if self.attack not in known:
            others = ", or give --fpr and take any" if self.fpr is None else ""
            raise InputError(f"attack={self.attack!r}: choose one of {', '.join(known)}{others}")
        lacking = {n for s in self.settings for n in resolve(self.attack).needs if n not in s.kept}
        if lacking:
            raise InputError(f"attack={self.attack!r} needs the {', '.join(sorted(lacking))}; keep them")
        names = [setting.name for setting in self.settings]
        if len(set(names)) < len(names):
            raise InputError(
                f"two settings are called alike ({', '.join(names)}); leave what a preset varies"
            )

    def convention(self) -> Convention:
        """When a score counts as "member"."""
        return AboveLogRatio() if self.fpr is None else AtFpr(self.fpr)

    @property
    def n_models(self) -> int:
        """Models of all settings together."""
        return sum(setting.models for setting in self.settings)


_WRN = {"net": "wide_resnet", "batch_size": 256, "precision": "bfloat16", "every": 10, "epochs": 400}
_COMPARED = {**_WRN, "dataset": "cifar10", "universe": 20_000}

PRESETS: dict[str, tuple[dict[str, Any], ...]] = {
    "quick": ({"gradient_models": 4},),
    "mnist": ({**_COMPARED, "dataset": "mnist"},),
    "architectures": tuple(
        {**_COMPARED, "net": net} for net in ("wide_resnet", "resnet18", "deep_cnn", "cnn")
    ),
    "optimizers": tuple({**_COMPARED, "optimizer": o, "epochs": 160} for o in OPTIMIZERS),
    "datasets": tuple({**_COMPARED, "dataset": d} for d in ("cifar10", "fashion-mnist", "mnist")),
    "seed001": ({**_WRN, "dataset": "cifar10", "optimizer": "adamw", "universe": 50_000},),
}
"""Preset name -> what each of its settings changes of the defaults."""


def config_of(
    preset: str = "quick",
    populations: int = 1,
    attack: str = "lira",
    fpr: float | None = None,
    **given: Any,
) -> DynamicsConfig:
    """A preset's settings with what the user gave on top, each as many times as populations are asked for.

    Args:
        preset: a name in `PRESETS`.
        populations: independent populations of each setting.
        attack: whose decisions.
        fpr: decide at this FPR; None: at log ratio > 0.
        **given: fields of `Setting`, which replace those of every setting of the preset.
    """
    if preset not in PRESETS:
        raise InputError(f"preset={preset!r}: choose one of {', '.join(PRESETS)}")
    if populations < 1:
        raise InputError(f"populations={populations}: must be at least 1")
    settings = [Setting(**{**changes, **given}) for changes in PRESETS[preset]]
    repeated = (replace(setting, population=k) for setting in settings for k in range(populations))
    return DynamicsConfig(tuple(repeated), attack, fpr)


def _setting_problems(setting: Setting) -> list[str]:
    """Everything wrong with a setting, in words; networks, rates and precision are the recipe's to check."""
    problems = [
        f"{name}={getattr(setting, name)}: must be at least 1"
        for name in ("epochs", "every", "batch_size")
        if getattr(setting, name) < 1
    ]
    if setting.optimizer not in OPTIMIZERS:
        problems.append(f"optimizer={setting.optimizer!r}: choose one of {', '.join(OPTIMIZERS)}")
    if setting.models < _FEWEST_MODELS or setting.models % 2:
        problems.append(f"models={setting.models}: must be even and at least {_FEWEST_MODELS}")
    if setting.universe is not None and setting.universe < 2 * setting.models:
        problems.append(f"universe={setting.universe}: must be at least two a model ({2 * setting.models})")
    if not 0 <= setting.gradient_models <= setting.models:
        problems.append(
            f"gradient_models={setting.gradient_models}: must be from 0 to models={setting.models}"
        )
    if setting.seed < 0:
        problems.append(f"seed={setting.seed}: must be 0 or more")
    return problems
