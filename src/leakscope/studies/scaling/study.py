"""Does model size or overfitting drive membership leakage? A toy study of MLP widths, made decisive.

Reproduces "Membership Inference in Small MLPs" (2603.00412): Gaussian classes, two-layer MLPs of
several widths, a logistic regression on shadow models' probabilities. Each width is one bank:
for every repeat a target, its shadows, and reference models on random halves of the target's own
records, which LiRA needs. Each model is asked about its own records only.

Where the document is loose: its standard deviation is 1.5 (it writes variance 1.5); the class centres
are redrawn for each shadow, so shadows are not from the target's distribution (`shadow_data="same"`
draws them from it); and all its repeats share one target dataset, so its spread over repeats is
that of training alone (`target_data="redrawn"` draws a new one for each repeat).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from leakscope.array_types import BoolArray, IntArray
from leakscope.bank.bank import Bank
from leakscope.bank.run_folder import RESULTS, locked_run_folder
from leakscope.data.gaussian import gaussian, split
from leakscope.design import balanced
from leakscope.disk.storage import write_json
from leakscope.errors import InputError
from leakscope.randomness import Purpose, generator
from leakscope.recipe import Recipe
from leakscope.types import Design, Records

KIND = "study scaling"
_KEPT = ("correct", "log_odds", "logits", "loss")
# Seeds of two repeats are 500 apart as published; there, shadow 0 of one repeat would draw the data of
# the target two repeats on if targets were redrawn, so independent repeats stand further apart.
_PUBLISHED_STRIDE, _WIDE_STRIDE = 500, 100_000
_LARGEST_SEED = 2**31  # leaves room for the seeds of repeats and shadows below what numpy takes
_DECISIVE_WIDTHS = (
    4,
    5,
    6,
    8,
    10,
    13,
    16,
    20,
    25,
    32,
    40,
    51,
    64,
    81,
    102,
    128,
    161,
    203,
    256,
    323,
    406,
    512,
)


@dataclass(frozen=True)
class ScalingConfig:
    """What to run. The defaults are the published protocol.

    Attributes:
        n_reference: models a repeat on random subsets of the target's records, for LiRA; even.
        shadow_data: "redrawn": each shadow has its own class centres (as published); "same": the
            target's centres, which is the sound attack.
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
        """Target, shadows and references."""
        return 1 + self.n_shadow + self.n_reference

    @property
    def is_published_protocol(self) -> bool:
        """True when the results can stand beside the published table."""
        return self == ScalingConfig(n_reference=self.n_reference)


PRESETS: dict[str, dict[str, Any]] = {
    "published": {},
    "decisive": {
        "widths": _DECISIVE_WIDTHS,
        "n_repeats": 60,
        "shadow_data": "same",
        "target_data": "redrawn",
    },
}
"""Preset name -> what it changes of the defaults."""


def recipe(width: int) -> Recipe:
    """The published training recipe at one width."""
    return Recipe(
        net="mlp", net_options=(("width", width),), optimizer="adam", lr=0.01, batch_size=64, epochs=50
    )


class Roles(NamedTuple):
    """Which model plays which part; int64 arrays.

    Targets come first and references last, so that asking for more shadows or references leaves
    the randomness of the targets as it was.
    """

    targets: IntArray  # (repeats,)
    shadows: IntArray  # (repeats, shadows)
    references: IntArray  # (repeats, references)


def roles(config: ScalingConfig) -> Roles:
    """The model indices of each part."""
    n, k = config.n_repeats, config.n_shadow
    index = np.arange(n * config.models_per_repeat)
    return Roles(index[:n], index[n : n * (1 + k)].reshape(n, k), index[n * (1 + k) :].reshape(n, -1))


def population(config: ScalingConfig) -> tuple[Records, Design]:
    """All repeats' datasets as one table, and who trains on and is asked about which rows."""
    worlds: list[Records] = []  # repeat by repeat: the target's, then the shadows'
    members: list[BoolArray] = []
    references: list[BoolArray] = []
    for repeat in range(config.n_repeats):
        drawn, split_off = _repeat_data(config, repeat)
        worlds += drawn
        members += split_off
        references += _reference_members(config, repeat, split_off[0])
    by_repeat = np.arange(len(worlds)).reshape(config.n_repeats, -1)
    parts = [by_repeat[:, 0], by_repeat[:, 1:].reshape(-1)]
    world = np.concatenate([*parts, np.repeat(by_repeat[:, 0], config.n_reference)])  # (models,)
    in_mask = np.concatenate([np.stack(members)[np.concatenate(parts)],
                              np.array(references, dtype=bool).reshape(-1, config.n_samples)])  # fmt: skip
    columns = world[:, None] * config.n_samples + np.arange(config.n_samples)
    return _joined(worlds), Design(in_mask, columns)


def run(config: ScalingConfig, out: Path, progress: Any = lambda _: None) -> dict[str, Any]:
    """The whole study: trains what is missing under `out`, judges, reports; returns the results."""
    from leakscope.engine.local import TrainingRequest, complete_bank
    from leakscope.studies.scaling.report import write_report

    records, design = population(config)  # first: it may find the configuration impossible
    with locked_run_folder(out, KIND, asdict(config)):
        for width in config.widths:
            request = TrainingRequest(records, design, recipe(width), config.seed, _KEPT, device="cpu")
            complete_bank(bank_folder(out, width), request, progress=progress)
        results = judge(config, out)
        write_json(out / RESULTS, results)
        write_report(results, out)
        return results


def judge(config: ScalingConfig, out: Path) -> dict[str, Any]:
    """Every number of the study from the banks under `out`."""
    from leakscope.studies.scaling.judge import judged

    return judged(config, [Bank.open(bank_folder(out, width)) for width in config.widths])


def recompute(out: Path, config: dict[str, Any]) -> dict[str, Any]:
    """The results again, from the banks alone; what `leakscope verify` compares."""
    return judge(config_from(config), out)


def config_from(stored: dict[str, Any]) -> ScalingConfig:
    """The configuration a results.json was made with."""
    return ScalingConfig(**{**stored, "widths": tuple(stored["widths"])})


def bank_folder(out: Path, width: int) -> Path:
    """Where the bank of one width lives."""
    return out / "banks" / f"width-{width:05d}"


def _repeat_data(config: ScalingConfig, repeat: int) -> tuple[list[Records], list[BoolArray]]:
    """The target's and the shadows' datasets and members, with the published seeds."""
    size = (config.n_samples, config.n_features, config.n_classes)
    fixed = config.target_data == "fixed"
    seed = config.seed + repeat * (_PUBLISHED_STRIDE if fixed else _WIDE_STRIDE)
    target_seed = config.seed if fixed else seed
    worlds = [gaussian(target_seed, *size)]
    members = [split(target_seed, config.n_samples, config.train_fraction)]
    for i in range(config.n_shadow):
        centres_seed = target_seed if config.shadow_data == "same" else None
        worlds.append(gaussian(seed + 1000 + 100 * i, *size, centres_seed=centres_seed))
        members.append(split(seed + 2000 + 50 * i, config.n_samples, config.train_fraction))
    return worlds, members


def _reference_members(config: ScalingConfig, repeat: int, target_members: BoolArray) -> list[BoolArray]:
    """Random subsets of the target's records, as large as its training set."""
    rng = generator(config.seed, repeat, Purpose.DESIGN)
    if 2 * int(target_members.sum()) == config.n_samples and config.n_reference:
        return list(balanced(config.n_reference, config.n_samples, rng))
    return [rng.permutation(target_members) for _ in range(config.n_reference)]


def _joined(datasets: list[Records]) -> Records:
    ids = np.concatenate([[f"{k}:{i}" for i in range(len(d))] for k, d in enumerate(datasets)])
    return Records(
        features=np.concatenate([d.features for d in datasets]),
        labels=np.concatenate([d.labels for d in datasets]),
        ids=ids,
        name="gaussian",
        class_names=datasets[0].class_names,
    )


def _config_problems(config: ScalingConfig) -> list[str]:
    """Everything wrong with a configuration, in words."""
    problems = []
    if not config.widths or min(config.widths) < 1 or len(set(config.widths)) != len(config.widths):
        problems.append(
            f"widths={list(config.widths)}: give distinct whole numbers of at least 1, like 16,32,64"
        )
    for name, least in (("n_repeats", 1), ("n_shadow", 1), ("n_reference", 0)):
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
    if config.n_classes < 2:
        problems.append(f"n_classes={config.n_classes}: must be at least 2")
    if config.n_features < 1:
        problems.append(f"n_features={config.n_features}: must be at least 1")
    if config.n_samples < 2 * config.n_classes:
        problems.append(
            f"n_samples={config.n_samples}: must be at least two a class ({2 * config.n_classes})"
        )
    return problems
