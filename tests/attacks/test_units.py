"""Scores of units: how those of their records combine, and that the design does not give members away."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from leakscope.attacks import Attack, EbLira, Lira, LossThreshold, Rmia
from leakscope.attacks.blocks import Blocks
from leakscope.attacks.registry import attack_classes
from leakscope.design import make_design, number_units
from leakscope.signals.registry import CLASSIFICATION
from leakscope.stats.roc import auc
from leakscope.testing.attack_contract import planted_bank
from leakscope.types import Design, Signals


def unequal_units(n_units: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    sizes = np.minimum(rng.geometric(0.3, n_units), 12)
    return number_units(rng.permutation(np.repeat(np.arange(n_units), sizes)).astype(np.str_))


def bank(
    gap: float, correlation: float, seed: int, n_units: int = 60, n_models: int = 8
) -> tuple[Signals, Design]:
    """Log-odds whose noise is partly the unit's own; members' are higher, by `gap` on average."""
    rng, units = np.random.default_rng([seed, 1]), unequal_units(n_units, seed)
    design = make_design("balanced", n_models, len(units), seed, units=units)
    shared = rng.normal(size=(n_models, n_units))[:, units]
    noise = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * rng.normal(size=design.in_mask.shape)
    gaps = gap * rng.gamma(0.5, 2, len(units))
    log_odds = (rng.normal(2, 1.5, len(units)) + noise + gaps * design.in_mask).astype(np.float32)[:, None]
    arrays = {"log_odds": log_odds, "loss": np.logaddexp(0, -log_odds)}
    return Signals(arrays, (1,), np.arange(len(units)) % 2), design


def mean_auc(attack: Attack, signals: Signals, design: Design) -> float:
    scores = attack(signals, design).values
    return float(np.mean([auc(*row) for row in zip(scores, design.of_units.in_mask, strict=True)]))


@pytest.mark.parametrize("attack", [EbLira(), Lira(), LossThreshold(), Rmia()])
def test_log_ratios_add_up_and_other_scores_are_averaged(attack: Attack) -> None:
    signals, design = bank(1.0, 0.5, seed=0)
    assert design.units is not None
    # With complementary models the partner is the same for every record, with units or without.
    design = replace(make_design("pairs", 8, design.n_records, 0, units=design.units))
    of_records = attack(signals, replace(design, units=None)).values
    of_units = attack(signals, design).values
    combine = np.sum if attack.is_log_ratio else np.mean
    for unit in range(design.of_units.n_records):
        own = of_records[:, design.units == unit]
        np.testing.assert_allclose(of_units[:, unit], combine(own, axis=1), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", sorted(attack_classes()))
def test_units_of_one_record_each_have_the_scores_of_their_records(name: str) -> None:
    attack = attack_classes()[name]()
    needs = attack.reads(CLASSIFICATION)
    if not needs:
        pytest.skip("it attacks regression models only")
    signals, design = planted_bank(1.0, 6, 40, "balanced", needs=needs)
    alone = replace(design, units=np.arange(design.n_records))
    np.testing.assert_array_equal(attack(signals, alone).values, attack(signals, design).values)


def test_infinite_scores_of_both_signs_have_a_sum() -> None:
    class Extreme(LossThreshold):
        name = "extreme"

        def score(self, block):
            return np.where(np.arange(block.in_mask.shape[1]) % 2, np.inf, -np.inf)[None].repeat(8, axis=0)

    signals, design = bank(0.0, 0.0, seed=1)
    assert np.isfinite(Extreme()(signals, design).values).all()


def test_all_records_of_a_unit_are_scored_without_the_same_partner() -> None:
    signals, design = bank(0.0, 0.0, seed=2)
    partners = Blocks(signals, design, np.arange(8), ("log_odds",)).whole().partners
    assert partners is not None and design.units is not None
    for unit in range(design.of_units.n_records):
        own = partners[:, design.units == unit]
        assert (own == own[:, :1]).all()


def is_chance(aucs: list[float]) -> bool:
    """Whether a mean over populations lies within four standard errors of guessing."""
    return bool(abs(np.mean(aucs) - 0.5) < 4 * np.std(aucs, ddof=1) / np.sqrt(len(aucs)))


@pytest.mark.parametrize("attack", [LossThreshold(), Lira(), Lira(variance="record"), EbLira()])
def test_units_that_leak_nothing_look_so(attack: Attack) -> None:
    assert is_chance([mean_auc(attack, *bank(0.0, 0.8, seed)) for seed in range(16)])


def test_a_partner_of_its_own_for_each_record_would_look_like_leakage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Why records share a partner: over draws, the variances of one side are larger than those of the other.

    Over 300 populations of 100 units with 10 records each, the mean AUC was 0.577; with one partner, 0.501.
    """

    def own_numbers(blocks: Blocks, records: slice) -> np.ndarray:
        return np.arange(blocks.design.n_records)[records]

    attack = Lira(variance="record")
    assert is_chance([mean_auc(attack, *bank(0.0, 1.0, seed)) for seed in range(30)])
    monkeypatch.setattr(Blocks, "unit_numbers", own_numbers)
    apart = [mean_auc(attack, *bank(0.0, 1.0, seed)) for seed in range(30)]
    assert np.mean(apart) > 0.52 and not is_chance(apart)


def test_scores_of_units_are_stronger_than_an_attack_on_their_mean_outputs() -> None:
    """Most records give little away and a few much; a mean output hides the few among the many."""
    signals, design = bank(0.5, 0.3, seed=3, n_units=200, n_models=16)
    assert design.units is not None
    sizes = np.bincount(design.units)
    means = {
        name: (np.stack([np.bincount(design.units, weights=row[0]) for row in values]) / sizes)[:, None]
        for name, values in signals.arrays.items()
    }
    of_means = Signals(means, (1,), np.arange(len(sizes)) % 2)
    assert mean_auc(EbLira(), signals, design) > mean_auc(EbLira(), of_means, design.of_units) + 0.03
