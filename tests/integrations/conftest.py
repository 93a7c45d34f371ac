"""Audits to log: one of a population, one redacted, one of a given model."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import leakscope
from leakscope.disclosure import Disclosure
from leakscope.evaluate.verdict import Verdict
from tests.audits.test_predictions import saved
from tests.engine.small_population import RECIPE, noise
from tests.quick_audits import few_permutations, quick_audits

SETTINGS: dict[str, Any] = {
    "attacks": ["correctness", "loss", "lira(online=false)"],
    "fpr": [0.25, 0.001],
    "models": 8,
    "device": "cpu",
    "gate": leakscope.Gate(max_auc=0.9),
}


@pytest.fixture(autouse=True, scope="package")
def only_quick_audits() -> Iterator[None]:
    with quick_audits(), few_permutations():
        yield


@pytest.fixture(autouse=True)
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training functions run here, not in processes that would import every library again."""
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")


@pytest.fixture(scope="package")
def population(tmp_path_factory: pytest.TempPathFactory) -> Verdict:
    out = tmp_path_factory.mktemp("population") / "my run"
    return leakscope.audit(noise(40), RECIPE, out, **SETTINGS)


@pytest.fixture(scope="package")
def redacted(population: Verdict, tmp_path_factory: pytest.TempPathFactory) -> Verdict:
    """The same audit, redacted after its private report was written."""
    out = tmp_path_factory.mktemp("redacted") / "my run"
    shutil.copytree(population.folder, out)
    return leakscope.audit(noise(40), RECIPE, out, **SETTINGS, disclosure=Disclosure(redacted=True))


@pytest.fixture(scope="package")
def given_model(tmp_path_factory: pytest.TempPathFactory) -> Verdict:
    folder = tmp_path_factory.mktemp("given")
    return leakscope.audit(leakscope.SavedPredictions(saved()), out=folder / "run", attacks=["loss"])


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the current one; no tracker is set to a server."""
    monkeypatch.chdir(tmp_path)
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "WANDB_PROJECT", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path
