"""Two dozen records, eight models and a few epochs: enough to train in a blink."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leakscope
from leakscope.array_types import IntArray
from leakscope.bank.bank import Bank
from leakscope.design import make_design
from leakscope.engine import local, request
from leakscope.engine.worker import Worker
from leakscope.evaluate.verdict import Verdict
from leakscope.recipe import AnyRecipe, Recipe
from leakscope.train.block import BlockSignals, Follow
from leakscope.types import Design, Records

N_RECORDS, N_MODELS, SEED = 24, 7, 5
RECIPE = Recipe(net_options=(("width", 4),), epochs=4, batch_size=8, lr=0.05, checkpoints=(2, 4))


def records(seed: int = 0, n: int = N_RECORDS) -> Records:
    """Three classes in order, which a shuffle would hide."""
    labels = np.repeat(np.arange(3), n // 3)
    noise = np.random.default_rng(seed).normal(size=(n, 4))
    return Records(
        features=(noise + labels[:, None]).astype(np.float32),
        labels=labels.astype(np.int64),
        ids=np.array([f"r{i}" for i in range(n)]),
        name="three classes",
        class_names=("a", "b", "c"),
    )


def regression_records() -> Records:
    given = records()
    target = given.features.sum(axis=1).astype(np.float32)
    return Records(given.features, target, given.ids, name="a sum")


def noise(n: int = 120, seed: int = 0, towns: str = "abc") -> Records:
    """Labels that nothing explains: a model can only know them by heart."""
    rng = np.random.default_rng(seed)
    return Records(
        rng.normal(size=(n, 5)).astype(np.float32),
        rng.permutation(np.arange(n) % 2),
        np.array([f"p{i}" for i in range(n)]),
        name="noise",
        class_names=("no", "yes"),
        groups={"town": np.array(list(towns))[np.arange(n) % len(towns)]},
    )


def audited(out: Path) -> Verdict:
    """An audit of eight models of the recipe by two attacks; the same each time."""
    settings: dict[str, Any] = {"attacks": ["loss", "lira"], "fpr": [0.25], "device": "cpu"}
    return leakscope.audit(records(), RECIPE, out, models=8, **settings)


def design(n_models: int = N_MODELS) -> Design:
    return make_design("bernoulli", n_models, N_RECORDS, SEED)


def complete(folder: Path, recipe: AnyRecipe = RECIPE, **changes: Any) -> Bank:
    """The bank of the usual population, or of a changed one, on the usual engine or another."""
    where = {name: changes.pop(name) for name in ("engine", "progress", "save_seconds") if name in changes}
    usual = {"records": records(), "design": design(), "seed": SEED, "device": "cpu"}
    wanted = request.TrainingRequest(**{**usual, "recipe": recipe, **changes})
    return local.complete_bank(folder, wanted, **where)


def use_blocks_of(monkeypatch: pytest.MonkeyPatch, n_models: int) -> None:
    """Small blocks, so that a handful of models makes several."""
    monkeypatch.setattr(request, "BLOCK_SIZES", (n_models, n_models))


def count_training(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The models of each block that is trained from here on."""
    trained: list[list[int]] = []
    train = Worker.train

    def counted(self: Worker, models: IntArray, follow: Follow) -> BlockSignals:
        trained.append(models.tolist())
        return train(self, models, follow)

    monkeypatch.setattr(Worker, "train", counted)
    return trained


def contents(folder: Path) -> dict[str, bytes]:
    """Every file but the manifest, which holds the time of day, and the checksums of files that show it."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("manifest.json", "sha256.json")
    }
