"""The best attacker, spread of scores and features of the ensemble study, by its committed results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from leakscope.single_model.results import AucFigure
from leakscope.studies.claims import Outcome
from leakscope.studies.ensemble import claims as ensemble
from leakscope.studies.ensemble.feature_figures import (
    feature_correlation,
    feature_figures,
    feature_scores,
)
from leakscope.studies.ensemble.outputs import read_outputs
from leakscope.studies.ensemble.results import EnsembleResults
from leakscope.studies.ensemble.study import target_accuracy
from tests.studies.test_claims_of_two_studies import RESULTS, by_key, read


@pytest.fixture(scope="module")
def small() -> EnsembleResults:
    results: EnsembleResults = read("ensemble", "small", EnsembleResults)
    return results


def test_the_best_attacker_is_best_by_both_published_rates(small: EnsembleResults) -> None:
    """By AUC the MLP is ahead of all others beyond the intervals; by TPR it is behind."""
    ahead = {name: AucFigure(0.6, 0.59, 0.61, "") for name in small.private_truth}
    ahead["mlp"] = AucFigure(0.7, 0.69, 0.71, "")
    truth = {
        name: replace(
            one, auc=ahead[name], tpr_at_fpr=replace(one.tpr_at_fpr, value=rate, low=rate, high=rate)
        )
        for (name, one), rate in zip(small.private_truth.items(), (0.3, 0.3, 0.2), strict=True)
    }
    entry = by_key(ensemble.settle([replace(small, private_truth=truth)]))["best_leaderboard"]
    assert entry.outcome is Outcome.REFUTED and entry.why == "by AUC reproduced, by TPR refuted"
    assert "TPR" in entry.claim.published and "30.00%" in entry.ours


def test_the_reason_for_other_scores_names_what_differs() -> None:
    full: EnsembleResults = read("ensemble", "full", EnsembleResults)
    settled = by_key(ensemble.settle([full]))
    assert "standard deviation" in settled["scores_mlp"].why and "average" not in settled["scores_mlp"].why
    assert "average" in settled["scores_forest"].why and "standard deviation" in settled["scores_forest"].why
    assert "with ties 18.44%" in settled["tpr_validation_mlp"].ours


RECORDED = sorted(file.name.removesuffix("-outputs.npz") for file in RESULTS.glob("ensemble/*-outputs.npz"))


@pytest.mark.parametrize("name", RECORDED)
def test_committed_outputs_give_the_committed_figures_of_target_and_features(name: str) -> None:
    results: EnsembleResults = read("ensemble", name, EnsembleResults)
    outputs = read_outputs(RESULTS / "ensemble" / f"{name}-outputs.npz")
    assert outputs.training.config == results.config
    assert target_accuracy(outputs) == results.target
    scores = feature_scores(outputs, results.config.readings)
    computed = feature_figures(scores, outputs.is_member)
    assert computed.keys() == results.features.keys()
    for feature, auc in computed.items():
        assert auc.value == pytest.approx(results.features[feature].value, abs=1e-9), feature
    table = np.stack([score for feature, score in scores.items() if feature != "global_lira"], axis=1)
    expected = np.median(np.abs(stats.spearmanr(table).statistic[np.triu_indices(10, 1)]))
    assert feature_correlation(scores) == pytest.approx(expected)
    assert results.feature_correlation == pytest.approx(expected, abs=1e-9)


def test_there_are_recorded_outputs() -> None:
    assert {"small", "full"} <= set(RECORDED)
