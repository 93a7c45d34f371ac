"""A gate believes bounds, not luck: limits on the interval's end, and nothing unresolved passes."""

from __future__ import annotations

from typing import Any

import pytest

from leakscope.errors import InputError
from leakscope.evaluate.gate import Gate, TprLimit
from leakscope.evaluate.limits import judge_gate


def figures(auc: float, half: float, tpr_high: float | None, epsilon: float | None) -> dict[str, Any]:
    reason = None if tpr_high is not None else "an FPR of 0.001 is below 1/12"
    return {
        "auc": {"value": auc, "low": auc - half, "high": auc + half},
        "advantage": {"value": 0.1, "low": 0.05, "high": 0.15},
        "tpr_at_fpr": [{"fpr": 0.001, "value": 0.05, "low": 0.03, "high": tpr_high, "reason": reason}],
        "epsilon": {
            "general": {"value": epsilon, "reason": None if epsilon is not None else "one side only"}
        },
    }


def outcome(gate: Gate, **attacks: Any) -> dict[str, Any]:
    return judge_gate(gate, {"attacks": attacks, "exposed": {"share": 0.02}})


def test_the_upper_end_of_the_strongest_attack_counts() -> None:
    weak, strong = figures(0.52, 0.01, 0.04, 0.1), figures(0.58, 0.04, 0.072, 0.6)
    gate = Gate(max_auc=0.6, max_tpr=(TprLimit(0.001, 0.05),), max_epsilon=1.0, max_exposed_share=0.02)
    found = outcome(gate, loss=weak, lira=strong)
    assert not found["passed"]
    assert [limit["passed"] for limit in found["limits"]] == [False, False, True, True]
    assert [limit["bound"] for limit in found["limits"]] == pytest.approx([0.62, 0.072, 0.6, 0.02])
    assert {limit["attack"] for limit in found["limits"]} == {"lira", None}
    assert found["limits"][1]["sentence"] == (
        "Gate failed: TPR at 0.1% FPR is up to 7.2% (lira), the limit is 5%: 2.2 points over."
    )
    assert "epsilon (delta 1e-05, 95% confidence) is at least 0.6" in found["limits"][2]["sentence"]


def test_within_every_limit_it_passes() -> None:
    found = outcome(Gate(max_auc=0.6, max_advantage=0.15), loss=figures(0.52, 0.01, 0.04, 0.1))
    assert found["passed"]
    assert found["limits"][1]["sentence"] == (
        "Gate passed: the advantage is up to 15% (loss), the limit is 15%."
    )


@pytest.mark.parametrize("nothing", [None, float("nan")])
def test_what_cannot_be_resolved_fails_with_the_reason(nothing: float | None) -> None:
    gate = Gate(max_tpr=(TprLimit(0.001, 1.0),), max_epsilon=100.0)
    undefined = figures(0.5, 0.01, None, None)
    undefined["tpr_at_fpr"][0]["high"] = nothing
    undefined["epsilon"]["general"]["value"] = nothing
    found = outcome(gate, loss=undefined, lira=figures(0.5, 0.01, 0.01, 0.0))
    assert [limit["passed"] for limit in found["limits"]] == [False, False]
    assert "not resolvable: an FPR of 0.001 is below 1/12" in found["limits"][0]["sentence"]
    assert "one side only" in found["limits"][1]["sentence"]
    assert not judge_gate(Gate(max_exposed_share=1.0), {"attacks": {}})["passed"]


def test_a_gate_survives_being_stored() -> None:
    gate = Gate(max_auc=0.6, max_tpr=(TprLimit(0.01, 0.1), TprLimit(0.001, 0.05)))
    assert Gate.from_dict(gate.as_dict()) == gate


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
