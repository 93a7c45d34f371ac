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
from leakscope.evaluate.limits import judge_gate
from leakscope.evaluate.results import (
    AttackFigures,
    EpsilonFigure,
    EpsilonFigures,
    ExposedRecords,
    Figure,
    TprAtFpr,
)


def figures(auc: float, half: float, tpr_high: float | None, epsilon: float | None) -> AttackFigures:
    """An attack with these figures."""
    tpr = TprAtFpr(
        0.05, 0.03, tpr_high, None, fpr=0.001, precision=(),
        reason="an FPR of 0.001 is below 1/12" if tpr_high is None else None,
    )  # fmt: skip
    general = EpsilonFigure(epsilon, "one side only" if epsilon is None else None, 1e-5, 0.95, "")
    return AttackFigures(
        auc=Figure(auc, auc - half, auc + half, sd=None),
        advantage=Figure(0.1, 0.05, 0.15, sd=None),
        balanced_accuracy=Figure(0.55, 0.525, 0.575, sd=None),
        tpr_at_fpr=(tpr,),
        calibrated=(),
        epsilon=EpsilonFigures(general, general),
        groups={},
        targets=1,
    )


def outcome(gate: Gate, **attacks: AttackFigures) -> GateResult:
    return judge_gate(gate, attacks, ExposedRecords(2, 0.02, 0.05, ""))


def test_the_upper_end_of_the_strongest_attack_counts() -> None:
    weak, strong = figures(0.52, 0.01, 0.04, 0.1), figures(0.58, 0.04, 0.072, 0.6)
    gate = Gate(max_auc=0.6, max_tpr=(TprLimit(0.001, 0.05),), max_epsilon=1.0, max_exposed_share=0.02)
    found = outcome(gate, loss=weak, lira=strong)
    assert not found.passed
    assert [limit.passed for limit in found.limits] == [False, False, True, True]
    assert [limit.bound for limit in found.limits] == pytest.approx([0.62, 0.072, 0.6, 0.02])
    assert {limit.attack for limit in found.limits} == {"lira", None}
    assert found.limits[1].sentence == (
        "Gate failed: the TPR at 0.1% FPR is up to 7.2% (lira); the limit is 5%, exceeded by 2.2 percentage "
        "points."
    )
    assert "epsilon (delta 1e-05, 95% confidence) is at least 0.6" in found.limits[2].sentence


def test_within_every_limit_it_passes() -> None:
    found = outcome(Gate(max_auc=0.6, max_advantage=0.15), loss=figures(0.52, 0.01, 0.04, 0.1))
    assert found.passed
    assert found.limits[1].sentence == ("Gate passed: the advantage is up to 15% (loss); the limit is 15%.")


@pytest.mark.parametrize("undefined", [None, float("nan")])
def test_what_cannot_be_measured_fails_with_the_reason(undefined: float | None) -> None:
    gate = Gate(max_tpr=(TprLimit(0.001, 1.0),), max_epsilon=100.0)
    weak = figures(0.5, 0.01, None, None)
    tpr = replace(weak.tpr_at_fpr[0], high=undefined)
    epsilon = replace(weak.epsilon, general=replace(weak.epsilon.general, value=undefined))
    found = outcome(gate, loss=replace(weak, tpr_at_fpr=(tpr,), epsilon=epsilon),
                    lira=figures(0.5, 0.01, 0.01, 0.0))  # fmt: skip
    assert [limit.passed for limit in found.limits] == [False, False]
    assert "cannot be measured (an FPR of 0.001 is below 1/12)" in found.limits[0].sentence
    assert "one side only" in found.limits[1].sentence
    assert not judge_gate(Gate(max_exposed_share=1.0), {}, None).passed


def test_a_gate_survives_being_stored() -> None:
    gate = Gate(max_auc=0.6, max_tpr=(TprLimit(0.01, 0.1), TprLimit(0.001, 0.05)))
    content = json.dumps(to_jsonable(gate))
    assert TypeAdapter(Gate).validate_json(content, strict=True) == gate


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, "no limit is set"),
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
