"""Figures of one attack against naive references; conventions are kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from leakscope.array_types import BoolArray, FloatArray
from leakscope.attacks.spec import resolve
from leakscope.attacks.thresholds import LossThreshold
from leakscope.design import make_design
from leakscope.disk.scratch import IN_MEMORY, Scratch, small_blocks
from leakscope.errors import InputError
from leakscope.evaluate import every_attack
from leakscope.evaluate.attack_figures import Groups, Scored, attack_figures, curve_figures
from leakscope.evaluate.config import EvaluationConfig
from leakscope.evaluate.figure import UNDEFINED
from leakscope.evaluate.record_sets import figures_in_set
from leakscope.evaluate.results import AttackFigures, SetFigures
from leakscope.evaluate.set_scores import RecordSet
from leakscope.evaluate.uncertainty import Sample
from leakscope.stats.epsilon import epsilon_of_split
from leakscope.stats.groups import Grouping
from leakscope.stats.roc import auc, split_scores
from leakscope.types import Design, Signals
from tests.made_up_audits import made_up_audit

CONFIG = EvaluationConfig("records", ("loss",), (0.1, 0.0001))


def scored(n_targets: int, shift: float = 1.0, seed: int = 0, n: int = 600) -> tuple[FloatArray, BoolArray]:
    """Gaussian scores, members `shift` higher."""
    rng = np.random.default_rng(seed)
    in_mask = rng.random((n_targets, n)) < 0.5
    return rng.normal(size=in_mask.shape) + shift * in_mask, in_mask


def figures(
    scores: FloatArray,
    in_mask: BoolArray,
    config: EvaluationConfig = CONFIG,
    groups: Groups | None = None,
    scratch: Scratch = IN_MEMORY,
) -> AttackFigures:
    """Figures of scores that use no reference models."""
    most_exposed = figures_in_set("loss", RecordSet(None, "not chosen"), None, ())
    return attack_figures(
        without_references(scores, in_mask), config, groups or {}, most_exposed, scratch=scratch
    )


def without_references(scores: FloatArray, in_mask: BoolArray) -> Scored:
    """The evidence of such scores."""
    signals = Signals({"loss": -scores[:, None]}, (1,), np.zeros(scores.shape[1]))
    sample = Sample.of(signals, Design(in_mask), np.arange(len(scores)))
    return Scored(scores, in_mask, sample.replicates(LossThreshold()), sample.units)


@pytest.mark.parametrize("n_targets", [1, 8])
def test_figures_of_curves_alone_are_those_among_all(n_targets: int) -> None:
    scores, in_mask = scored(n_targets)
    among_all = figures(scores, in_mask)
    alone = curve_figures(without_references(scores, in_mask), CONFIG.fpr_budgets)
    assert (alone.auc, alone.advantage) == (among_all.auc, among_all.advantage)
    for own, tpr in zip(alone.tprs, among_all.tpr_at_fpr, strict=True):
        of_figure = {name: getattr(tpr, name) for name in vars(own)}
        assert of_figure == pytest.approx(vars(own), nan_ok=True)


def test_where_no_direction_is_certain_the_other_has_figures_of_curves_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gate reads the ends of these; calibrated rates, bounds on epsilon and groups would take longer."""
    counted = []

    def counting(*args: object, **options: object) -> AttackFigures:
        counted.append(args)
        return attack_figures(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(every_attack, "attack_figures", counting)
    monkeypatch.setattr(every_attack, "are_small", lambda *_: False)  # one process does it all
    verdict = made_up_audit(tmp_path / "run", 0.0, attacks=("loss",))
    auc = verdict.results.attacks["loss"].auc
    assert auc.low is not None and auc.low < 0.5 and auc.high_99 is not None and auc.high_99 > 0.5
    assert len(counted) == 1


def test_calibrated_thresholds_reach_about_the_fpr_they_aim_at() -> None:
    scores, in_mask = scored(8)
    tenth, tiny = figures(scores, in_mask).calibrated
    assert tenth.fpr.value == pytest.approx(0.1, abs=0.02)
    assert tenth.tpr.value == pytest.approx(0.39, abs=0.04)  # 1 - Phi(1.2816 - 1)
    assert np.isnan(tiny.fpr.value)
    assert "below 1/" in tiny.reason


@pytest.mark.parametrize("n_targets", [1, 6])
def test_outputs_that_tie_hide_no_leakage(n_targets: int) -> None:
    """Two in five members share the highest score with slightly more non-members than the FPR allows."""
    rng = np.random.default_rng(1)
    in_mask = np.tile(np.arange(6_000) % 2 == 0, (n_targets, 1))
    is_top = rng.random(in_mask.shape) < np.where(in_mask, 0.4, 0.012)
    found = figures(is_top.astype(float), in_mask, replace(CONFIG, fpr_budgets=(0.01,)))
    (point,) = found.tpr_at_fpr
    assert point.low <= 0.4 * 0.01 / 0.012 <= point.high
    for calibrated in found.calibrated:
        assert calibrated.tpr.low <= 0.4 * 0.01 / 0.012 <= calibrated.tpr.high
        assert calibrated.fpr.value == pytest.approx(0.01, abs=0.001)


@pytest.mark.parametrize("n_targets", [1, 6])
def test_one_score_for_all_leaks_nothing(n_targets: int) -> None:
    in_mask = np.random.default_rng(2).random((n_targets, 1_000)) < 0.5
    found = figures(np.zeros(in_mask.shape), in_mask)
    assert found.tpr_at_fpr[0].value == pytest.approx(0.1, abs=0.002)
    assert all(c.tpr.value == pytest.approx(0.1, abs=0.002) for c in found.calibrated if c.reason is None)


def test_balanced_accuracy_and_precision_follow_from_the_rates() -> None:
    found = figures(*scored(8))
    for end in ("value", "low", "high"):
        advantage = getattr(found.advantage, end)
        assert getattr(found.balanced_accuracy, end) == pytest.approx((1 + advantage) / 2)
    tpr = found.tpr_at_fpr[0].value
    by_prior = {entry.prior: entry.value for entry in found.tpr_at_fpr[0].precision}
    assert by_prior == {p: pytest.approx(p * tpr / (p * tpr + (1 - p) * 0.1)) for p in (0.01, 0.1, 0.5)}


def test_epsilon_is_the_lower_median_of_bounds_that_pay_for_it() -> None:
    scores, in_mask = scored(6, shift=2.0)
    found = figures(scores, in_mask).epsilon.general
    bounds = sorted(
        epsilon_of_split(split_scores(s, m), delta=1e-5, confidence=0.975).epsilon
        for s, m in zip(scores, in_mask, strict=True)
    )
    assert found.value == bounds[2]
    assert found.confidence == 0.95
    alone = figures(scores[:1], in_mask[:1]).epsilon.general
    first = split_scores(scores[0], in_mask[0])
    assert alone.value == epsilon_of_split(first, delta=1e-5).epsilon


def test_the_gaussian_bound_is_given_only_where_it_holds() -> None:
    scores, in_mask = scored(3, shift=2.0, n=6_000)
    assert figures(scores, in_mask).epsilon.gaussian.value > 2
    refused = figures(np.sign(scores), in_mask).epsilon.gaussian
    assert np.isnan(refused.value)
    assert refused.reason


def test_one_target_has_intervals_over_records() -> None:
    scores, in_mask = scored(1)
    found = figures(scores, in_mask)
    for figure in (found.auc, found.advantage, found.tpr_at_fpr[0]):
        assert figure.low < figure.value < figure.high
        assert figure.these_low is None and figure.these_high is None  # nothing is known of other trainings
    assert found.calibrated == ()


@pytest.mark.parametrize("n_targets", [1, 5])
def test_groups_are_judged_by_their_own(n_targets: int) -> None:
    scores, in_mask = scored(n_targets, shift=0.0)
    town = np.where(np.arange(600) < 200, "leaky", "quiet")
    scores = scores + 3 * in_mask * (town == "leaky")
    leaky, quiet = figures(scores, in_mask, groups={"town": Grouping.of(town)}).groups["town"]
    assert (leaky.group, leaky.records) == ("leaky", 200)
    assert leaky.auc.low > 0.9
    assert quiet.auc.low < 0.5 < quiet.auc.high
    assert [point.fpr for point in leaky.tpr_at_fpr] == [0.1, 0.0001]


def two_towns() -> tuple[FloatArray, BoolArray, Grouping]:
    """Town "b" leaks, town "a" does not, and "tiny" has too few records to say."""
    rng = np.random.default_rng(0)
    town = np.repeat(["b", "a", "tiny"], [400, 400, 12])
    in_mask = (np.arange(812) % 2 == 0)[None]
    return rng.standard_normal((1, 812)) + 2 * (in_mask & (town == "b")), in_mask, Grouping.of(town)


def test_each_group_has_the_figures_of_its_records() -> None:
    scores, in_mask, towns = two_towns()
    config = replace(CONFIG, fpr_budgets=(0.1, 0.001))
    a, b, tiny = figures(scores, in_mask, config, {"town": towns}).groups["town"]
    assert [(one.group, one.records) for one in (a, b, tiny)] == [("a", 400), ("b", 400), ("tiny", 12)]
    alone = figures(scores[:, :400], in_mask[:, :400], config)
    assert (b.auc, b.advantage) == (alone.auc, alone.advantage)
    assert (b.tpr_at_fpr[0].value, b.tpr_at_fpr[0].low) == (
        alone.tpr_at_fpr[0].value,
        alone.tpr_at_fpr[0].low,
    )
    assert a.auc.low < 0.5 < a.auc.high < b.auc.low
    undefined = (b.tpr_at_fpr[1], tiny.auc, tiny.advantage, *tiny.tpr_at_fpr)  # 0.001 is below 1/200
    assert np.isnan([(one.value, one.low, one.high) for one in undefined]).all()


def test_targets_with_too_few_records_of_a_group_do_not_count() -> None:
    rng = np.random.default_rng(1)
    towns = two_towns()[2]
    town = np.array(towns.names)[towns.codes]
    in_mask = rng.random((6, 812)) < 0.5
    in_mask[0, town == "a"] = True  # target 0 has no non-members in "a"
    scores = rng.standard_normal((6, 812)) + 2 * (in_mask & (town == "b"))
    a, b, tiny = figures(scores, in_mask, CONFIG, {"town": towns}).groups["town"]
    for one, targets in ((a, slice(1, None)), (b, slice(None))):
        expected = [
            auc(s[town == one.group], m[town == one.group])
            for s, m in zip(scores[targets], in_mask[targets], strict=True)
        ]
        assert one.auc.value == pytest.approx(np.mean(expected))
        assert one.auc.sd == pytest.approx(np.std(expected, ddof=1))
    assert np.isnan(tiny.auc.value)
    assert b.tpr_at_fpr[0].value > 0.4


@pytest.mark.parametrize("n_nonmembers", [(100, 90, 90, 90), (90, 100, 100, 100), (100, 104, 100, 110)])
def test_a_rate_that_some_target_cannot_measure_has_no_mean_over_the_others(
    n_nonmembers: tuple[int, ...],
) -> None:
    in_mask = np.arange(200) >= np.array(n_nonmembers)[:, None]
    scores = np.random.default_rng(0).standard_normal(in_mask.shape) + in_mask
    config = replace(CONFIG, fpr_budgets=(0.1, 0.01))
    found = figures(scores, in_mask, config, {"town": Grouping.of(["a"] * 200)})
    for tenth, percent in (found.tpr_at_fpr, found.groups["town"][0].tpr_at_fpr):
        assert np.isfinite(tenth.value)
        assert np.isfinite(percent.value) == (min(n_nonmembers) >= 100)
    assert bool(found.tpr_at_fpr[1].reason) == (min(n_nonmembers) < 100)


def test_a_group_of_one_record_has_no_figures() -> None:
    groups = {"town": Grouping.of(["a"] * 599 + ["b"])}
    of_many, of_one = figures(*scored(6), CONFIG, groups).groups["town"]
    assert of_many.advantage.value is not None and of_many.advantage.value > 0
    assert of_one.records == 1
    assert all(np.isnan(figure.value) for figure in (of_one.auc, of_one.advantage))


def test_groups_need_one_label_per_record() -> None:
    with pytest.raises(InputError, match="one label per record"):
        figures(*scored(2), CONFIG, {"town": Grouping.of(["a"])})


def test_an_attack_that_is_always_right_is_not_certain() -> None:
    """All models and records agree, so nothing varies; a hundred records still say only so much."""
    _, in_mask = scored(8, n=100)
    for scores, value in ((np.where(in_mask, 1.0, 0.0), 1.0), (np.zeros(in_mask.shape), 0.5)):
        found = figures(scores, in_mask)
        assert found.auc.value == value
        assert found.auc.high - found.auc.low > 0.02
        assert found.auc.these_high - found.auc.these_low > 0.02


def test_threads_that_share_arrays_on_disk_change_no_bit(tmp_path: Path) -> None:
    """Each thread releases pages of the arrays that the others are reading and writing."""
    scores, in_mask = scored(12, n=5_000)
    with small_blocks(16_384, n_threads=1):
        expected = figures(scores, in_mask)
    on_disk = Scratch(tmp_path, in_memory_bytes=0)
    shared = on_disk.empty(scores.shape)
    shared[:] = scores
    with small_blocks(16_384, n_threads=8):
        found = figures(shared, in_mask, scratch=on_disk)
    assert repr(found) == repr(expected)  # every digit; NaN, where a rate is not measurable, equals NaN


@pytest.mark.parametrize("seed", range(5))
def test_the_interval_of_a_constant_prediction_contains_its_value(seed: int) -> None:
    """It was that of the first target alone, whose AUC may be far from the mean over all."""
    labels = (np.arange(120) % 10 < 3).astype(np.int64)
    correct = np.broadcast_to(labels == 0, (8, 1, 120)).copy()
    design = make_design("balanced", 8, 120, seed)
    sample = Sample.of(Signals({"correct": correct}, (1,), labels), design, np.arange(8))
    replicates = sample.replicates(resolve("correctness"))
    everyone = Scored(replicates.whole.values, design.in_mask, replicates, sample.units)
    config = EvaluationConfig("records", ("correctness",), (0.1,))
    nothing = SetFigures("", 0, UNDEFINED, UNDEFINED, (), "not measured here")
    own = attack_figures(everyone, config, {}, nothing).auc
    assert own.value == pytest.approx(0.5)
    assert own.low is not None and own.high is not None
    assert own.these_low is not None and own.these_high is not None
    assert own.low <= own.these_low < 0.5 < own.these_high <= own.high
