"""What the scaling study runs: widths, repeats, data, and the published training recipe."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

from leakscope.attacks.shokri import classifier_from
from leakscope.errors import InputError
from leakscope.recipe import Recipe
from leakscope.types import Records
from leakscope.user_code import names_code

GAUSSIAN = "gaussian"
"""The published dataset."""
PUBLISHED_WIDTHS = (16, 32, 64, 128, 256)
_LARGEST_SEED = 2**31  # leaves room for the seeds of repeats and shadows below numpy's limit
_WIDE_RANGE = (4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40,
               51, 64, 81, 102, 128, 161, 203, 256, 323, 406, 512)  # fmt: skip
_ATTACKERS = {
    "logistic": "leakscope.attacks.shokri:logistic_regression",
    "forest": "leakscope.attacks.shokri:random_forest",
    "mlp": "leakscope.attacks.shokri:perceptron",
}
"""Short name of an attack classifier -> its factory."""


@dataclass(frozen=True)
class ScalingConfig:
    """Configuration of the study; the defaults are the published protocol.

    Attributes:
        hidden_widths: hidden widths of the MLPs.
        n_repeats: repeats per width; each has one target.
        n_shadow: shadow models per target.
        n_reference: reference models per target, trained on random subsets of its records, for LiRA; even.
        seed: all randomness derives from it.
        n_samples: records per dataset.
        n_features: features of a record; other datasets than "gaussian" have their own.
        n_classes: number of classes; other datasets than "gaussian" have their own.
        train_fraction: share of the records in a training set.
        shadow_data: "redrawn": each shadow model has class centers of its own (as published); "same": it has
            the target's centers, as a sound attack requires. Datasets other than "gaussian": always "same".
        target_data: "fixed": every repeat has the same target records and split (as published);
            "redrawn": each repeat draws its own, so that repeats are independent.
        class_sd: standard deviation of a Gaussian class.
        dataset: "gaussian" (as published), another dataset's name, or "package.module:function".
        attacker: classifier of the shadow-model attack: "logistic" (as published), "forest", "mlp", or
            "package.module:factory" of any scikit-learn classifier.
        n_initializations: how often targets and shadow models are trained, on the same records from other
            initial weights; more than 1 measures how far the figures depend on them.
        published_seeds: also train targets and shadow models with the publication's own seeds of torch; only
            for "gaussian".
        dropout: probability of dropout after the hidden layer; the publication has none.
        weight_decay: strength of Adam's weight decay; the publication has none.
    """

    hidden_widths: tuple[int, ...] = PUBLISHED_WIDTHS
    n_repeats: int = 3
    n_shadow: int = 3
    n_reference: int = 16
    seed: int = 42
    n_samples: int = 500
    n_features: int = 10
    n_classes: int = 5
    train_fraction: float = 0.5
    shadow_data: Literal["redrawn", "same"] = "redrawn"
    target_data: Literal["fixed", "redrawn"] = "fixed"
    class_sd: float = 1.5
    dataset: str = GAUSSIAN
    attacker: str = "logistic"
    n_initializations: int = 1
    published_seeds: bool = False
    dropout: float = 0.0
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        problems = _config_problems(self)
        if problems:
            raise InputError("; ".join(problems))

    @property
    def models_per_repeat(self) -> int:
        """Target, shadow models and reference models of one initialization."""
        return 1 + self.n_shadow + self.n_reference

    @property
    def n_models(self) -> int:
        """Models of all widths."""
        further = (self.n_initializations - 1 + self.published_seeds) * (1 + self.n_shadow)
        return len(self.hidden_widths) * self.n_repeats * (self.models_per_repeat + further)

    @property
    def is_published_protocol(self) -> bool:
        """Whether results can be compared with the published table.

        Reference models and further initializations do not affect it.
        """
        return self.without_additions() == ScalingConfig()

    def without_additions(self) -> ScalingConfig:
        """The same protocol without what we add to it."""
        default = ScalingConfig.n_reference
        return replace(self, n_reference=default, n_initializations=1, published_seeds=False)

    def classifier(self) -> Any:
        """A new classifier of the shadow-model attack, not yet fitted."""
        return classifier_from("attacker", _ATTACKERS.get(self.attacker, self.attacker))

    def for_dataset(self, records: Records) -> ScalingConfig:
        """The configuration with the sizes of a dataset other than the Gaussian classes.

        Raises:
            InputError: the dataset is too small, or other sizes were given.
        """
        n_features, n_classes = math.prod(records.features.shape[1:]), records.n_classes
        for name, size in (("n_features", n_features), ("n_classes", n_classes)):
            if getattr(self, name) not in (size, getattr(ScalingConfig, name)):
                raise InputError(f"{name}={getattr(self, name)}, but {self.dataset} has {size}; leave it out")
        if 2 * self.n_samples > len(records):
            raise InputError(
                f"n_samples={self.n_samples}: target and shadow models need {self.n_samples:,} records each, "
                f"and {self.dataset} has {len(records):,}; give at most {len(records) // 2:,}"
            )
        return replace(
            self, n_features=n_features, n_classes=n_classes, shadow_data="same", published_seeds=False
        )

    def n_params(self, width: int) -> int:
        """Parameters of the two-layer MLP, biases included."""
        return width * (self.n_features + 1) + self.n_classes * (width + 1)

    def recipe(self, width: int) -> Recipe:
        """The published training recipe at one width, with this regularization."""
        regularized = (("dropout", self.dropout),) if self.dropout else ()
        return replace(
            recipe(width),
            net_options=(*regularized, ("width", width)),
            weight_decay=self.weight_decay,
        )


def recipe(width: int) -> Recipe:
    """The published training recipe at one width."""
    return Recipe(
        net="mlp", net_options=(("width", width),), optimizer="adam", lr=0.01, batch_size=64, epochs=50
    )


def _config_problems(config: ScalingConfig) -> list[str]:
    """Everything wrong with a configuration, in words."""
    problems, widths = [], config.hidden_widths
    if not widths or min(widths) < 1 or len(set(widths)) != len(widths):
        problems.append(f"widths={list(widths)}: give distinct whole numbers of at least 1, like 16,32,64")
    minimum = {"n_repeats": 1, "n_shadow": 1, "n_reference": 0, "n_classes": 2, "n_features": 1,
               "n_initializations": 1}  # fmt: skip
    for name, least in minimum.items():
        if getattr(config, name) < least:
            problems.append(f"{name}={getattr(config, name)}: must be at least {least}")
    if config.n_reference % 2:
        problems.append(f"n_reference={config.n_reference}: must be even, so that halves balance")
    if not 0 <= config.seed <= _LARGEST_SEED:
        problems.append(f"seed={config.seed}: must be a whole number from 0 to {_LARGEST_SEED:,}")
    if not 0 < config.train_fraction < 1:
        problems.append(f"train_fraction={config.train_fraction}: must be between 0 and 1, like 0.5")
    if not 0 < config.class_sd < math.inf:
        problems.append(f"class_sd={config.class_sd}: must be above 0, like 1.5")
    problems += _regularization_problems(config)
    for name, allowed in (("shadow_data", ("redrawn", "same")), ("target_data", ("fixed", "redrawn"))):
        if getattr(config, name) not in allowed:
            problems.append(f"{name}={getattr(config, name)!r}: choose {' or '.join(allowed)}")
    if config.attacker not in _ATTACKERS and not names_code(config.attacker):
        problems.append(
            f"attacker={config.attacker!r}: choose {', '.join(_ATTACKERS)} or name your own as "
            "'package.module:factory'"
        )
    if config.n_samples < 2 * config.n_classes:
        problems.append(
            f"n_samples={config.n_samples}: must be at least two per class ({2 * config.n_classes})"
        )
    return problems


def _regularization_problems(config: ScalingConfig) -> list[str]:
    problems = []
    if not 0 <= config.dropout < 1:
        problems.append(f"dropout={config.dropout}: must be at least 0 and below 1, like 0.5")
    if not 0 <= config.weight_decay < math.inf:
        problems.append(f"weight_decay={config.weight_decay}: must be at least 0, like 0.01")
    if config.published_seeds and (config.dropout or config.weight_decay):
        problems.append(
            "published_seeds: the publication trains without dropout and weight decay; add "
            "--no-published-seeds (in Python: published_seeds=False)"
        )
    return problems


PRESETS = {
    "published": ScalingConfig(n_initializations=40, published_seeds=True),
    "wide": ScalingConfig(hidden_widths=_WIDE_RANGE, n_initializations=40, published_seeds=True),
    "decisive": ScalingConfig(
        hidden_widths=_WIDE_RANGE, n_repeats=60, shadow_data="same", target_data="redrawn"
    ),
}
"""Preset -> its configuration."""
