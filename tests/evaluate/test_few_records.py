"""Audits of one target with few records on a side: neither too sure that it leaks, nor that it does not."""

from __future__ import annotations

import numpy as np
import pytest

from leakscope.attacks.spec import resolve_all
from leakscope.evaluate.attack_figures import Scored, attack_figures
from leakscope.evaluate.config import EvaluationConfig
from leakscope.evaluate.figure import UNDEFINED
from leakscope.evaluate.headline import half_aucs, strongest
from leakscope.evaluate.results import Figure, SetFigures
from leakscope.evaluate.uncertainty import Sample
from leakscope.types import Design, Signals

ATTACKS = ("loss", "correctness")
CONFIG = EvaluationConfig("records", ATTACKS, (0.1,))
NO_SET = SetFigures("", 0, UNDEFINED, UNDEFINED, (), "not measured here")


def audited(log_odds: np.ndarray, is_member: np.ndarray) -> tuple[Figure, Figure]:
    """The headline, and the advantage of the loss."""
    labels = np.zeros(len(is_member), dtype=np.int64)
    arrays = {
        "log_odds": log_odds[None, None].astype(np.float32),
        "loss": np.logaddexp(0, -log_odds)[None, None].astype(np.float32),
        "correct": (log_odds > 0)[None, None],
    }
    signals, design, targets = Signals(arrays, (1,), labels), Design(is_member[None]), np.array([0])
    sample, halves, figures = Sample.of(signals, design, targets), {}, {}
    for attack in resolve_all(ATTACKS):
        replicates = sample.replicates(attack)
        scored = Scored(attack(signals, design, targets).values, design.in_mask, replicates, sample.units)
        halves[attack.label] = half_aucs(scored)
        figures[attack.label] = attack_figures(scored, CONFIG, {}, NO_SET)
    return strongest(halves, replicates.left_out, len(is_member))[1], figures["loss"].advantage


@pytest.mark.parametrize("n_members", (12, 288))
def test_a_headline_of_few_records_is_seldom_wholly_above_chance(n_members: int) -> None:
    rng, above = np.random.default_rng(3), 0
    is_member = np.arange(300) < n_members
    for _ in range(200):
        above += audited(rng.normal(size=300), is_member)[0].low > 0.5
    assert above / 200 <= 0.025 + 3 * np.sqrt(0.025 * 0.975 / 200)


def test_a_gate_seldom_passes_an_advantage_at_its_limit() -> None:
    rng, below, is_member = np.random.default_rng(4), 0, np.arange(412) < 12
    truth = 0.2985  # 30% of the members are 8 higher
    for _ in range(200):
        leaks = is_member & (rng.random(412) < 0.3)
        below += audited(rng.normal(size=412) + 8 * leaks, is_member)[1].high_99 < truth
    assert below / 200 <= 0.005 + 3 * np.sqrt(0.005 * 0.995 / 200)
