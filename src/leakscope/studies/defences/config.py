"""What a comparison of defences runs: records, a recipe, defences, canaries; and the presets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from leakscope.data.canaries import Canaries
from leakscope.data.registry import load
from leakscope.defences.base import Defence
from leakscope.defences.registry import defence_classes, resolve_defence, strengths_of
from leakscope.errors import InputError, choose_from
from leakscope.evaluate.utility import UtilityName
from leakscope.recipe import AnyRecipe, Recipe
from leakscope.types import Prose, Records

NONE = "none"
ATTACKS = ("loss", "lira", "eb_lira", "label_only_lira")
FEWEST_MODELS = 8
DEFAULT_CANARIES = Canaries("mislabelled", share=0.05)


class Subject(NamedTuple):
    """Whose records are to be protected, and how the models are trained without a defence."""

    records: Records
    recipe: AnyRecipe


@dataclass(frozen=True)
class Tried:
    """One setting of a defence.

    Attributes:
        defence: name of the defence; "none" for no defence.
        label: the defence with its options.
        changes: what it acts on; None for no defence.
        tables: what to write into a config file to get it.
        epsilon: the epsilon that the training guarantees; None without a guarantee.
    """

    defence: str
    label: str
    changes: str | None = None
    tables: str = ""
    epsilon: float | None = None


@dataclass(frozen=True)
class LeftOutDefence:
    """A defence that was not compared.

    Attributes:
        label: the defence.
        reason: why it does not apply, or what failed.
    """

    label: str
    reason: Prose


@dataclass(frozen=True)
class DefencesConfig:
    """What was compared.

    Attributes:
        subject: name of the records.
        settings: no defence, then the settings that were tried.
        inapplicable: defences that cannot protect these models.
        models: number of models per setting.
        canaries: records that measure the worst case; None: none.
        attacks: attacks as text; the strongest on each set of records counts.
        fpr: false positive rate at which the true positive rate is reported.
        seed: all randomness derives from it.
        utility: what a defence may cost: accuracy, or R² of a regression.
        preset: name of the preset; empty for records of your own.
        config_file: name of the config file of the models; empty where none was given.
    """

    subject: str
    settings: tuple[Tried, ...]
    inapplicable: tuple[LeftOutDefence, ...] = ()
    models: int = 32
    canaries: Canaries | None = DEFAULT_CANARIES
    attacks: tuple[str, ...] = ATTACKS
    fpr: float = 0.01
    seed: int = 0
    utility: UtilityName = "accuracy"
    preset: str = ""
    config_file: str = ""

    def __post_init__(self) -> None:
        if self.models < FEWEST_MODELS or self.models % 2:
            raise InputError(f"models={self.models}: give an even number of at least {FEWEST_MODELS}")
        if not 0 < self.fpr < 1:
            raise InputError(f"fpr={self.fpr}: give a rate between 0 and 1, like 0.01")

    @property
    def n_models(self) -> int:
        """Models of all settings together, and of the population that chooses the most exposed records."""
        return self.models * (len(self.settings) + 1)


class Preset(NamedTuple):
    """A shipped comparison.

    Attributes:
        dataset: name of the records.
        recipe: how a model is trained without a defence.
        models: number of models per setting.
        n_records: the first so many records; None: all.
        defences: the defences, a bare name at all its strengths; empty: all that apply.
    """

    dataset: str
    recipe: Recipe
    models: int
    n_records: int | None = None
    defences: tuple[str, ...] = ()


_OF_NETWORKS = (
    "early_stopping", "weight_decay", "label_smoothing", "mixup", "relax_loss", "hamp", "selena", "targeted",
    "dp_sgd", "top_1",
)  # fmt: skip
_OF_IMAGES = (
    "early_stopping(share=0.5)", "weight_decay(rate=0.01)", "label_smoothing(share=0.1)", "mixup(alpha=0.5)",
    "relax_loss(target=1.0)", "hamp(gamma=0.7)", "targeted(share=0.05)",
    "dp_sgd(epsilon=50.0, lr=0.005)", "dp_sgd(epsilon=8.0, lr=0.005)", "top_1",
)  # fmt: skip
"""Few settings: a population of image classifiers takes a GPU about ten seconds."""
PRESETS = {
    "quick": Preset("digits", Recipe(lr=0.003, epochs=60), 32, None, _OF_NETWORKS),
    "adult": Preset("adult", Recipe(lr=0.003, epochs=40), 32, 4000, _OF_NETWORKS),
    "cifar10": Preset(
        "cifar10",
        Recipe(
            net="deep_cnn", net_options=(("norm", "group"),), optimizer="sgd", lr=0.05, momentum=0.9,
            nesterov=True, schedule="cosine", precision="bfloat16", batch_size=128, epochs=20,
        ),
        16,
        6_000,
        _OF_IMAGES,
    ),
}  # fmt: skip
"""Preset -> what is compared."""


def preset_named(name: str) -> Preset:
    """The preset of this name."""
    if name not in PRESETS:
        raise InputError(f"preset={name!r} is unknown; {choose_from(name, PRESETS)}")
    return PRESETS[name]


def subject_of(preset: Preset, data_dir: Path | None) -> Subject:
    """The records and the recipe of a preset."""
    records = load(preset.dataset, data_dir)
    if preset.n_records is not None:
        records = records.take(np.arange(min(preset.n_records, len(records))))
    return Subject(records, preset.recipe)


def chosen_defences(names: Sequence[str | Defence]) -> tuple[Defence, ...]:
    """The settings a user means: a bare name stands for all strengths of the defence, nothing for all."""
    settings: list[Defence] = []
    for name in names or tuple(defence_classes()):
        is_bare = isinstance(name, str) and name in defence_classes()
        settings += strengths_of(str(name)) if is_bare else [resolve_defence(name)]
    return tuple(dict.fromkeys(settings))
