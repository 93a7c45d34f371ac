from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from leakscope.data.predictions import Predictions
from leakscope.errors import InputError
from leakscope.signals.functions import classification_signals
from leakscope.single_model.attack import run_attack
from leakscope.single_model.ensemble import holdout
from leakscope.single_model.ensemble.attackers import (
    ATTACKERS,
    Attacker,
    ForestAttacker,
    LightGbmAttacker,
    MlpAttacker,
    attacker_inputs,
    break_ties,
    fit,
)
from leakscope.single_model.ensemble.features import GlobalLira, features, log_odds
from leakscope.single_model.ensemble.holdout import figures, split_public
from leakscope.single_model.results import AttackSettings, Readings
from leakscope.stats.roc import auc

SMALL = (ForestAttacker(n_trees=8), LightGbmAttacker(n_trees=8), MlpAttacker(max_iterations=15))


def outputs(n: int = 400, leak: float = 2.0, seed: int = 0, n_classes: int = 4) -> Predictions:
    """A model whose members' true logit is higher by `leak`; half are members."""
    rng = np.random.default_rng(seed)
    is_member = rng.permutation(n) < n // 2
    labels = rng.integers(0, n_classes, n)
    logits = rng.normal(size=(n, n_classes))
    logits[np.arange(n), labels] += 1 + leak * is_member
    ids = np.array([f"r{i}" for i in range(n)])
    return Predictions(logits.astype(np.float32), labels, ids, is_member)


def test_features_are_the_signals_of_the_banks() -> None:
    public = outputs(60)
    columns = features(public.logits, public.labels)
    logits, labels = torch.from_numpy(public.logits).double(), torch.from_numpy(public.labels)
    for name, values in columns.items():
        if name.startswith("prob_"):
            expected = logits.softmax(-1)[:, int(name[5:])]
        else:
            expected = classification_signals(logits, labels, (name,))[name].double()
        np.testing.assert_allclose(values, expected.numpy(), rtol=1e-9, atol=1e-12, err_msg=name)
    expected = classification_signals(logits, labels, ("log_odds",))["log_odds"]
    np.testing.assert_allclose(log_odds(public.logits, public.labels), expected.numpy(), rtol=1e-9)


def test_features_are_finite_where_probabilities_are_not_distinct_from_one() -> None:
    logits = np.array([[800.0, 0.0, -800.0], [60.0, 0.0, 1.0], [0.0, 0.0, 0.0]], dtype=np.float32)
    columns = features(logits, np.array([0, 0, 1]))
    assert all(np.isfinite(values).all() for values in columns.values())
    loss = columns["loss"]
    assert loss[1] == pytest.approx(np.exp(-60.0) * (1 + np.e), rel=1e-6)
    assert loss[2] == pytest.approx(np.log(3))


def test_global_lira_is_the_log_ratio_of_two_gaussians() -> None:
    values, is_member = np.array([1.0, 3.0, 0.0, -2.0]), np.array([True, True, False, False])
    fitted = GlobalLira.fit(values, is_member)
    assert (fitted.mean_in, fitted.sd_in, fitted.mean_out, fitted.sd_out) == (2, 1, -1, 1)
    expected = stats.norm(2, 1).logpdf(0.3) - stats.norm(-1, 1).logpdf(0.3)
    assert fitted.score(np.array([0.3]))[0] == pytest.approx(expected)


def test_the_densities_come_from_the_learning_part_of_each_fold() -> None:
    public = outputs(100)
    assert public.is_member is not None
    fitted = fit(SMALL[0], public.logits, public.labels, public.is_member, seed=1)
    everyone = GlobalLira.fit(log_odds(public.logits, public.labels), public.is_member)
    per_fold = [fold.estimator[0].lira_ for fold in fitted.model.calibrated_classifiers_]
    assert len(set(per_fold)) == 5 and everyone not in per_fold


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), min_size=1, max_size=40))
@settings(max_examples=60)
def test_ties_are_broken_by_the_uncalibrated_score_and_nothing_else_moves(
    pairs: list[tuple[int, int]],
) -> None:
    calibrated = np.array([c / 4 for c, _ in pairs])
    uncalibrated = np.array([u / 6 for _, u in pairs])
    score = break_ties(calibrated, uncalibrated)
    assert ((score >= 0) & (score <= 1)).all()
    np.testing.assert_allclose(score, calibrated, rtol=0, atol=1e-13)
    for i, j in itertools.combinations(range(len(pairs)), 2):
        assert np.sign(score[i] - score[j]) == (pairs[i] > pairs[j]) - (pairs[i] < pairs[j])


def test_calibrated_scores_closer_than_rounding_keep_their_order() -> None:
    calibrated = np.array([1e-300, 2e-300, 1 - 2**-53, 1.0, 0.0])
    score = break_ties(calibrated, np.array([1.0, 0.0, 1.0, 0.0, 0.5]))
    assert list(np.argsort(score)) == list(np.argsort(calibrated)) and score.max() <= 1


@pytest.mark.parametrize("attacker", SMALL, ids=lambda a: a.name)
def test_planted_leakage_is_found_and_none_is_not(attacker: Attacker) -> None:
    for leak, low, high in ((2.5, 0.75, 1.0), (0.0, 0.3, 0.7)):
        public, private = outputs(400, leak, seed=1), outputs(400, leak, seed=2)
        assert public.is_member is not None and private.is_member is not None
        fitted = fit(attacker, public.logits, public.labels, public.is_member, seed=0)
        scores = fitted.scores(private.logits, private.labels)
        assert low <= auc(scores.score, private.is_member) <= high
        assert len(np.unique(scores.score)) >= len(np.unique(scores.calibrated))


@pytest.mark.parametrize("attacker", SMALL, ids=lambda a: a.name)
def test_the_seed_decides(attacker: Attacker) -> None:
    public = outputs(120)
    assert public.is_member is not None
    first, again, other = (
        fit(attacker, public.logits, public.labels, public.is_member, seed).scores(
            public.logits, public.labels
        )
        for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(first.score, again.score)
    assert (first.score != other.score).any()


def test_the_published_settings() -> None:
    forest, boosted, perceptron = (attacker.classifier(0).get_params() for attacker in ATTACKERS)
    assert (forest["n_estimators"], forest["max_depth"], forest["min_samples_split"]) == (100, 15, 5)
    assert (boosted["n_estimators"], boosted["max_depth"], boosted["learning_rate"]) == (200, 15, 0.05)
    assert (perceptron["hidden_layer_sizes"], perceptron["max_iter"]) == ((64, 32), 100)


def test_a_perceptron_that_did_not_converge_is_marked() -> None:
    public = outputs(100)
    assert public.is_member is not None
    common = (public.logits, public.labels, public.is_member, 0)
    assert fit(MlpAttacker(max_iterations=2), *common).stopped_early
    assert not fit(SMALL[0], *common).stopped_early


def test_the_split_holds_out_a_share_of_each_side() -> None:
    is_member = np.arange(100) < 30
    split = split_public(is_member, 0.2, seed=0)
    assert sorted([*split.training, *split.validation]) == list(range(100))
    assert is_member[split.validation].sum() == 6 and len(split.validation) == 20
    assert list(split.validation) != list(split_public(is_member, 0.2, seed=1).validation)


@pytest.mark.parametrize("share", [0.0, 1.0, -1.0])
def test_a_share_outside_is_refused(share: float) -> None:
    with pytest.raises(InputError, match=f"validation_share={share}: must be between 0 and 1"):
        split_public(np.arange(100) < 50, share, seed=0)


def test_too_few_of_a_side_are_refused() -> None:
    with pytest.raises(InputError, match="6 public members are too few"):
        split_public(np.arange(100) < 6, 0.25, seed=0)


def test_membership_of_the_validation_part_changes_no_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    public, private = outputs(200), outputs(20, seed=1)
    assert public.is_member is not None
    split = split_public(public.is_member, 0.25, seed=0)
    monkeypatch.setattr(holdout, "split_public", lambda *_: split)
    flipped = public.is_member.copy()
    flipped[split.validation] = ~flipped[split.validation]
    changed = Predictions(public.logits, public.labels, public.ids, flipped)
    for name, known in (("true", public), ("flipped", changed)):
        run_attack(known, private, tmp_path / name, AttackSettings(), SMALL[:1])
    for part in ("validation", "private"):
        true, other = (np.load(tmp_path / name / part / "forest.npy") for name in ("true", "flipped"))
        np.testing.assert_array_equal(true, other)


def test_figures_have_intervals_and_know_what_they_cannot_resolve() -> None:
    scores = np.arange(200) / 200
    perfect = figures(scores, scores >= 0.5)
    assert perfect.auc.value == 1 and perfect.tpr_at_fpr.value == 1
    assert perfect.tpr_at_fpr.low == pytest.approx(0.025 ** (1 / 100))
    few = figures(scores[:20], np.arange(20) >= 10).tpr_at_fpr
    assert few.value is None and "below 1/10" in few.reason


def test_inputs_end_with_the_log_odds() -> None:
    public = outputs(10)
    inputs = attacker_inputs(public.logits, public.labels)
    assert inputs.shape == (10, len(features(public.logits, public.labels)) + 1)
    np.testing.assert_array_equal(inputs[:, -1], log_odds(public.logits, public.labels))


def test_both_readings_of_what_the_publication_leaves_open() -> None:
    public = outputs(60)
    probability = torch.from_numpy(public.logits).double().softmax(-1).numpy()
    true_prob = probability[np.arange(60), public.labels]
    entropy = -(probability * np.log(probability)).sum(axis=1)
    literal = Readings(entropy="adjusted", gradient="true_logit", confidence="probability")
    columns = features(public.logits, public.labels, literal)
    np.testing.assert_allclose(columns["adjusted_entropy"], (1 - true_prob) * entropy, rtol=1e-9)
    np.testing.assert_allclose(columns["gradient_proxy"], 1 - true_prob, rtol=1e-9)
    assert "modified_entropy" not in columns and len(columns) == len(features(public.logits, public.labels))
    inputs = attacker_inputs(public.logits, public.labels, literal)
    np.testing.assert_allclose(inputs[:, -1], true_prob, rtol=1e-9)


def test_the_true_logit_reading_is_the_derivative_of_the_loss() -> None:
    public = outputs(20)
    logits = torch.from_numpy(public.logits).double().requires_grad_()
    labels = torch.from_numpy(public.labels)
    torch.autograd.backward(torch.nn.functional.cross_entropy(logits, labels, reduction="sum"))
    assert logits.grad is not None
    derivative = logits.grad[torch.arange(20), labels].abs().numpy()
    columns = features(public.logits, public.labels, Readings(gradient="true_logit"))
    np.testing.assert_allclose(columns["gradient_proxy"], derivative, rtol=1e-9)


def test_an_unknown_reading_is_refused() -> None:
    with pytest.raises(InputError, match="entropy='shannon': choose modified or adjusted"):
        assert AttackSettings(entropy="shannon").readings  # type: ignore[arg-type]
