import numpy as np
import pytest
from scipy.special import log_expit, logsumexp

from leakscope.attacks.base_score import Base
from leakscope.attacks.rmia import Rmia
from leakscope.stats.roc import auc
from leakscope.testing import planted_bank
from leakscope.types import Design, Signals


def signals_from(log_odds):
    labels = np.zeros(np.shape(log_odds)[1], dtype=np.int64)
    return Signals({"log_odds": np.asarray(log_odds)[:, None]}, (1,), labels)


def bank(n_models=7, n_records=40, seed=0, scale=2.0):
    rng = np.random.default_rng(seed)
    in_mask = rng.random((n_models, n_records)) < 0.5
    return rng.normal(1, scale, (n_models, n_records)) + 2 * in_mask, in_mask


@pytest.mark.parametrize("scale", [2.0, 40.0])
def test_online_scores_are_those_of_the_definition(scale):
    """A scale of 40 gives likelihoods from 1 to e^-60: a sum minus its largest term would have no digits."""
    log_odds, in_mask = bank(scale=scale)
    scores = Base()(signals_from(log_odds), Design(in_mask)).values
    log_p = log_expit(log_odds / 2)
    for target in range(7):
        others = np.delete(log_p, target, axis=0)
        np.testing.assert_allclose(scores[target], log_p[target] - logsumexp(others, axis=0) + np.log(6))


def test_offline_scores_are_those_of_the_definition():
    log_odds, in_mask = bank()
    in_mask[:, 0] = True  # no OUT reference: the mean of the IN references
    scores = Base(online=False, temperature=1.0)(signals_from(log_odds), Design(in_mask)).values
    log_p = log_expit(log_odds)
    for target in range(7):
        for i in range(40):
            others = np.delete(np.arange(7), target)
            out = others[~in_mask[others, i]]
            out = out if len(out) else others
            expected = log_p[target, i] - 0.33 * (logsumexp(log_p[out, i]) - np.log(len(out)))
            assert scores[target, i] == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("kind", ["pairs", "balanced"])
def test_it_orders_records_as_rmia_with_gamma_1(kind):
    """As published, where as many references are IN as OUT."""
    signals, design = planted_bank(gap=1.0, n_models=8, n_records=300, kind=kind)
    base = Base(temperature=1.0)(signals, design).values
    rmia = Rmia(gamma=1.0, temperature=1.0)(signals, design).values
    for own, other in zip(base, rmia, strict=True):
        np.testing.assert_array_equal(own.argsort(), other.argsort())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bernoulli", "balanced", "pairs"])
def test_no_leakage_gives_one_half_with_eight_models(kind):
    """The mean over 8 targets and 5 populations of 20,000 records has a standard deviation of 0.0007."""
    aucs = {True: [], False: []}
    for seed in range(5):
        signals, design = planted_bank(gap=0.0, n_models=8, n_records=20_000, kind=kind, seed=seed)
        for online, found in aucs.items():
            scores = Base(online=online)(signals, design).values
            found += [auc(own, members) for own, members in zip(scores, design.in_mask, strict=True)]
    assert abs(np.mean(aucs[True]) - 0.5) < 0.002
    assert abs(np.mean(aucs[False]) - 0.5) < 0.002
