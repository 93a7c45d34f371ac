"""A verdict never promises more than its evidence."""

from typing import Any

import pytest

from leakscope.dp.verdict import Evidence, judge_claim
from leakscope.errors import InputError
from leakscope.privacy.accounting import epsilon_of_steps
from leakscope.privacy.claim import Claim


def evidence(epsilon: float, ceiling: float, confidence: float = 0.95) -> Evidence:
    return Evidence("a test", epsilon, confidence, ceiling, "guesses", 100, 1)


@pytest.mark.parametrize(
    ("bound", "ceiling", "status"),
    [(3.0, 5.0, "consistent"), (4.0, 5.0, "consistent"), (4.1, 5.0, "refuted"), (0.0, 4.0, "not testable")],
)
def test_status(bound: float, ceiling: float, status: str) -> None:
    assert judge_claim(Claim(4.0), [evidence(bound, ceiling)]).status == status


def test_bounds_share_the_error_of_the_claim() -> None:
    with pytest.raises(InputError, match="total error"):
        judge_claim(Claim(4.0), [evidence(9.0, 10.0)] * 2)
    shared = judge_claim(Claim(4.0), [evidence(1.0, 10.0, 0.975), evidence(9.0, 10.0, 0.975)])
    assert shared.status == "refuted"
    assert shared.evidence[0].epsilon == 9.0


def test_settings_are_accounted() -> None:
    claim = Claim(noise_multiplier=1.0, sampling_rate=0.1, steps=100)
    assert claim.claimed_epsilon() == epsilon_of_steps(1.0, 1e-5, 0.1, 100)


@pytest.mark.parametrize(
    "wrong",
    [{}, {"epsilon": 1.0, "steps": 3}, {"noise_multiplier": 1.0, "steps": 3}, {"epsilon": 0.0},
     {"epsilon": 1.0, "delta": 1.0}, {"epsilon": 1.0, "confidence": 1.0},
     {"noise_multiplier": 1.0, "steps": 3, "sampling_rate": 1.5}, {"epsilon": "8"}, {"epsilon": [8.0]},
     {"epsilon": True}, {"epsilon": 1.0, "delta": None}, {"epsilon": 1.0, "confidence": "high"},
     {"noise_multiplier": 1.0, "steps": 1.5, "sampling_rate": 0.5}],
)  # fmt: skip
def test_a_claim_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="claim: "):
        Claim(**wrong)


def test_next_to_no_noise_is_refused_at_once() -> None:
    """The accountant would take minutes, for an epsilon in the thousands."""
    with pytest.raises(InputError, match="guarantees nothing"):
        Claim(noise_multiplier=0.01, sampling_rate=0.5, steps=100).claimed_epsilon()
