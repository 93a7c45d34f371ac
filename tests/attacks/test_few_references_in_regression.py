"""Attacks that run by default must not fall behind plain loss in a regression for a lack of references."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from leakscope.attacks import EbLira, Lira, LossThreshold
from leakscope.attacks.eb_lira_offline import OutKinds, OutMeans, law_of_residuals
from leakscope.stats.roc import auc
from leakscope.types import Design, Signals

TARGET = np.array([0])
SLOPE, NOISE_IN = 0.4, 0.3
"""By how much a member's residual shrinks, and what remains of the scatter over models."""


def regression(n_references, seed, strangers=False, leaks=True, n_records=600):
    """A target and its references: residuals of records that are hard to predict, smaller for members."""
    rng = np.random.default_rng(seed)
    in_mask = rng.permuted(np.arange(n_records) < n_records // 2 + np.zeros((1 + n_references, 1)), axis=1)
    if strangers:
        in_mask[1:] = False
    usual = rng.normal(scale=0.5, size=n_records)
    shrinks = in_mask & leaks
    noise = rng.normal(scale=np.where(shrinks, 0.5 * NOISE_IN, 0.5), size=in_mask.shape)
    residuals = np.where(shrinks, SLOPE, 1.0) * usual + noise
    arrays = {"scaled_residual": np.arcsinh(residuals / 3)[:, None], "loss": (residuals**2)[:, None]}
    return Signals(arrays, (1,), rng.normal(size=n_records).astype(np.float32)), Design(in_mask)


def mean_auc(attack, n_references, n_seeds=5, **options):
    """Over populations."""
    found = []
    for seed in range(n_seeds):
        signals, design = regression(n_references, seed, **options)
        found.append(auc(attack(signals, design, TARGET).values[0], design.in_mask[0]))
    return float(np.mean(found))


FEW = [(variance, n) for variance in ("fixed", "record", "global") for n in (1, 2, 3, 4)]
FEW.remove(("record", 4))


@pytest.mark.parametrize(("variance", "n_references"), FEW)
def test_lira_is_no_worse_than_loss(variance, n_references):
    of_loss = mean_auc(LossThreshold(), n_references)
    assert mean_auc(Lira(variance=variance), n_references) > of_loss - 0.005


@pytest.mark.parametrize(("n_references", "ahead"), [(4, -0.067), (8, -0.032), (16, 0.030)])
def test_lira_with_a_variance_of_each_record_needs_many_references(n_references, ahead):
    """With 4, two values set a variance, as the publication has it: plain loss is ahead.

    Over 10 populations; four standard errors of the difference are 0.025 to 0.03.
    """
    of_loss = mean_auc(LossThreshold(), n_references, 10)
    own = mean_auc(Lira(variance="record"), n_references, 10)
    assert own - of_loss == pytest.approx(ahead, abs=0.03)


@pytest.mark.parametrize("n_references", [1, 2, 4])
@pytest.mark.parametrize("strangers", [False, True])
def test_offline_eb_lira_is_no_worse_than_loss(n_references, strangers):
    of_loss = mean_auc(LossThreshold(), n_references, strangers=strangers)
    assert mean_auc(EbLira(online=False), n_references, strangers=strangers) > of_loss - 0.005


def test_offline_eb_lira_uses_more_references_that_saw_no_record():
    """They show which residuals are usual; where nothing leaks, there is nothing to learn from the target."""
    found = mean_auc(EbLira(online=False), 16, strangers=True)
    assert found > mean_auc(LossThreshold(), 16, strangers=True) + 0.03
    assert mean_auc(EbLira(online=False), 16, strangers=True, leaks=False) == pytest.approx(0.5, abs=0.02)


def test_a_record_with_one_reference_has_the_gaussians_of_all_records():
    """One reference: the score is the log ratio of the Gaussians of its values IN and OUT."""
    signals, design = regression(1, seed=7)
    values, is_in = signals.last("scaled_residual"), design.in_mask[1]
    scores = Lira()(signals, design, TARGET).values[0]
    seen, unseen = values[1, is_in], values[1, ~is_in]
    expected = norm.logpdf(values[0], seen.mean(), seen.std()) - norm.logpdf(
        values[0], unseen.mean(), unseen.std()
    )
    np.testing.assert_allclose(scores, expected, rtol=1e-6, atol=1e-9)


def test_records_with_two_references_a_side_keep_their_own_gaussians():
    signals, design = regression(6, seed=3)
    values, others = signals.last("scaled_residual"), design.in_mask[1:]
    scores = Lira(variance="record")(signals, design, TARGET).values[0]
    own = np.flatnonzero((others.sum(axis=0) > 1) & ((~others).sum(axis=0) > 1))
    for record in own[:20]:
        seen, unseen = values[1:, record][others[:, record]], values[1:, record][~others[:, record]]
        at = values[0, record]
        expected = norm.logpdf(at, seen.mean(), seen.std()) - norm.logpdf(at, unseen.mean(), unseen.std())
        assert scores[record] == pytest.approx(expected, rel=1e-6)


def test_the_law_of_residuals_finds_how_members_shrink():
    """20,000 residuals with known OUT means: slope and scatter of members are recovered."""
    rng = np.random.default_rng(0)
    n = 20_000
    mu, is_member = rng.normal(size=n), np.arange(n) < n // 2
    scatter = np.where(is_member, NOISE_IN, 1.0)
    outputs = np.where(is_member, SLOPE, 1.0) * mu + rng.normal(size=n) * scatter
    one = np.ones(1)
    means = OutMeans(mu[:, None], np.full((n, 1), 1e-9), np.zeros((n, 1)))
    law = law_of_residuals(OutKinds(one, 0 * one, one, one), means, outputs)
    assert law.slope[0] == pytest.approx(SLOPE, abs=0.03)
    assert law.noise[0] == pytest.approx(NOISE_IN**2, abs=0.02)
    assert law.level == 0 and law.shift[0] == 0
