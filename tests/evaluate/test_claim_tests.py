"""A true claim is rarely refuted, a wrong one is, and few models say nothing."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakscope.privacy.claim import Claim

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "dp_claim_validity.py"
SIMULATED = runpy.run_path(str(BENCHMARK))
POPULATION = "population, Gaussian, epsilon 4"
NONE = np.empty(0, np.int64)


def simulated(n_models: int, n_records: int, claim: Claim, factor: float = 1.0, seed: int = 0) -> Any:
    return SIMULATED["population"](SIMULATED["gaussian"], claim, factor, (n_models, n_records), seed)


def status(bank: Any, claim: Claim, canaries: np.ndarray = NONE) -> str:
    return str(SIMULATED["figures_of_claim"](bank, claim, None, canaries).verdict.status)


@pytest.mark.slow
@pytest.mark.parametrize("row", SIMULATED["ROWS"])
def test_true_claims_at_the_boundary_are_rarely_refuted(row: str) -> None:
    """Of 60, 8 or more have a probability of 1% at a rate of 5%; benchmarks/dp_claim_validity.py has 500."""
    assert SIMULATED["share_refuted"](row, 1.0, 60) < 8 / 60


def test_a_wrong_claim_is_refuted() -> None:
    claim = Claim(4.0, tradeoff="gaussian")
    assert status(simulated(64, 20, claim, factor=20.0), claim) == "refuted"


def test_few_models_are_not_called_consistent() -> None:
    claim = Claim(4.0)
    assert status(simulated(6, 200, claim), claim) == "not testable"
    assert status(simulated(16, 1, claim), claim) == "not testable"
    figures = SIMULATED["figures_of_claim"](simulated(6, 200, claim), claim, None, NONE)
    assert figures.power == 0
    assert "models" in figures.verdict.needed


def test_a_large_delta_is_not_testable() -> None:
    claim = Claim(1.0, delta=0.2)
    assert status(simulated(16, 20, claim), claim) == "not testable"


def test_only_canaries_are_guessed_about() -> None:
    claim = Claim(4.0, tradeoff="gaussian")
    bank = simulated(64, 20, claim, factor=20.0)
    rng = np.random.default_rng(0)
    bank.outputs[:, :5] = rng.normal(size=(64, 5))  # the canaries leak nothing
    assert status(bank, claim, np.arange(5)) == "consistent"
    assert status(bank, claim) == "refuted"


def test_a_model_that_diverged_says_nothing_and_breaks_nothing() -> None:
    claim = Claim(4.0, tradeoff="gaussian")
    bank = simulated(64, 20, claim, factor=20.0)
    bank.outputs[[2, 3, 5]] = np.nan
    diverged = SIMULATED["SimulatedBank"](bank.outputs, bank.in_mask, {2: 1, 3: 1, 5: 1})
    figures = SIMULATED["figures_of_claim"](diverged, claim, None, NONE)
    assert figures.verdict.status == "refuted"
    assert {evidence.runs for evidence in figures.verdict.evidence} == {32}


def test_the_coins_of_tested_models_do_not_change_their_scores() -> None:
    """With other coins for the tested half, bounds change and the choice of records does not."""
    claim = Claim(4.0, tradeoff="gaussian")
    bank = simulated(64, 20, claim, factor=20.0)
    bank.in_mask[1::2] = ~bank.in_mask[1::2]
    assert status(bank, claim) == "consistent"
