import numpy as np
import pytest
from scipy import stats

from leakscope.attacks.bavaria import Bavaria
from leakscope.stats.roc import auc
from leakscope.testing import planted_bank
from leakscope.types import Design, Signals

VARIANTS = [(variant, online) for variant in "nt" for online in (True, False)]


def signals_from(log_odds):
    labels = np.zeros(np.shape(log_odds)[1], dtype=np.int64)
    return Signals({"log_odds": np.asarray(log_odds)[:, None]}, (1,), labels)


def naive_log_density(s, values, prior_values, variant):
    """One record's density after the definition of a normal-inverse-gamma prior, with scipy's densities."""
    shape = {"n": 1.0, "t": 2.0}[variant]
    m0, v0, n = prior_values.mean(), prior_values.var(), len(values)
    mean = values.mean() if n else m0
    kappa, alpha = 1.0 + n, shape + n / 2
    beta = v0 + 0.5 * ((values - mean) ** 2).sum() + 0.5 * n * (mean - m0) ** 2 / kappa
    if variant == "n":
        return stats.norm.logpdf(s, mean, np.sqrt(beta / (alpha - 1) if alpha > 1 else beta))
    centre = (m0 + values.sum()) / kappa
    return stats.t.logpdf(s, 2 * alpha, centre, np.sqrt(beta * (kappa + 1) / (alpha * kappa)))


def naive_score(log_odds, in_mask, target, record, variant, online):
    others = np.delete(np.arange(len(log_odds)), target)
    values, mask = log_odds[others], in_mask[others]
    s, own = log_odds[target, record], mask[:, record]
    of_in = values[own, record] if online else np.empty(0)
    as_in = naive_log_density(s, of_in, values[mask], variant)
    return as_in - naive_log_density(s, values[~own, record], values[~mask], variant)


@pytest.mark.parametrize(("variant", "online"), VARIANTS)
def test_scores_are_those_of_the_definition(variant, online):
    rng = np.random.default_rng(3)
    in_mask = rng.random((7, 40)) < 0.5
    in_mask[:, 0], in_mask[:, 1] = True, False  # records with one side only
    log_odds = rng.normal(2, 1.5, (7, 40)) + in_mask * rng.gamma(1.0, 2.0, 40)
    scores = Bavaria(variant, online)(signals_from(log_odds), Design(in_mask)).values
    expected = [[naive_score(log_odds, in_mask, m, i, variant, online) for i in range(40)] for m in range(7)]
    np.testing.assert_allclose(scores, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("variant", "nt")
def test_references_that_saw_no_record_still_detect_members(variant):
    """OUT references only, as for a given model: the IN prior is then the target's own outputs."""
    signals, design = planted_bank(gap=3.0, n_models=7, n_records=600)
    in_mask = design.in_mask.copy()
    in_mask[1:] = False
    outputs = planted_bank(gap=0.0, n_models=7, n_records=600).signals.arrays["log_odds"].copy()
    outputs[0] = signals.arrays["log_odds"][0]
    scores = Bavaria(variant, online=False)(
        Signals({"log_odds": outputs}, (1,), signals.labels), Design(in_mask), np.array([0])
    ).values[0]
    assert auc(scores, in_mask[0]) > 0.75


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bernoulli", "balanced", "pairs"])
def test_no_leakage_gives_one_half_with_eight_models(kind):
    """The mean over 8 targets and 5 populations of 20,000 records has a standard deviation of 0.0007."""
    aucs = {case: [] for case in VARIANTS}
    for seed in range(5):
        signals, design = planted_bank(gap=0.0, n_models=8, n_records=20_000, kind=kind, seed=seed)
        for case in VARIANTS:
            scores = Bavaria(*case)(signals, design).values
            aucs[case] += [auc(own, members) for own, members in zip(scores, design.in_mask, strict=True)]
    assert {case: abs(np.mean(found) - 0.5) < 0.002 for case, found in aucs.items()} == dict.fromkeys(
        VARIANTS, True
    )


@pytest.mark.parametrize(("variant", "online"), VARIANTS)
def test_equal_outputs_differ_by_the_number_of_references_only(variant, online):
    in_mask = np.random.default_rng(0).random((6, 30)) < 0.5
    scores = Bavaria(variant, online)(
        signals_from(np.full((6, 30), 4.0)), Design(in_mask), np.array([0])
    ).values[0]
    n_in = in_mask[1:].sum(axis=0)
    assert np.isfinite(scores).all()
    assert all(np.ptp(scores[n_in == n]) == 0 for n in np.unique(n_in))
