"""That few records are detected shows nothing; the upper bound on exposed records holds, and takes models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn.tree import DecisionTreeClassifier

import leakscope
from leakscope.array_types import BoolArray
from leakscope.audits.planning.plan import resolution, undecidable_limits
from leakscope.design import make_design
from leakscope.evaluate.attacked import PER_RECORD
from leakscope.evaluate.exposed_share import models_to_pass, most_exposed_share
from leakscope.stats.per_record import record_risk
from leakscope.types import Signals

N_RECORDS = 200


def bound_of(rng: np.random.Generator, in_mask: BoolArray, tpr: float, tnr: float, n_copies: int) -> float:
    """The bound for records that are all exposed; each decision is shared by so many records."""
    n_models, n_drawn = len(in_mask), N_RECORDS // n_copies
    drawn_mask = np.repeat(in_mask[:, :n_drawn], n_copies, axis=1)
    chance = np.repeat(rng.random((n_models, n_drawn)), n_copies, axis=1)
    says_member = np.where(drawn_mask, chance < tpr, chance >= tnr)
    return most_exposed_share(record_risk(says_member, drawn_mask))


@pytest.mark.parametrize(("tpr", "tnr"), [(0.8, 0.8), (0.6, 1.0), (1.0, 0.6)])
@pytest.mark.parametrize("member_share", [0.5, 0.15])
@pytest.mark.parametrize("n_copies", [1, 50])
def test_records_at_the_degree_are_counted_whatever_they_share(
    tpr: float, tnr: float, member_share: float, n_copies: int
) -> None:
    """Every record is exposed, so a bound below 100% is an error; at most 1% of populations may have one."""
    rng = np.random.default_rng(0)
    bounds = []
    for _ in range(300):
        in_mask = rng.random((40, N_RECORDS)) < member_share
        bounds.append(bound_of(rng, in_mask, tpr, tnr, n_copies))
    assert np.mean(np.array(bounds) < 1) <= 0.02  # 1%, and the noise of 300 populations


def guessed(n_models: int, n_records: int = 300, seed: int = 0) -> float:
    rng = np.random.default_rng(seed)
    in_mask = np.argsort(rng.random((n_models, n_records)), axis=0) < n_models // 2
    return most_exposed_share(record_risk(rng.random((n_models, n_records)) < 0.5, in_mask))


@pytest.mark.parametrize("limit", [0.5, 0.05, 0.0])
def test_models_that_reveal_nothing_pass_with_as_many_as_stated(limit: float) -> None:
    needed = models_to_pass(limit, 300)
    passed = [guessed(needed, seed=seed) <= limit for seed in range(40)]
    assert np.mean(passed) >= 0.85
    assert not any(guessed(needed // 2, seed=seed) <= limit for seed in range(40))


def test_a_record_without_models_of_both_sides_is_never_ruled_out() -> None:
    in_mask = np.zeros((64, 10), dtype=np.bool_)
    assert most_exposed_share(record_risk(~in_mask, in_mask)) == 1.0


@pytest.mark.parametrize(
    ("n_models", "expected"), [(8, "inconclusive"), (12, "inconclusive"), (24, "failed")]
)
def test_trees_that_expose_most_records_never_pass(tmp_path: Path, n_models: int, expected: str) -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(300, 6))
    labels = (features[:, 0] + rng.normal(size=300) > 0).astype(int)
    verdict = leakscope.audit(
        X=features,
        y=labels,
        estimator=DecisionTreeClassifier(),
        out=tmp_path,
        models=n_models,
        gate=leakscope.Gate(max_exposed_share=0.4),
    )
    assert verdict.outcome == expected


def test_models_that_are_references_of_each_other_decide_independently_enough() -> None:
    """The bound takes decisions as independent: at the degree, 0.1% of records have so few right calls."""
    rng = np.random.default_rng(0)
    design = make_design("balanced", 24, 6000, 0)
    log_odds = rng.normal(size=(24, 6000)) + rng.normal(0, 2, 6000) + 1.75 * design.in_mask
    signals = Signals({"log_odds": log_odds[:, None]}, (1,), rng.integers(0, 2, 6000))
    right = ((PER_RECORD(signals, design).values > 0) == design.in_mask).sum(axis=0)
    assert right.mean() / 24 == pytest.approx(0.805, abs=0.01)
    assert np.mean(stats.binom.cdf(right, 24, 0.8) <= 0.001) < 0.002


def test_a_plan_names_the_models_that_a_limit_takes() -> None:
    gate = leakscope.Gate(max_exposed_share=0.5)
    for n_models, named in ((1, "population of models"), (24, "about 30 models"), (30, None)):
        problems = list(undecidable_limits(gate, resolution(n_models, 150, 150, ()), n_models, 300))
        assert (named in problems[0]) if named else not problems
