"""The planned time of judging, against a judge whose cost is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier

from leakscope.attacks.eb_lira import EbLira
from leakscope.audits import run
from leakscope.audits.planning import judging
from leakscope.audits.planning.judging import RandomBank, judging_seconds
from leakscope.audits.planning.plan import plan_audit
from leakscope.audits.population import TrainedPopulation
from leakscope.audits.run import audit_settings, prepare
from leakscope.evaluate.config import EvaluationConfig
from leakscope.evaluate.uncertainty import SAMPLED_SCORES
from leakscope.recipe import EstimatorRecipe
from leakscope.types import Records
from tests.engine.small_population import RECIPE

FIXED, PER_MODEL, SCORED, FITTED, REPEATED = 0.6, 0.02, 2e-6, 6e-6, 30e-6  # seconds; the last per score
DESCRIBED, DESCRIBED_AT_MOST = 1e-4, 4_000


class KnownCosts:
    """A judge and a description of records that only move the clock."""

    def __init__(self) -> None:
        self.now, self.judgements = 0.0, 0

    def judge(self, bank: RandomBank, config: EvaluationConfig, metadata: None, sampled_scores: int) -> None:
        self.judgements += 1
        n_models, n_records = bank.design().in_mask.shape
        self.now += seconds_of_judging(n_models, n_records, min(sampled_scores, n_models * n_records))

    def describe(self, records: Records, design: object) -> None:
        self.now += DESCRIBED * min(len(records), DESCRIBED_AT_MOST)


def seconds_of_judging(n_models: int, n_records: int, n_repeated: int) -> float:
    n_fitted = min(n_records, EbLira().fitted_records)
    per_model = PER_MODEL + SCORED * n_records + FITTED * n_fitted
    return FIXED + n_models * per_model + REPEATED * n_repeated


def records(n: int) -> Records:
    return Records(np.zeros((n, 2), np.float32), np.arange(n) % 2, np.arange(n), class_names=("a", "b"))


@pytest.fixture
def costs(monkeypatch: pytest.MonkeyPatch) -> KnownCosts:
    known = KnownCosts()
    monkeypatch.setattr(judging, "judge", known.judge)
    monkeypatch.setattr(judging, "describe_records", known.describe)
    monkeypatch.setattr("time.perf_counter", lambda: known.now)
    return known


def planned(n_models: int, n_records: int) -> float:
    settings = audit_settings({"models": n_models, "device": "cpu"})
    prepared = prepare(settings, TrainedPopulation(records(n_records), RECIPE))
    assert prepared.request is not None
    return judging_seconds(prepared.request, prepared.config).expected


@pytest.mark.parametrize(
    ("n_models", "n_records"),
    [
        (8, 24),
        (8, 700),
        (8, 3_000),
        (8, 50_000),
        (8, 100_000),
        (64, 300),
        (64, 30_000),
        (700, 2_000),
    ],
)
def test_every_record_is_scored_and_a_sample_is_repeated(
    costs: KnownCosts, n_models: int, n_records: int
) -> None:
    n_repeated = min(n_models * n_records, SAMPLED_SCORES // n_models * n_models)
    truth = seconds_of_judging(n_models, n_records, n_repeated)
    truth += DESCRIBED * min(n_records, DESCRIBED_AT_MOST)
    # Where all records are repeated, those beyond the 10,000 fitted are planned as if they were fitted, too.
    more = (
        FITTED * n_models * max(n_records - EbLira().fitted_records, 0) * (n_repeated == n_models * n_records)
    )
    assert 0.98 * truth < planned(n_models, n_records) < 1.02 * (truth + more)


def test_a_small_audit_is_judged_a_few_times_and_a_large_one_three_times_more(costs: KnownCosts) -> None:
    planned(8, 500)
    small, costs.judgements = costs.judgements, 0
    planned(8, 100_000)
    assert small <= 3
    assert costs.judgements == small + 3


def test_a_faster_second_trial_does_not_plan_less_than_the_first(
    costs: KnownCosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other processes can make any trial slow: the first one here."""
    whole, slow = costs.judge, [True, True]

    def judge(*arguments: object, **options: object) -> None:
        whole(*arguments, **options)  # type: ignore[arg-type]
        costs.now += 100.0 if slow and slow.pop() else 0.0

    monkeypatch.setattr(judging, "judge", judge)
    assert planned(8, 100_000) > 100.0


def test_trials_of_large_pictures_stay_small(costs: KnownCosts, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    describe: Callable[[Records, object], None] = costs.describe

    def counted(some: Records, design: object) -> None:
        sizes.append(some.features.nbytes)
        describe(some, design)

    monkeypatch.setattr(judging, "describe_records", counted)
    monkeypatch.setattr(judging, "_MOST_BYTES", 8 * 2_000)
    planned(8, 100_000)
    assert max(sizes) == 8 * 2_000


def test_the_trial_judges_beside_a_second_process_as_the_audit_does(
    costs: KnownCosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone, linear algebra takes every core, and on busy ones its threads wait for each other."""
    running, judged_beside = [False], list[bool]()
    whole = costs.judge

    @contextmanager
    def beside(*_: object) -> Iterator[None]:
        running[0] = True
        yield
        running[0] = False

    def judge(*arguments: object, **options: object) -> None:
        judged_beside.append(running[0])
        whole(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(run, "second_process", beside)
    monkeypatch.setattr(judging, "judge", judge)
    plan_audit(
        audit_settings({"models": 8, "device": "cpu"}),
        TrainedPopulation(records(60), EstimatorRecipe(DummyClassifier())),
    )
    assert judged_beside and all(judged_beside)
