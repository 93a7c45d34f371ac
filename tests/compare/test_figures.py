"""The figures of a comparison and their intervals, against naive references and by coverage."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from leakscope.attacks.spec import resolve
from leakscope.bank.bank import Bank
from leakscope.compare.compare import Comparison, outcome
from leakscope.compare.figures import population_figures
from leakscope.compare.records import paired_share_interval
from leakscope.compare.results import LeakageDifference
from leakscope.compare.spec import ComparisonSpec
from leakscope.design import make_design
from leakscope.stats.roc import auc
from leakscope.types import Signals
from tests.made_up_audits import N_MODELS, N_RECORDS


def aucs_by_target(scores: np.ndarray, in_mask: np.ndarray) -> np.ndarray:
    return np.array([auc(row, members) for row, members in zip(scores, in_mask, strict=True)])


def test_the_interval_is_that_of_models_left_out_in_pairs(audits: Path, helped: Comparison) -> None:
    """A naive reference: score both banks again without each model, and take the t interval."""

    def lira_auc(bank: Bank, models: np.ndarray) -> float:
        signals, design = bank.signals().take(models), bank.design().take(models)
        return float(np.mean(aucs_by_target(resolve("lira")(signals, design).values, design.in_mask)))

    everyone = np.arange(N_MODELS)
    banks = [Bank.open(audits / name) for name in ("leaky", "defended")]
    without = np.array(
        [
            lira_auc(banks[1], np.delete(everyone, m)) - lira_auc(banks[0], np.delete(everyone, m))
            for m in everyone
        ]
    )
    value = lira_auc(banks[1], everyone) - lira_auc(banks[0], everyone)
    half_width = stats.t.ppf(0.975, 15) * np.sqrt(15 / 16 * ((without - without.mean()) ** 2).sum())
    figure = helped.results.comparisons[0].auc_of("lira")
    assert figure.difference == pytest.approx(value)
    assert (figure.low, figure.high) == pytest.approx((value - half_width, value + half_width))
    assert figure.low is not None and figure.high is not None
    assert figure.simultaneous_low is not None and figure.simultaneous_low < figure.low
    assert figure.simultaneous_high is not None and figure.simultaneous_high > figure.high


def test_outcomes() -> None:
    unresolved = LeakageDifference(
        0.5, 0.5, 0.0, -0.1, 0.1, "t", "auc", "lira", None, -0.2, 0.2, "unresolved"
    )
    lower, higher = replace(unresolved, outcome="lower"), replace(unresolved, outcome="higher")
    assert outcome([lower, unresolved]) == "helped"
    assert outcome([higher, unresolved]) == "worse"
    assert outcome([higher, lower]) == "mixed"
    assert outcome([unresolved]) == "no difference"


def test_the_share_interval_covers_as_it_says() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        only_first, only_second = rng.multinomial(80, (0.1, 0.2, 0.7))[:2]
        low, high = paired_share_interval(int(only_first), int(only_second), 80)
        covered += low <= 0.1 <= high
    assert 0.92 <= covered / 400 <= 0.99


@pytest.mark.parametrize(("attack", "allowed"), [("lira", 0.01), ("bavaria", 0.015)])
def test_noise_does_not_look_like_leakage_where_models_diverged(attack: str, allowed: float) -> None:
    """The standard error is below a third of what is allowed; without the memberships of the models that
    diverged, the AUC is 0.485 for LiRA and 0.41 for BaVarIA.
    """
    spec, diverged = ComparisonSpec((resolve(attack),), (), strongest_attack=attack), (8, 9, 10, 11)
    aucs = []
    for seed in range(8):
        design, rng = make_design("balanced", 12, 1_500, seed), np.random.default_rng(seed)
        log_odds = 1.5 * rng.normal(size=1_500) + rng.normal(size=(12, 1, 1_500))
        signals = Signals({"log_odds": log_odds}, (1,), np.zeros(1_500, dtype=np.int64))
        with pytest.MonkeyPatch.context() as patch:  # the AUC alone, without its spread over models
            patch.setattr("leakscope.compare.figures.model_groups", lambda *_: [])
            aucs.append(population_figures(signals, design, spec, {}, diverged, {}).figures[0])
    assert np.mean(aucs) == pytest.approx(0.5, abs=allowed)


@pytest.mark.slow
def test_a_t_interval_over_targets_would_be_too_narrow_and_the_jackknife_is_not() -> None:
    """Targets share their reference models, so LiRA's mean AUC varies more than the targets suggest."""
    lira = resolve("lira")
    spec = ComparisonSpec((lira,), (), strongest_attack="lira")
    means, over_targets, over_groups = [], [], []
    difficulty = np.random.default_rng(0).normal(size=N_RECORDS)
    for seed in range(60):
        design = make_design("balanced", 8, N_RECORDS, seed)
        noise = np.random.default_rng([seed, 1]).normal(size=design.in_mask.shape)
        log_odds = difficulty + design.in_mask + noise
        signals = Signals({"log_odds": log_odds[:, None]}, (1,), np.zeros(N_RECORDS, dtype=np.int64))
        by_target = aucs_by_target(lira(signals, design).values, design.in_mask)
        replicated = population_figures(signals, design, spec, {}, (), {})
        means.append(replicated.figures[0])
        over_targets.append(by_target.var(ddof=1) / 8)
        over_groups.append(replicated.variance[0])
        assert replicated.figures[0] == pytest.approx(by_target.mean())
    spread = np.std(means, ddof=1)
    assert spread > 1.15 * np.sqrt(np.mean(over_targets))
    assert spread < 1.05 * np.sqrt(np.mean(over_groups))
