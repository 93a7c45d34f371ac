"""Several queries per record: what they add, and what they must not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from leakscope.array_types import FloatArray
from leakscope.attacks import EbLira, Lira, Rmia
from leakscope.attacks.base import Attack
from leakscope.attacks.spec import resolve
from leakscope.design import make_design
from leakscope.errors import InputError
from leakscope.stats.roc import auc
from leakscope.testing import check_attack
from leakscope.types import Design, Signals

ONLINE = [EbLira(queries="all"), Lira(queries="all"), Rmia(queries="all")]
OFFLINE = [replace(attack, online=False) for attack in ONLINE]
EVERYTHING = EbLira(checkpoints="all", queries="all")
ALL = [*ONLINE, *OFFLINE, EVERYTHING]


def label(attack: Attack) -> str:
    return attack.label


def population(
    design: Design, gap: float, seed: int = 0, n_queries: int = 4, own: float = 1.5, n_checkpoints: int = 1
) -> FloatArray:
    """Log-odds (models, checkpoints, records, queries): ease, gap, common noise of sd 1 and own noise."""
    rng = np.random.default_rng([seed, 7])
    ease = 2 * rng.normal(size=design.n_records)
    common = ease + gap * design.in_mask + rng.normal(size=design.in_mask.shape)
    noise = rng.normal(size=(design.n_models, n_checkpoints, design.n_records, n_queries))
    return common[:, None, :, None] + own * noise


def signals_of(queries: FloatArray) -> Signals:
    """A bank's signals, whose first query is the record itself."""
    arrays = {"log_odds": queries[..., 0], "query_log_odds": queries}
    epochs = tuple(range(1, 1 + queries.shape[1]))
    return Signals(arrays, epochs, np.zeros(queries.shape[2], dtype=np.int64))


def mean_auc(attack: Attack, queries: FloatArray, design: Design) -> float:
    scores = attack(signals_of(queries), design).values
    return float(np.mean([auc(*row) for row in zip(scores, design.in_mask, strict=True)]))


@pytest.mark.slow
@pytest.mark.parametrize("attack", ONLINE, ids=label)
def test_attacks_with_queries_keep_the_contract(attack: Attack) -> None:
    check_attack(attack)


@pytest.mark.parametrize("attack", ALL, ids=label)
def test_four_queries_reveal_more_than_one(attack: Attack) -> None:
    """Own noise of sd 1.5 beside common noise of sd 1: four queries raise the best AUC from .78 to .88."""
    design = make_design("balanced", 12, 600, 1)
    queries = population(design, 2.0, n_checkpoints=1 + attack.reads_checkpoints)
    one = replace(attack, queries="one", **({"checkpoints": "last"} if attack == EVERYTHING else {}))
    assert mean_auc(attack, queries, design) > mean_auc(one, queries, design) + 0.03


def test_eb_lira_weighs_correlated_queries_as_the_best_attack_does() -> None:
    """Five queries share noise of sd 2, which LiRA counts five times, beside one with noise of sd 1."""
    design, rng = make_design("balanced", 32, 2000, 1), np.random.default_rng(3)
    values = (2 * rng.normal(size=2000) + 1.5 * design.in_mask)[:, None, :, None]
    shared, alone = (values + rng.normal(scale=sd, size=(32, 1, 2000, 1)) for sd in (2.0, 1.0))
    queries = np.concatenate([shared + rng.normal(scale=0.05, size=(32, 1, 2000, 5)), alone], axis=3)
    best = norm.cdf(1.5 * np.sqrt(1 + 1 / 4) / np.sqrt(2))
    assert best - 0.01 < mean_auc(EbLira(queries="all"), queries, design) < best + 0.005
    assert mean_auc(Lira(queries="all"), queries, design) < best - 0.04


@pytest.mark.parametrize("attack", ALL, ids=label)
def test_a_query_that_is_repeated_or_says_nothing_changes_hardly_anything(attack: Attack) -> None:
    """Covariances are then degenerate. A mean over queries dilutes nothing where all queries are the same."""
    design = make_design("balanced", 8, 500, 1)
    once = population(design, 1.5, n_queries=1, own=0.5, n_checkpoints=1 + attack.reads_checkpoints)
    alone = mean_auc(attack, once, design)
    assert mean_auc(attack, np.repeat(once, 4, axis=3), design) == pytest.approx(alone, abs=0.002)
    beside_nothing = np.concatenate([once, np.full_like(once, 3.0)], axis=3)
    assert mean_auc(attack, beside_nothing, design) == pytest.approx(alone, abs=0.01)
    assert mean_auc(attack, np.full_like(beside_nothing, 2.0), design) == pytest.approx(0.5, abs=1e-9)


@pytest.mark.parametrize("attack", ONLINE, ids=label)
def test_one_stored_query_scores_as_one_query(attack: Attack) -> None:
    design = make_design("balanced", 8, 300, 1)
    signals = signals_of(population(design, 1.5, n_queries=1))
    one = replace(attack, queries="one")
    np.testing.assert_allclose(attack(signals, design).values, one(signals, design).values, atol=2e-4)


def test_lira_and_rmia_average_the_scores_of_single_queries() -> None:
    design = make_design("bernoulli", 9, 400, 2)
    queries = population(design, 1.0, n_queries=3)
    medians = Lira(variance="record", centre="median")
    for attack in (Lira(), Lira(online=False), medians, Rmia(temperature=2.0)):
        alone = [attack(signals_of(queries[..., q : q + 1]), design).values for q in range(3)]
        together = replace(attack, queries="all")(signals_of(queries), design).values
        np.testing.assert_allclose(together, np.mean(alone, axis=0), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n_references", [1, 2, 3])
def test_a_few_references_use_the_mean_over_queries_and_not_over_checkpoints(n_references: int) -> None:
    """Early checkpoints here say nothing: their mean with the last one would be worse than the last alone."""
    in_mask = make_design("bernoulli", 4, 4000, 2).in_mask[: 1 + n_references]
    design = Design(in_mask)
    late = population(design, 2.0)
    queries = np.concatenate([population(Design(in_mask & False), 0.0, seed=s, own=3.0) for s in (8, 9)], 1)
    queries = np.concatenate([queries, late], axis=1)

    def of_target(attack: Attack) -> float:
        return auc(attack(signals_of(queries), design, np.array([0])).values[0], in_mask[0])

    assert of_target(EVERYTHING) > of_target(EbLira()) + 0.03
    assert of_target(EVERYTHING) > of_target(EbLira(queries="all")) - 0.01


@pytest.mark.slow
@pytest.mark.parametrize("attack", ALL, ids=label)
def test_queries_reveal_nothing_of_models_that_learned_nothing(attack: Attack) -> None:
    """Half of the populations ignore the records, half learned others.

    A population's mean AUC has a standard deviation of about 0.005, hence 0.0014 over 12 of them; the limit
    is four times that.
    """
    means = []
    for seed in range(12):
        design = make_design(("balanced", "bernoulli")[seed // 2 % 2], 16 if seed > 7 else 8, 2000, seed)
        other = make_design("bernoulli", design.n_models, 2000, 1000 + seed)
        queries = population(other, 1.5 * (seed % 2), seed, own=0.7, n_checkpoints=1 + (attack == EVERYTHING))
        means.append(mean_auc(attack, queries, design))
    assert np.mean(means) == pytest.approx(0.5, abs=0.0056)


def test_a_bank_with_one_query_and_an_option_of_no_effect_are_refused() -> None:
    design = make_design("balanced", 8, 60, 1)
    only = Signals({"log_odds": population(design, 1.0)[..., 0]}, (1,), np.zeros(60, dtype=np.int64))
    with pytest.raises(InputError, match=r"eb_lira\(queries=all\).*reads several queries.*queries=4"):
        EbLira(queries="all")(only, design)
    with pytest.raises(InputError, match="queries"):
        resolve("label_only_lira(queries=all)")
    with pytest.raises(InputError, match="queries='some'"):
        resolve("lira(queries=some)")
