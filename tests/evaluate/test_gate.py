"""A gate believes bounds, not luck: limits on the interval's end, and nothing unresolved passes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from pydantic import TypeAdapter

from leakscope.bank.run_folder import to_jsonable
from leakscope.errors import InputError
from leakscope.evaluate.gate import Gate, GateResult, TprLimit
from leakscope.evaluate.hygiene.outcome import Outcome, Status
from leakscope.evaluate.limits import judge_gate, with_bound
from leakscope.evaluate.results import (
    AttackFigures,
    EpsilonFigure,
    EpsilonFigures,
    ExposedRecords,
    Figure,
    SetFigures,
    TprAtFpr,
)
from leakscope.stats.rounding import Rounding


def figures(auc: float, half: float, tpr_high: float | None, epsilon: float | None) -> AttackFigures:
    """An attack with these figures."""
    tpr = TprAtFpr(
        0.05, 0.03, tpr_high, None, fpr=0.001, precision=(), high_99=tpr_high,
        reason="an FPR of 0.1% is below 1/12" if tpr_high is None else None,
    )  # fmt: skip
    general = EpsilonFigure(epsilon, "one side only" if epsilon is None else None, 1e-5, 0.95, "")
    return AttackFigures(
        auc=Figure(auc, auc - half, auc + 0.8 * half, sd=None, high_99=auc + half),
        advantage=Figure(0.1, 0.05, 0.15, sd=None, high_99=0.15),
        balanced_accuracy=Figure(0.55, 0.525, 0.575, sd=None),
        tpr_at_fpr=(tpr,),
        calibrated=(),
        epsilon=EpsilonFigures(general, general),
        groups={},
        targets=1,
        most_exposed=SetFigures("lira", 0, *[Figure(None, None, None, sd=None)] * 2, (), "1 model"),
    )


EXPOSED = ExposedRecords(2, 0.02, 0.03, 0.05, "", tested=100, fewest_detectable=1, reason=None)


def outcome(gate: Gate, exposed: ExposedRecords = EXPOSED, **attacks: AttackFigures) -> GateResult:
    return judge_gate(gate, attacks, exposed)


def test_a_limit_passes_below_the_interval_fails_above_it_and_is_inconclusive_within() -> None:
    weak, strong = figures(0.52, 0.01, 0.04, 0.1), figures(0.58, 0.04, 0.072, 0.6)
    for limit, expected in ((0.63, "passed"), (0.62, "passed"), (0.6, "inconclusive"), (0.53, "failed")):
        result = outcome(Gate(max_auc=limit), loss=weak, lira=strong)
        assert (result.outcome, result.limits[0].outcome) == (expected, expected)
        assert result.limits[0].attack == "lira"
        assert result.limits[0].bound == pytest.approx(0.54 if expected == "failed" else 0.62)
    tpr = outcome(Gate(max_tpr=(TprLimit(0.001, 0.02),)), loss=weak, lira=strong).limits[0]
    assert (tpr.outcome, tpr.fpr) == ("failed", 0.001)
    assert tpr.sentence == "Gate failed: the TPR at 0.1% FPR is at least 3% (loss); the limit is 2%."


def test_passing_asks_for_more_confidence_than_failing() -> None:
    """Intervals hold less often than stated, and a pass is what a release rests on."""
    attack = replace(
        figures(0.58, 0.04, 0.04, 0.1), auc=Figure(0.58, 0.54, 0.61, 0.01, 0.55, 0.6, high_99=0.62)
    )
    undecided, passed = (outcome(Gate(max_auc=limit), lira=attack).limits[0] for limit in (0.615, 0.62))
    assert undecided.outcome == "inconclusive" and passed.outcome == "passed"
    assert passed.sentence == (
        "Gate passed: the AUC is up to 0.62 with about 99% confidence (lira); the limit is 0.62."
    )


@pytest.mark.parametrize(
    ("low", "limit", "sentence"),
    [
        (0.0342, 0.0338, "Gate failed: the TPR at 0.1% FPR is at least 3.42% (lira); the limit is 3.38%."),
        (
            0.03,
            0.0299999,
            "Gate failed: the TPR at 0.1% FPR is at least 3.00000% (lira); the limit is 2.99999%.",
        ),
        (0.0342, 0.03, "Gate failed: the TPR at 0.1% FPR is at least 3.4% (lira); the limit is 3%."),
    ],
)
def test_a_broken_limit_does_not_look_equal_to_the_figure(low: float, limit: float, sentence: str) -> None:
    attack = figures(0.58, 0.04, 0.072, 0.6)
    attack = replace(attack, tpr_at_fpr=(replace(attack.tpr_at_fpr[0], low=low),))
    assert outcome(Gate(max_tpr=(TprLimit(0.001, limit),)), lira=attack).limits[0].sentence == sentence


def test_a_rounded_bound_does_not_say_by_its_digits_how_close_the_exact_one_is() -> None:
    attack = replace(figures(0.58, 0.04, 0.072, 0.6), auc=Figure(0.7, 0.6002, 0.8, 0.01, 0.6, 0.8))
    limit = outcome(Gate(max_auc=0.6001), lira=attack).limits[0]
    assert "at least 0.6002 (lira); the limit is 0.6001" in limit.sentence
    rounded = with_bound(limit, 0.62, Rounding(0.02))
    assert "at least 0.62 (lira); the limit is 0.6." in rounded.sentence


def test_a_limit_says_where_the_interval_that_decides_it_is_approximate() -> None:
    attack, gate = figures(0.58, 0.04, 0.072, 0.6), Gate(max_tpr=(TprLimit(0.001, 0.9),))
    few, enough = (judge_gate(gate, {"lira": attack}, EXPOSED, (), n).limits[0] for n in (2_000, 5_000))
    assert few.sentence == (
        f"{enough.sentence} The TPR at 0.1% FPR, at thresholds from this model or from the others, "
        "rests on about 2 non-members per target, so its interval is approximate."
    )
    assert few.outcome == enough.outcome == "passed"
    assert "approximate" not in enough.sentence


def test_one_broken_limit_outweighs_an_undecided_one_and_that_a_passed_one() -> None:
    attack = figures(0.58, 0.04, 0.072, 0.6)
    passed, undecided, broken = Gate(max_auc=0.7), Gate(max_auc=0.7, max_epsilon=9.0), Gate(max_auc=0.5)
    assert outcome(passed, lira=attack).outcome == "passed"
    assert outcome(undecided, lira=attack).outcome == "inconclusive"
    assert outcome(replace(broken, max_epsilon=9.0), lira=attack).outcome == "failed"


def test_a_lower_bound_on_epsilon_can_fail_but_never_pass() -> None:
    attack = figures(0.5, 0.01, 0.01, 0.809)
    proof = outcome(Gate(max_epsilon=1.0), lira=attack).limits[0]
    assert (proof.outcome, proof.bound) == ("inconclusive", 0.809)
    assert "at least 0.809, and a lower bound cannot show" in proof.sentence
    assert outcome(Gate(max_epsilon=0.8), lira=attack).outcome == "failed"
    assert outcome(Gate(max_epsilon=1e9), lira=replace(attack)).outcome == "inconclusive"


@pytest.mark.parametrize("undefined", [None, float("nan")])
def test_what_cannot_be_measured_is_inconclusive_with_the_reason(undefined: float | None) -> None:
    gate = Gate(max_tpr=(TprLimit(0.001, 1.0),), max_epsilon=100.0)
    weak = figures(0.5, 0.01, None, None)
    tpr = replace(weak.tpr_at_fpr[0], low=undefined, high=undefined)
    epsilon = replace(weak.epsilon, general=replace(weak.epsilon.general, value=undefined))
    result = outcome(gate, loss=replace(weak, tpr_at_fpr=(tpr,), epsilon=epsilon))
    assert [limit.outcome for limit in result.limits] == ["inconclusive", "inconclusive"]
    assert "(an FPR of 0.1% is below 1/12)" in result.limits[0].sentence
    assert "one side only" in result.limits[1].sentence
    assert judge_gate(Gate(max_exposed_share=1.0), {}, None).outcome == "inconclusive"


def test_exposed_records_fail_by_detections_and_pass_by_an_upper_bound() -> None:
    for limit, expected in ((0.01, "failed"), (0.02, "inconclusive"), (0.03, "passed")):
        assert outcome(Gate(max_exposed_share=limit)).outcome == expected
    passed = outcome(Gate(max_exposed_share=0.03)).limits[0]
    assert passed.bound == 0.03
    assert passed.sentence == (
        "Gate passed: the share of exposed records is up to 3% with 99% confidence; the limit is 3%. Records "
        "count as exposed here if the attack is right about them for at least four of five models."
    )
    faint = replace(EXPOSED, at_most=0.0)  # detected, but to a lesser degree
    assert outcome(Gate(max_exposed_share=0.5), faint).limits[0].bound == 0.02


def test_an_empty_list_of_exposed_records_is_no_proof() -> None:
    blind = ExposedRecords(None, None, 1.0, 0.05, "", tested=300, fewest_detectable=86, reason="8 models")
    for share, limit in ((None, 0.01), (None, 0.5), (0.0, 0.5), (0.3, 0.5), (0.3, 0.99)):
        undecided = outcome(Gate(max_exposed_share=limit), replace(blind, share=share)).limits[0]
        assert undecided.outcome == "inconclusive" and "up to 100%" in undecided.sentence
    few = outcome(Gate(max_exposed_share=0.5), blind).limits[0]
    assert few.sentence.endswith("If the models reveal nothing, it takes about 30 of them to pass.")


@pytest.mark.parametrize("status", ["failed", "unreliable"])
@pytest.mark.parametrize("limit", [0.4, 0.7])
def test_a_check_that_undermines_the_figures_leaves_every_limit_undecided(
    status: Status, limit: float
) -> None:
    checks = [Outcome("balance", "ok", ""), Outcome("accuracy", status, "")]
    result = judge_gate(Gate(max_auc=limit), {"lira": figures(0.58, 0.04, 0.07, 0.6)}, EXPOSED, checks)
    assert result.outcome == result.limits[0].outcome == "inconclusive"
    reasons = {
        "failed": "checks of the audit failed",
        "unreliable": "the figures of the audit are unreliable",
    }
    assert f"because {reasons[status]} (accuracy)." in result.limits[0].sentence
    warned = [Outcome("accuracy", "warning", "")]
    assert (
        judge_gate(Gate(max_auc=0.7), {"lira": figures(0.58, 0.04, 0.07, 0.6)}, None, warned).outcome
        == "passed"
    )


def test_a_gate_survives_being_stored() -> None:
    gate = Gate(max_auc=0.6, max_tpr=(TprLimit(0.01, 0.1), TprLimit(0.001, 0.05)))
    content = json.dumps(to_jsonable(gate))
    assert TypeAdapter(Gate).validate_json(content, strict=True) == gate


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, "no limit is set"),
        ({"preset": "relase"}, "preset='relase': did you mean 'release'? choose one of release, research"),
        ({"max_auc": 1.5}, "max_auc=1.5"),
        ({"max_epsilon": -1.0}, "max_epsilon=-1.0"),
        ({"max_tpr": (TprLimit(0.0, 0.1),)}, "fpr=0.0"),
        ({"max_auc": 0.6, "confidence": 95.0}, "confidence=95.0"),
        ({"max_auc": 0.6, "delta": 1.0}, "delta=1.0"),
    ],
)
def test_an_impossible_gate_is_refused(given: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match="gate: ") as error:
        Gate(**given)
    assert named in str(error.value)


def test_the_wider_interval_counts_unless_the_gate_says_otherwise() -> None:
    attack = replace(
        figures(0.58, 0.04, 0.04, 0.1), auc=Figure(0.58, 0.54, 0.61, 0.02, 0.56, 0.59, 0.62, 0.6)
    )
    assert outcome(Gate(max_auc=0.61), lira=attack).outcome == "inconclusive"
    assert outcome(Gate(max_auc=0.61, records="these"), lira=attack).outcome == "passed"
    alone = outcome(Gate(max_auc=0.7, records="these"), lira=figures(0.58, 0.04, 0.04, 0.1))
    assert alone.outcome == "inconclusive"
    assert "no interval for these records" in alone.limits[0].sentence
    with pytest.raises(InputError, match='choose "like these" or "these"'):
        Gate(max_auc=0.6, records="mine")  # type: ignore[arg-type]


@pytest.mark.parametrize(("n_references", "subject"), [
    (0, "an audit without reference models is too weak"),
    (1, "1 reference model is too few"),
    (7, "7 reference models are too few"),
])  # fmt: skip
def test_few_references_show_no_compliance_and_still_break_a_limit(n_references: int, subject: str) -> None:
    weak, strong = figures(0.52, 0.02, 0.02, 0.1), figures(0.8, 0.05, 0.4, 2.0)
    gate = Gate(max_auc=0.7)
    (limit,) = judge_gate(gate, {"loss": weak}, None, n_references=n_references).limits
    assert limit.outcome == "inconclusive" and limit.bound is not None
    assert subject in limit.sentence and "use at least 8" in limit.sentence
    assert "because attacks are stronger with more reference models" in limit.sentence
    assert judge_gate(gate, {"loss": strong}, None, n_references=n_references).outcome == "failed"
    for enough in (8, 64, None):
        assert judge_gate(gate, {"loss": weak}, None, n_references=enough).outcome == "passed"
