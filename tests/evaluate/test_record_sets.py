"""Sets of records: pooled figures against naive ones, and a choice of records that flatters nobody."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from leakscope.array_types import FloatArray, IntArray
from leakscope.attacks.base import Attack
from leakscope.attacks.lira import Lira
from leakscope.attacks.spec import resolve_all
from leakscope.attacks.thresholds import LossThreshold
from leakscope.design import make_design
from leakscope.disk.scratch import IN_MEMORY
from leakscope.evaluate.most_exposed import most_exposed_records
from leakscope.evaluate.record_sets import figures_in_set, strongest_in_set
from leakscope.evaluate.results import SetFigures
from leakscope.evaluate.set_scores import RecordSet, SetScores
from leakscope.evaluate.uncertainty import Sample
from leakscope.stats.roc import split_scores
from leakscope.stats.roc_summary import tpr_at_expected_fpr
from leakscope.types import Design, Signals

FPRS = (0.1, 0.01, 0.0001)


def population(
    seed: int,
    models: int = 16,
    records: int = 1000,
    kind: str = "balanced",
    leak: float = 0.0,
    n_leaking: int = 0,
) -> tuple[Signals, Design]:
    """Log-odds with a level and a spread of each record; `leak` standard deviations on the first records."""
    rng = np.random.default_rng(seed)
    design = make_design(kind, models, records, seed)
    log_odds = rng.normal(size=(models, records)) + leak * design.in_mask * (np.arange(records) < n_leaking)
    log_odds = (
        log_odds * rng.gamma(3, 0.4, records) + rng.normal(0, 2, records) + rng.normal(0, 0.5, (models, 1))
    )
    arrays = {"log_odds": log_odds[:, None], "loss": np.logaddexp(0, -log_odds)[:, None]}
    return Signals(arrays, (1,), rng.integers(0, 2, records)), design


def chosen_records(signals: Signals, design: Design) -> IntArray:
    chosen, reason = most_exposed_records(signals, design, np.arange(design.n_models), IN_MEMORY)
    assert chosen is not None and reason is None
    return chosen


def scores_on(chosen: IntArray, attack: Attack, signals: Signals, design: Design) -> SetScores:
    targets = np.arange(design.n_models)
    sample = Sample.of(signals, design, targets)
    scores = attack(signals, design).values
    return SetScores.of(chosen, scores, design.in_mask, sample.replicates(attack), sample.units)


def measured(chosen: IntArray, attack: Attack, signals: Signals, design: Design) -> SetFigures:
    return figures_in_set(attack.label, RecordSet(chosen), scores_on(chosen, attack, signals, design), FPRS)


def pooled(array: np.ndarray, chosen: IntArray) -> np.ndarray:
    return np.take_along_axis(array, chosen, 1).reshape(-1)


@pytest.mark.parametrize("attack", [Lira(), LossThreshold()])
def test_figures_of_a_set_are_those_of_its_pairs(attack: Attack) -> None:
    signals, design = population(3, leak=1.0, n_leaking=500)
    rng = np.random.default_rng(0)
    chosen = np.stack([rng.choice(1000, 40, replace=False) for _ in range(16)])
    figures = measured(chosen, attack, signals, design)
    scores, members = pooled(attack(signals, design).values, chosen), pooled(design.in_mask, chosen)
    assert figures.auc.value == pytest.approx(roc_auc_score(members, scores), abs=1e-12)
    sides = split_scores(scores, members)
    for point, fpr in zip(figures.tpr_at_fpr[:2], FPRS, strict=False):
        assert point.value == pytest.approx(tpr_at_expected_fpr(sides, fpr), abs=1e-12)
    assert np.isnan(figures.tpr_at_fpr[2].value or 0)
    assert "over all targets" in str(figures.tpr_at_fpr[2].reason)
    for figure in (figures.auc, figures.advantage, *figures.tpr_at_fpr[:2]):
        ends = (figure.low, figure.these_low, figure.value, figure.these_high, figure.high)
        assert all(a is not None and b is not None and a <= b + 1e-9 for a, b in pairwise(ends))


def mean_and_error(values: list[float]) -> tuple[float, float]:
    return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))


@pytest.mark.parametrize("kind", ["balanced", "bernoulli", "pairs"])
def test_where_nothing_leaks_the_most_exposed_records_show_nothing(kind: str) -> None:
    """Fifty populations; a choice by the scores themselves, which the test would catch, shows plenty."""
    honest, flattering = [], []
    for seed in range(50):
        signals, design = population(seed, kind=kind)
        scores, mask = Lira()(signals, design).values, design.in_mask
        chosen = chosen_records(signals, design)
        honest.append(roc_auc_score(pooled(mask, chosen), pooled(scores, chosen)))
        evidence = np.where(mask, scores, -scores).mean(axis=0)
        top = np.tile(np.argsort(evidence)[-10:], (len(mask), 1))
        flattering.append(roc_auc_score(pooled(mask, top), pooled(scores, top)))
    mean, error = mean_and_error(honest)
    assert abs(mean - 0.5) < 3.5 * error and error < 0.015
    assert np.mean(flattering) > 0.7


@pytest.mark.slow
def test_intervals_of_the_most_exposed_hold_one_half_where_nothing_leaks() -> None:
    """At least 84% of fifty: a 95% interval holds in fewer with a probability below 0.3%."""
    held: FloatArray = np.zeros((50, 4))
    for seed in range(50):
        signals, design = population(seed)
        chosen = chosen_records(signals, design)
        for at, attack in enumerate((Lira(), LossThreshold())):
            auc = measured(chosen, attack, signals, design).auc
            assert None not in (auc.low, auc.high, auc.these_low, auc.these_high)
            held[seed, 2 * at : 2 * at + 2] = (
                auc.low <= 0.5 <= auc.high,  # type: ignore[operator]
                auc.these_low <= 0.5 <= auc.these_high,  # type: ignore[operator]
            )
    assert (held.mean(axis=0) >= 0.84).all(), held.mean(axis=0)


def test_a_few_leaking_records_are_chosen_and_their_exposure_is_measured() -> None:
    """Ten records in a thousand leak: the population hides them, the most exposed 1% shows them."""
    signals, design = population(1, models=32, leak=3.0, n_leaking=10)
    chosen = chosen_records(signals, design)
    assert (chosen < 10).mean() > 0.8
    figures, scores = measured(chosen, Lira(), signals, design), Lira()(signals, design).values
    everyone = np.mean([roc_auc_score(*pair) for pair in zip(design.in_mask, scores, strict=True)])
    assert everyone < 0.53 and figures.auc.low is not None and figures.auc.low > 0.8


def test_neither_outputs_nor_membership_of_a_target_has_a_part_in_its_records() -> None:
    signals, design = population(2)
    target, others = np.array([5]), np.setdiff1d(np.arange(16), 5)
    before = most_exposed_records(signals, design, target, IN_MEMORY).records
    log_odds = signals.arrays["log_odds"].copy()
    log_odds[5] = np.random.default_rng(9).normal(0, 50, log_odds[5].shape)
    changed = Signals({"log_odds": log_odds}, (1,), signals.labels)
    after = most_exposed_records(changed, design, target, IN_MEMORY).records
    assert before is not None and after is not None and (before == after).all()
    # In a balanced design, partners depend on the membership; with independent memberships nothing does.
    signals, design = population(2, kind="bernoulli")
    mask = design.in_mask.copy()
    mask[5] = ~mask[5]
    first, second = (
        most_exposed_records(signals, one, target, IN_MEMORY).records for one in (design, Design(mask))
    )
    assert first is not None and second is not None and (first == second).all()
    assert len(others) == 15


@pytest.mark.slow
def test_the_choice_among_attacks_is_paid_for() -> None:
    """Of five attacks that know nothing, the best looks good on the records it was chosen on."""
    chosen = np.tile(np.arange(40), (16, 1))
    attacks = resolve_all(["lira", "loss", "reference", "calibrated", "lira(variance=record)"])
    paid, unpaid = [], []
    for seed in range(40):
        signals, design = population(seed, records=200)
        scores: dict[str, SetScores | None] = {
            attack.label: scores_on(chosen, attack, signals, design) for attack in attacks
        }
        records = RecordSet(chosen)
        paid.append(strongest_in_set(records, scores, (0.1,)).auc.value or 0)
        each = [figures_in_set(label, records, own, (0.1,)).auc.value or 0 for label, own in scores.items()]
        unpaid.append(max(each))
    mean, error = mean_and_error(paid)
    assert abs(mean - 0.5) < 3.5 * error
    assert np.mean(unpaid) > 0.5 + 3.5 * error


def test_sets_that_are_too_small_and_models_that_are_too_few_are_not_measured() -> None:
    few = RecordSet(np.zeros((16, 9), np.int64))
    assert few.why_not == "9 records are too few to measure; it takes at least 10"
    figures = figures_in_set("lira", few, None, FPRS)
    assert np.isnan(figures.auc.value or 0) and figures.reason == few.why_not
    signals, design = population(0, models=6)
    chosen = most_exposed_records(signals, design, np.arange(6), IN_MEMORY)
    assert chosen.records is None and "takes at least 8 models, not 6" in str(chosen.reason)
    without = Signals({"loss": signals.arrays["loss"]}, (1,), signals.labels)
    assert "log_odds" in str(most_exposed_records(without, design, np.arange(6), IN_MEMORY).reason)


def test_references_that_saw_no_record_choose_no_most_exposed_ones() -> None:
    """The target's own members do not count: it has no part in the choice."""
    signals, design = population(0, models=10)
    alone = Design(design.in_mask & (np.arange(10) == 0)[:, None])
    chosen = most_exposed_records(signals, alone, np.array([0]), IN_MEMORY)
    assert chosen.records is None and "trained with some of the records, and none was" in str(chosen.reason)
