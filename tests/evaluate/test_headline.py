"""The headline among attacks that model luck alone ranks: measured on other models than it was chosen on."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from leakscope.design import make_design
from leakscope.evaluate.attack_figures import Scored
from leakscope.evaluate.headline import HalfAucs, chosen_elsewhere, half_aucs, strongest
from leakscope.evaluate.record_sets import strongest_in_set
from leakscope.evaluate.results import Figure
from leakscope.evaluate.set_scores import RecordSet, SetScores
from leakscope.evaluate.uncertainty import LeftOut, Sample
from leakscope.types import Signals

N_MODELS, N_RECORDS, LUCK = 16, 200, 0.3


def population(rng: np.random.Generator, shifts: list[float]) -> tuple[dict[str, HalfAucs], LeftOut]:
    """One attack per shift of the members' scores; each model adds luck of its own, common to all records."""
    design = make_design("balanced", N_MODELS, N_RECORDS, int(rng.integers(2**31)))
    nothing = {"loss": np.zeros((N_MODELS, 1, N_RECORDS), dtype=np.float32)}
    signals = Signals(nothing, (1,), np.zeros(N_RECORDS, dtype=np.int64))
    sample, aucs = Sample.of(signals, design, np.arange(N_MODELS)), {}
    for shift in shifts:
        luck = shift + LUCK * rng.normal(size=(N_MODELS, 1))
        scores = rng.normal(size=design.in_mask.shape) + luck * design.in_mask
        replicates = sample.replicates_of(scores)
        aucs[f"attack {len(aucs)}"] = half_aucs(Scored(scores, design.in_mask, replicates, sample.units))
    return aucs, replicates.left_out


def headlines(seed: int, shifts: list[float], n: int = 120) -> list[Figure]:
    rng = np.random.default_rng(seed)
    return [strongest(*population(rng, shifts), N_RECORDS)[1] for _ in range(n)]


@pytest.mark.parametrize(
    "shifts", [[0.5] * 6, [0.5] + [0.42] * 5, [0.0] * 6], ids=["equal", "nearly equal", "no leakage"]
)
def test_the_interval_holds_the_strongest_attack(shifts: list[float]) -> None:
    truth, found = ndtr(max(shifts) / np.sqrt(2 + LUCK**2)), headlines(11, shifts)
    most = (0.025 + 3 * np.sqrt(0.025 * 0.975 / len(found))) * len(found)
    assert all(one.these_low is not None and one.these_high is not None for one in found)
    assert sum(one.these_low is not None and one.these_low > truth for one in found) <= most
    assert sum(one.these_high is not None and one.these_high < truth for one in found) <= most
    assert all(one.high_99 is not None and one.high_99 >= one.high >= one.value for one in found)


def test_luck_that_models_share_between_records_does_not_raise_the_headline() -> None:
    values = np.array([one.value for one in headlines(12, [0.5] * 6)])
    deviation = values.mean() - ndtr(0.5 / np.sqrt(2 + LUCK**2))
    assert abs(deviation) <= 4 * values.std(ddof=1) / np.sqrt(len(values))


def test_no_model_and_no_record_takes_part_in_the_choice_it_is_measured_with() -> None:
    aucs, _ = population(np.random.default_rng(13), [0.5, 0.5, 0.5])
    chosen, half = chosen_elsewhere(aucs), next(iter(aucs.values())).model_half
    assert sorted(np.bincount(half)) == [N_MODELS // 2, N_MODELS // 2]
    for side in (0, 1):
        own = {label: one._replace(of_targets=one.of_targets.copy()) for label, one in aucs.items()}
        own["attack 2"].of_targets[0, half == side] = 1.0  # of these records and models alone
        again = chosen_elsewhere(own)
        np.testing.assert_array_equal(again[0], chosen[0])
        np.testing.assert_array_equal(again[1, half == side], chosen[1, half == side])
        assert (again[1, half != side] == 2).all()


def test_luck_that_models_share_between_records_does_not_raise_the_figures_of_a_set() -> None:
    """Four equal attacks on 40 canaries; chosen on other canaries alone, the mean AUC was 0.02 too high."""
    rng, n_canaries, values = np.random.default_rng(14), 40, []
    chosen = np.tile(np.arange(n_canaries), (N_MODELS, 1))
    nothing = {"loss": np.zeros((N_MODELS, 1, n_canaries), dtype=np.float32)}
    signals = Signals(nothing, (1,), np.zeros(n_canaries, dtype=np.int64))
    for _ in range(60):
        design = make_design("balanced", N_MODELS, n_canaries, int(rng.integers(2**31)))
        sample, scores = Sample.of(signals, design, np.arange(N_MODELS)), {}
        shared = rng.normal(size=design.in_mask.shape)
        for attack in range(4):
            own = (shared + rng.normal(size=shared.shape)) / np.sqrt(2)
            own += (0.7 + 0.4 * rng.normal(size=(N_MODELS, 1))) * design.in_mask
            replicates = sample.replicates_of(own)
            scores[f"attack {attack}"] = SetScores.of(chosen, own, design.in_mask, replicates, sample.units)
        values.append(strongest_in_set(RecordSet(chosen), scores, (0.1,)).auc.value)
    truth = ndtr(0.7 / np.sqrt(2 + 0.4**2))
    assert abs(np.mean(values) - truth) <= 3 * np.std(values, ddof=1) / np.sqrt(len(values))


@pytest.mark.parametrize("n_undefined", [1, N_MODELS])
def test_a_target_without_members_in_a_half_changes_no_choice(n_undefined: int) -> None:
    aucs, left_out = population(np.random.default_rng(14), [0.0, 1.5])
    for one in aucs.values():
        one.of_targets[0, :n_undefined] = np.nan
    label, headline = strongest(aucs, left_out, N_RECORDS)
    if n_undefined == N_MODELS:
        assert np.isnan(headline.value)
        return
    assert label == "attack 1" and (chosen_elsewhere(aucs) == 1).all()
    expected = aucs["attack 1"].of_targets.mean(axis=0)[n_undefined:].mean()
    assert headline.value == pytest.approx(expected)
