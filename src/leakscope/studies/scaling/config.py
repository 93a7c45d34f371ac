"""What the scaling study runs: widths, repeats, data, and the published training recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from leakscope.errors import InputError
from leakscope.recipe import Recipe

_LARGEST_SEED = 2**31  # leaves room for the seeds of repeats and shadows below numpy's limit
_DECISIVE_WIDTHS = (4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40,
                    51, 64, 81, 102, 128, 161, 203, 256, 323, 406, 512)  # fmt: skip


@dataclass(frozen=True)
class ScalingConfig:
    """Configuration of the study; the defaults are the published protocol.

    Attributes:
        widths: hidden widths of the MLPs.
        n_repeats: repeats per width; each has one target.
        n_shadow: shadow models per target.
        n_reference: reference models per target, trained on random subsets of its records, for LiRA; even.
        seed: all randomness derives from it.
        n_samples: records per dataset.
        n_features: features of a record.
        n_classes: number of classes.
        train_fraction: share of the records in a training set.
        shadow_data: "redrawn": each shadow model has class centers of its own (as published); "same": it has
            the target's centers, as a sound attack requires.
        target_data: "fixed": every repeat has the same target records and split (as published);
            "redrawn": each repeat draws its own, so that repeats are independent.
    """

    widths: tuple[int, ...] = (16, 32, 64, 128, 256)
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

    def __post_init__(self) -> None:
        problems = _config_problems(self)
        if problems:
            raise InputError("; ".join(problems))

    @property
    def models_per_repeat(self) -> int:
        """Target, shadow models and reference models."""
        return 1 + self.n_shadow + self.n_reference

    @property
    def n_models(self) -> int:
        """Models of all widths."""
        return len(self.widths) * self.n_repeats * self.models_per_repeat

    @property
    def is_published_protocol(self) -> bool:
        """Whether results can be compared with the published table; reference models do not affect it."""
        return self == ScalingConfig(n_reference=self.n_reference)

    def n_params(self, width: int) -> int:
        """Parameters of the two-layer MLP, biases included."""
        return width * (self.n_features + 1) + self.n_classes * (width + 1)


def recipe(width: int) -> Recipe:
    """The published training recipe at one width."""
    return Recipe(
        net="mlp", net_options=(("width", width),), optimizer="adam", lr=0.01, batch_size=64, epochs=50
    )


def _config_problems(config: ScalingConfig) -> list[str]:
    """Everything wrong with a configuration, in words."""
    problems = []
    if not config.widths or min(config.widths) < 1 or len(set(config.widths)) != len(config.widths):
        problems.append(
            f"widths={list(config.widths)}: give distinct whole numbers of at least 1, like 16,32,64"
        )
    minimum = {"n_repeats": 1, "n_shadow": 1, "n_reference": 0, "n_classes": 2, "n_features": 1}
    for name, least in minimum.items():
        if getattr(config, name) < least:
            problems.append(f"{name}={getattr(config, name)}: must be at least {least}")
    if config.n_reference % 2:
        problems.append(f"n_reference={config.n_reference}: must be even, so that halves balance")
    if not 0 <= config.seed <= _LARGEST_SEED:
        problems.append(f"seed={config.seed}: must be a whole number from 0 to {_LARGEST_SEED:,}")
    if not 0 < config.train_fraction < 1:
        problems.append(f"train_fraction={config.train_fraction}: must be between 0 and 1, like 0.5")
    for name, allowed in (("shadow_data", ("redrawn", "same")), ("target_data", ("fixed", "redrawn"))):
        if getattr(config, name) not in allowed:
            problems.append(f"{name}={getattr(config, name)!r}: choose {' or '.join(allowed)}")
    if config.n_samples < 2 * config.n_classes:
        problems.append(
            f"n_samples={config.n_samples}: must be at least two per class ({2 * config.n_classes})"
        )
    return problems


PRESETS = {
    "published": ScalingConfig(),
    "decisive": ScalingConfig(
        widths=_DECISIVE_WIDTHS, n_repeats=60, shadow_data="same", target_data="redrawn"
    ),
}
"""Preset -> its configuration."""
