"""EB-LiRA against the best possible ROC, against LiRA, and where records have few models."""

import numpy as np
import pytest
from scipy.stats import norm

from leakscope.attacks.eb_lira import EbLira
from leakscope.attacks.lira import Lira
from leakscope.design import make_design
from leakscope.stats.intervals import delong
from leakscope.stats.roc import auc
from leakscope.types import Design, Signals


def bank(n_models, n_records, gap, kind="bernoulli", seed=0, ease_sd=3.0):
    """Gaussian log-odds around each record's own ease; members `gap(ease)` higher; noise of sd 1."""
    design = make_design(kind, n_models, n_records, seed)
    rng = np.random.default_rng([seed, 7])
    ease = rng.normal(scale=ease_sd, size=n_records)
    log_odds = ease + rng.normal(size=(n_models, n_records)) + design.in_mask * gap(ease)
    return Signals({"log_odds": log_odds[:, None]}, (1,), np.zeros(n_records, dtype=np.int64)), design


@pytest.mark.parametrize("attack", [EbLira(), Lira()], ids=["eb_lira", "lira"])
@pytest.mark.parametrize("shift", [0.5, 1.0, 2.0])
def test_the_roc_of_a_gaussian_shift_is_the_known_best_one(attack, shift):
    """No attack has a higher AUC than Phi(shift / sqrt 2), reached with known means; 128 models suffice."""
    signals, design = bank(128, 3000, lambda ease: shift, kind="balanced")
    covered, best = 0, norm.cdf(shift / np.sqrt(2))
    targets = np.arange(0, 128, 8)
    scores = attack(signals, design, targets)
    for target, values in zip(targets, scores.values, strict=True):
        covered += best in delong(values, design.in_mask[target]).interval
    assert covered >= 13  # of 16; 95% intervals miss more than three with probability below 1%


def test_with_few_models_it_beats_lira_where_records_differ():
    signals, design = bank(8, 4000, lambda ease: np.maximum(2 - ease, 0))
    mean = {}
    for attack in (EbLira(), Lira(), Lira(variance="record")):
        scores = attack(signals, design)
        rows = zip(scores.values, design.in_mask, strict=True)
        mean[attack] = np.mean([auc(values, members) for values, members in rows])
    assert mean[EbLira()] > mean[Lira()] + 0.01
    assert mean[EbLira()] > mean[Lira(variance="record")] + 0.05


def test_records_without_a_model_on_one_side_are_scored_by_what_others_teach():
    signals, design = bank(6, 2000, lambda ease: 3.0)
    in_mask = design.in_mask.copy()
    lonely = np.flatnonzero((in_mask[1:].sum(axis=0) == 0) | (in_mask[1:].sum(axis=0) == 5))
    assert len(lonely) > 50
    scores = EbLira()(signals, Design(in_mask), np.array([0])).values[0]
    assert auc(scores[lonely], in_mask[0, lonely]) > 0.75


def test_half_precision_signals_score_like_their_exact_values():
    signals, design = bank(12, 500, lambda ease: 1.5)
    half = Signals({"log_odds": signals.arrays["log_odds"].astype(np.float16)}, (1,), signals.labels)
    exact, rounded = EbLira()(signals, design).values, EbLira()(half, design).values
    assert np.corrcoef(exact.ravel(), rounded.ravel())[0, 1] > 0.999


def test_the_kinds_can_be_learned_from_a_sample_of_the_records():
    signals, design = bank(10, 4000, lambda ease: np.maximum(2 - ease, 0))
    whole = EbLira()(signals, design, np.arange(3)).values
    sampled = EbLira(fitted_records=1500)(signals, design, np.arange(3)).values
    assert np.corrcoef(whole.ravel(), sampled.ravel())[0, 1] > 0.98


@pytest.mark.slow
def test_checkpoints_that_each_know_a_part_tell_more_together():
    """Two noisy views of one answer: each alone has half of the information."""
    signals, design = bank(16, 3000, lambda ease: 1.0)
    rng = np.random.default_rng(5)
    views = [signals.arrays["log_odds"] + rng.normal(size=(16, 1, 3000)) for _ in range(2)]
    both = Signals({"log_odds": np.concatenate(views, axis=1)}, (1, 2), signals.labels)
    mean_auc = {}
    for checkpoints in ("last", "all"):
        scores = EbLira(checkpoints=checkpoints)(both, design).values
        mean_auc[checkpoints] = np.mean([auc(s, m) for s, m in zip(scores, design.in_mask, strict=True)])
    assert mean_auc["all"] > mean_auc["last"] + 0.02


@pytest.mark.slow
def test_a_useless_checkpoint_does_no_harm():
    signals, design = bank(12, 3000, lambda ease: 1.5)
    noise = np.random.default_rng(9).normal(size=(12, 1, 3000))
    useful = signals.arrays["log_odds"]
    both = Signals({"log_odds": np.concatenate([noise, useful], axis=1)}, (1, 2), signals.labels)
    joint, alone = EbLira(checkpoints="all")(both, design).values, EbLira()(signals, design).values
    assert np.corrcoef(joint.ravel(), alone.ravel())[0, 1] > 0.99


@pytest.mark.parametrize(
    "noise",
    [0.0, pytest.param(1e-4, marks=pytest.mark.slow), pytest.param(1e-2, marks=pytest.mark.slow), 1.0],
)
def test_a_balanced_design_s_counts_do_not_show_through(noise):
    """The target's own side has one reference fewer; outputs without leakage must not seem to leak."""
    design = make_design("balanced", 16, 4000, seed=0)
    log_odds = 3.0 + noise * np.random.default_rng(2).normal(size=(16, 1, 4000))
    signals = Signals({"log_odds": log_odds}, (1,), np.zeros(4000, dtype=np.int64))
    scores = EbLira()(signals, design, np.arange(8)).values
    aucs = [auc(s, m) for s, m in zip(scores, design.in_mask[:8], strict=True)]
    assert np.mean(aucs) == pytest.approx(0.5, abs=0.015)
