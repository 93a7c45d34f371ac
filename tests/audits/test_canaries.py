"""Canaries on the main path: measured beside the population, counted in nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.neighbors import KNeighborsClassifier

from leakscope.audits.config import read_config
from leakscope.audits.given import GivenTarget
from leakscope.audits.merged import merge_runs
from leakscope.audits.planning.plan import plan_audit
from leakscope.audits.population import TrainedPopulation
from leakscope.audits.run import audit, prepare
from leakscope.audits.settings import AuditSettings
from leakscope.compare.compare import compare
from leakscope.data.canaries import Canaries
from leakscope.errors import BankMismatchError, InputError
from leakscope.evaluate.record_metadata import RecordMetadata
from leakscope.evaluate.verdict import Verdict
from leakscope.models.given import PredictFunction
from leakscope.recipe import EstimatorRecipe, FunctionRecipe
from leakscope.runs.run import open_run
from leakscope.runs.verification import verify_run
from leakscope.types import Records
from tests.engine.small_population import records
from tests.made_up_audits import quick_single_records

N = 240
SETTINGS: dict[str, Any] = {"models": 16, "attacks": ["lira", "loss"], "fpr": [0.1], "signals": ["correct"]}


@pytest.fixture(scope="module", autouse=True)
def _quick_single_records() -> Iterator[None]:
    with quick_single_records():
        yield


def nearest(canaries: Canaries | None, out: Path, **changes: Any) -> Verdict:
    """Well-separated classes and nearest neighbours: models know oddities by heart, and nothing else."""
    recipe = EstimatorRecipe(KNeighborsClassifier(3), processes=1)
    return audit(separated(), recipe, out, canaries=canaries, **{**SETTINGS, **changes})


def separated() -> Records:
    given = records(n=N)
    features = given.features + 6 * given.labels[:, None].astype(np.float32)
    return Records(features, given.labels, given.ids, "separated", class_names=given.class_names)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("canaries") / "run"
    nearest(Canaries(number=24), folder)
    return folder


def test_canaries_are_exposed_where_the_population_is_not(run: Path) -> None:
    results = open_run(run).results
    assert results.headline.canaries is not None
    assert results.headline.canaries.records == 24 == results.population.canaries
    assert results.population.records == N - 24
    assert results.headline.canaries.auc.low > 0.8 > 0.6 > results.headline.auc.high
    for figures in results.attacks.values():
        assert figures.canaries is not None and figures.canaries.auc.value is not None


def test_nothing_else_counts_canaries(run: Path) -> None:
    opened = open_run(run)
    assert opened.results.accuracy.nonmembers.value > 0.93  # counted, canaries would be a tenth, all wrong
    is_canary = opened.metadata.is_canary
    assert is_canary is not None and is_canary.sum() == 24
    ids = opened.records["id"].to_numpy()
    assert set(ids) == set(opened.metadata.ids[~is_canary]) and len(ids) == N - 24
    assert len(opened.scores("lira").ids) == opened.scores("lira").values.shape[1] == N


def test_the_verdict_and_the_reports_show_the_sets_side_by_side(run: Path) -> None:
    verdict = open_run(run).verdict
    assert "of 216 records (separated), and of 24 canaries." in str(verdict)
    assert "Among the 24 canaries, the strongest attack (" in str(verdict)
    for page in ("report.md", "report.html"):
        text = (run / page).read_text()
        assert text.index("Exposure by record set") < text.index("ROC")
        assert "24 of 240 records, mislabelled" in text
        assert "2 records are too few to measure; it takes at least 10" in text


@pytest.mark.slow
def test_a_run_with_canaries_is_verified_judged_and_resumed(run: Path) -> None:
    assert verify_run(run).problems == []
    before = open_run(run).results
    again = nearest(Canaries(number=24), run).results
    assert again.headline == before.headline
    verdict = open_run(run).judge("reference")
    assert verdict.results.attacks["reference"].canaries is not None
    assert verdict.results.attacks["lira"] == before.attacks["lira"]


@pytest.mark.parametrize("other", [None, Canaries(number=23), Canaries(number=24, seed=9)])
def test_other_canaries_in_the_same_folder_are_refused(run: Path, other: Canaries | None) -> None:
    with pytest.raises(BankMismatchError, match="sha256"):
        nearest(other, run)


def test_copies_reach_the_training_of_estimators_and_functions(tmp_path: Path) -> None:
    seen: list[np.ndarray] = []

    def train(given: Records, members: np.ndarray, seed: int) -> Any:
        seen.append(np.bincount(members, minlength=len(given)))
        return lambda features: np.zeros((len(features), 3), np.float32)

    canaries = Canaries("duplicated", number=12, copies=5)
    audit(separated(), FunctionRecipe(train), tmp_path / "f", canaries=canaries, **SETTINGS)
    is_canary = RecordMetadata.read(tmp_path / "f").is_canary
    assert is_canary is not None and len(seen) == 16
    for counts in seen:
        assert set(counts[is_canary].tolist()) == {0, 5} and set(counts[~is_canary].tolist()) == {0, 1}
    # Of three neighbors, all are copies of the canary: a model that has it always gives its label.
    verdict = nearest(Canaries("duplicated", number=24, copies=3), tmp_path / "e")
    members = open_run(tmp_path / "e")
    is_canary = members.metadata.is_canary
    own = members.signals.last("correct")[:, is_canary], members.design.in_mask[:, is_canary]
    assert own[0][own[1]].all() and verdict.results.headline.canaries.auc.low > 0.9


def test_a_config_file_plants_canaries_and_names_its_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "audit.toml"
    path.write_text('[data]\ndataset = "digits"\n[canaries]\nkind = "duplicated"\nshare = 0.02\ncopies = 3\n')
    assert read_config(path).settings.canaries == Canaries("duplicated", share=0.02, copies=3)
    path.write_text('[data]\ndataset = "digits"\n[canaries]\nnumber = "many"\nshares = 0.02\n')
    with pytest.raises(InputError, match=r"canaries.number='many'.*canaries.shares is not a known setting"):
        read_config(path)
    path.write_text('[data]\ndataset = "digits"\n[canaries]\nnumber = 5\nshare = 0.02\n')
    with pytest.raises(InputError, match="canaries: give either `share` or `number`"):
        read_config(path)
    path.write_text('[predictions]\nfile = "p.npz"\n[canaries]\nnumber = 5\n')
    with pytest.raises(InputError, match="canaries would do nothing"):
        read_config(path)


def test_a_given_model_takes_no_canaries() -> None:
    recipe = EstimatorRecipe(KNeighborsClassifier(1), processes=1)
    given = GivenTarget(separated(), PredictFunction(lambda x: x[:, :3]), np.arange(N) % 2 == 0, recipe)
    with pytest.raises(InputError, match="canaries cannot be planted into a trained model"):
        prepare(AuditSettings(canaries=Canaries(number=20)), given)


@pytest.mark.slow
def test_a_plan_and_a_comparison_leave_canaries_out(run: Path, tmp_path: Path) -> None:
    recipe = EstimatorRecipe(KNeighborsClassifier(15), processes=1)
    settings = AuditSettings(canaries=Canaries(number=24), **SETTINGS)
    planned = plan_audit(settings, TrainedPopulation(separated(), recipe))
    assert planned.population.records == N - 24
    nearest(Canaries(number=24, seed=0), tmp_path / "b")
    comparison = compare([run, tmp_path / "b"], tmp_path / "c")
    assert not comparison.is_regression
    table = pl.read_parquet(tmp_path / "c" / "records.parquet")
    assert table["id"].n_unique() == N - 24


@pytest.mark.slow
def test_audits_of_the_same_canaries_are_merged_and_of_others_are_not(tmp_path: Path) -> None:
    for name, seed, own in (("a", 0, 3), ("b", 1, 3), ("c", 2, None)):
        nearest(Canaries(number=24, seed=own), tmp_path / name, seed=seed, models=8)
    merged = merge_runs([tmp_path / "a", tmp_path / "b"], tmp_path / "ab").verdict
    assert merged is not None and merged.results.population.models == 16
    assert merged.results.headline.canaries is not None and merged.results.headline.canaries.records == 24
    with pytest.raises(InputError, match="records"):
        merge_runs([tmp_path / "a", tmp_path / "c"], tmp_path / "ac")
