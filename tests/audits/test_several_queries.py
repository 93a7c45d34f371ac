"""An audit with several queries per record: stored, resumed, merged, judged, refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from leakscope.array_types import AnyArray
from leakscope.audits.config import parse_config
from leakscope.audits.finished import FinishedRun
from leakscope.audits.given import GivenTarget
from leakscope.audits.merged import MergedRuns
from leakscope.audits.population import TrainedPopulation
from leakscope.audits.predictions import SavedPredictions
from leakscope.audits.run import audit
from leakscope.bank.bank import Bank
from leakscope.data.predictions import Predictions
from leakscope.engine.request import TrainingRequest
from leakscope.errors import BankMismatchError, InputError
from leakscope.models.given import PredictFunction
from leakscope.recipe import EstimatorRecipe, FunctionRecipe, Recipe
from leakscope.runs.verification import verify_run
from leakscope.signals.asked import Query, log_odds_queries
from leakscope.signals.functions import log_odds
from leakscope.signals.output_filter import OutputFilter
from leakscope.signals.queries import changed, spread_of
from leakscope.train.state import TrainingState
from leakscope.types import Records
from tests.cli.command import run_command
from tests.engine.small_population import RECIPE, complete, count_training, noise, records, regression_records

NAME = "query_log_odds"
READERS = ["lira(queries=all)", "rmia(queries=all)", "eb_lira(queries=all)"]


def pictures(n: int = 40) -> Records:
    rng = np.random.default_rng(0)
    features = rng.integers(0, 256, size=(n, 1, 5, 6)).astype(np.uint8)
    return Records(features, np.arange(n) % 2, np.arange(n).astype(str), class_names=("a", "b"))


def by_hand(predict: Any, given: Records, queries: tuple[Query, ...]) -> AnyArray:
    """Query by query, with images rounded to whole numbers; (records, queries)."""
    x = torch.from_numpy(given.features)
    columns = []
    for asked in changed(x, spread_of(x), queries, 0):
        seen = asked.round().clamp(0, 255).to(torch.uint8) if x.dtype == torch.uint8 else asked
        columns.append(log_odds(torch.from_numpy(predict(seen.numpy())), torch.from_numpy(given.labels)))
    return torch.stack(columns, dim=1).numpy()


def weigh(given: Records, members: AnyArray, seed: int) -> Any:
    """A training function: logits that are linear in the record, with weights of the members' own."""
    weights = given.features[members].reshape(len(members), -1).mean(axis=0) / 255

    def predict(x: AnyArray) -> AnyArray:
        lean = (x.reshape(len(x), -1) / 255 - 0.5) @ weights
        return np.stack([lean, -lean], axis=1).astype(np.float32)

    return predict


def test_the_first_query_is_the_record_and_the_rest_are_as_said() -> None:
    image = log_odds_queries((3, 8, 8), 18, mirrors=True)
    assert image[:3] == (Query(), Query(mirrored=True), Query(down=-1)) and len(set(image)) == 18
    assert {(q.down, q.right) for q in image} == {(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1)}
    assert not any(q.mirrored for q in log_odds_queries((3, 8, 8), 9, mirrors=False))
    assert log_odds_queries((7,), 4, mirrors=True) == (Query(), *[Query(noise=0.1)] * 3)
    for shape, mirrors, most in (((3, 8, 8), True, 18), ((3, 8, 8), False, 9), ((7,), True, 18)):
        with pytest.raises(InputError, match=f"at most {most}"):
            log_odds_queries(shape, most + 1, mirrors)


def test_functions_are_queried_about_mirrored_and_moved_images(tmp_path: Path) -> None:
    given = pictures()
    bank = complete(
        tmp_path, FunctionRecipe(weigh), records=given, design=design_of(given), signals=(NAME,), queries=5
    )
    stored, in_mask = bank.signals().arrays[NAME], bank.design().in_mask
    assert stored.shape == (4, 1, 40, 5) and stored.dtype == np.float32
    predict = weigh(given, np.flatnonzero(in_mask[2]), 0)
    expected = by_hand(predict, given, log_odds_queries((1, 5, 6), 5, mirrors=True))
    np.testing.assert_allclose(stored[2, 0], expected, atol=1e-5)


def design_of(given: Records) -> Any:
    from leakscope.design import make_design

    return make_design("balanced", 4, len(given), 0)


@pytest.mark.parametrize(
    "outputs", [OutputFilter(), OutputFilter(digits=2), OutputFilter(random_values=True)]
)
def test_networks_return_for_the_first_query_what_they_return_for_the_record(
    tmp_path: Path, outputs: OutputFilter
) -> None:
    names = (NAME, "log_odds")
    arrays = complete(tmp_path, signals=names, queries=3, outputs=outputs).signals().arrays
    assert arrays[NAME].shape == (*arrays["log_odds"].shape, 3)
    np.testing.assert_allclose(arrays[NAME][..., 0], arrays["log_odds"], rtol=1e-5, atol=1e-5)
    assert (arrays[NAME][..., 1] != arrays["log_odds"]).mean() > 0.5
    if outputs == OutputFilter():  # noise of a tenth of a standard deviation changes little
        assert np.corrcoef(arrays[NAME][..., 1].ravel(), arrays["log_odds"].ravel())[0, 1] > 0.9


def test_a_training_that_stops_between_checkpoints_resumes_with_their_queries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted: dict[str, Any] = {"signals": (NAME,), "queries": 3}
    whole = complete(tmp_path / "whole", **wanted).signals().arrays[NAME]
    passed = TrainingState.passed

    def stopped(self: TrainingState, epoch: int, steps: int) -> None:
        passed(self, epoch, steps)
        if epoch == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(TrainingState, "passed", stopped)
    with pytest.raises(KeyboardInterrupt):
        complete(tmp_path / "resumed", save_seconds=0, **wanted)
    monkeypatch.setattr(TrainingState, "passed", passed)
    assert list((tmp_path / "resumed").rglob("checkpoint-0"))
    resumed = complete(tmp_path / "resumed", **wanted).signals().arrays[NAME]
    assert np.array_equal(resumed, whole) and whole.shape[1] == 2


def test_mirror_images_are_queries_where_models_may_have_seen_them() -> None:
    given = pictures()
    convolution = {"net": "cnn", "epochs": 1}
    for recipe, mirrors in (
        (Recipe(**convolution, flips=True), True),
        (Recipe(**convolution), False),
        (EstimatorRecipe(KNeighborsClassifier()), False),
        (FunctionRecipe(weigh), True),
    ):
        request = TrainingRequest(given, design_of(given), recipe, 0, (NAME,), "cpu", queries=4)
        assert any(query.mirrored for query in request.asked.queries) == mirrors


@pytest.mark.slow
def test_an_audit_stores_resumes_verifies_and_judges_queries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = EstimatorRecipe(KNeighborsClassifier(3), processes=1)
    verdict = audit(noise(), recipe, tmp_path / "run", models=8, queries=3, fpr=[0.1])
    assert {"lira(queries=all)", "eb_lira(queries=all)", "eb_lira"} <= set(verdict.results.attacks)
    assert verdict.results.config.source.facts["queries"] == "3 per record"
    trained = count_training(monkeypatch)
    audit(noise(), recipe, tmp_path / "run", models=8, queries=3, fpr=[0.1])
    again = audit(FinishedRun(tmp_path / "run"), out=tmp_path / "run", attacks=READERS)
    assert not trained and set(READERS) <= set(again.results.attacks)
    assert not verify_run(tmp_path / "run").problems
    with pytest.raises(BankMismatchError, match=r"queries is 3 there, 4 now"):
        audit(noise(), recipe, tmp_path / "run", models=8, queries=4, fpr=[0.1])


@pytest.mark.slow
def test_runs_of_as_many_queries_merge(tmp_path: Path) -> None:
    recipe, names = EstimatorRecipe(KNeighborsClassifier(3), processes=1), ["lira(queries=all)"]
    for folder, seed, queries in (("a", 1, 2), ("b", 2, 2), ("c", 3, 3)):
        audit(
            noise(), recipe, tmp_path / folder, models=4, queries=queries, attacks=names, seed=seed, fpr=[0.1]
        )
    audit(MergedRuns((tmp_path / "a", tmp_path / "b")), out=tmp_path / "ab")
    assert Bank.open(tmp_path / "ab").signals().arrays[NAME].shape == (8, 1, 120, 2)
    with pytest.raises(BankMismatchError, match="queries"):
        audit(MergedRuns((tmp_path / "a", tmp_path / "c")), out=tmp_path / "ac")


def test_a_given_model_is_queried_as_its_references_are(tmp_path: Path) -> None:
    given, is_member = pictures(80), np.arange(80) % 2 == 0
    predict = weigh(given, np.flatnonzero(is_member), 0)
    target = GivenTarget(given, PredictFunction(predict), is_member, FunctionRecipe(weigh))
    audit(target, out=tmp_path / "run", models=8, queries=3, attacks=READERS[:2], fpr=[0.1])
    stored = Bank.open(tmp_path / "run").signals().arrays[NAME]
    expected = by_hand(predict, given, log_odds_queries((1, 5, 6), 3, mirrors=True))
    assert stored.shape == (9, 1, 80, 3)
    np.testing.assert_allclose(stored[0, 0], expected, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"queries": 0}, "queries=0: must be at least 1"),
        ({"queries": "four"}, "queries='four': write for example queries=4"),
        ({"queries": 4, "attacks": ["lira", "loss"]}, "queries=4 would do nothing: no attack reads them"),
        ({"attacks": ["rmia(queries=all)"]}, r"rmia\(queries=all\)'\] read several queries.*queries=4"),
        ({"signals": [NAME]}, "query_log_odds.*several queries per record; say how many"),
        ({"queries": 19}, "queries=19: there are at most 18: a record, and the record with a little noise"),
    ],
)
def test_settings_that_do_nothing_or_cannot_be_are_refused(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        audit(records(), RECIPE, tmp_path / "run", models=8, **settings)
    assert not (tmp_path / "run").exists()


def test_audits_without_several_queries_say_so(tmp_path: Path) -> None:
    given = noise()
    recipe = EstimatorRecipe(KNeighborsClassifier(3), processes=1)
    audit(given, recipe, tmp_path / "one", models=8, attacks=["lira"], fpr=[0.1])
    with pytest.raises(InputError, match=r"eb_lira\(queries=all\) needs.*with queries = 4"):
        audit(FinishedRun(tmp_path / "one"), out=tmp_path / "one", attacks=["eb_lira(queries=all)"])
    saved = Predictions(np.zeros((120, 2), np.float32), given.labels, given.ids, np.arange(120) % 2 == 0)
    with pytest.raises(InputError, match="queries would do nothing"):
        audit(SavedPredictions(saved), out=tmp_path / "saved", queries=4)
    with pytest.raises(InputError, match="several queries per record are for classifiers only"):
        audit(regression_records(), RECIPE, tmp_path / "numbers", models=8, queries=4)


def test_config_files_have_the_setting(tmp_path: Path) -> None:
    text = '[data]\ndataset = "digits"\n[population]\nqueries = 4\n'
    config = parse_config(text, tmp_path / "a.toml")
    (tmp_path / "a.toml").write_text(text)
    done = run_command("audit", tmp_path / "a.toml", "--queries", "19", "--out", tmp_path / "run")
    assert done.exit_code == 2 and "queries=19: there are at most 18" in done.err
    assert config.settings.queries == 4 and isinstance(config.source(None), TrainedPopulation)
