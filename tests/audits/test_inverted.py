"""Models that are less sure of their members, or sure in a narrow band: no gate passes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import leakscope
from leakscope.array_types import BoolArray, FloatArray
from leakscope.attacks.lira import Lira
from leakscope.evaluate.config import EvaluationConfig
from leakscope.evaluate.gate import TprLimit
from leakscope.evaluate.verdict import Verdict
from tests.cli.command import run_command
from tests.evaluate.test_attack_figures import figures

N = 1_200


class Backwards(Lira):
    """An attack with a mistake in its sign."""

    name = "backwards"

    def score(self, *args: Any) -> FloatArray:
        return -super().score(*args)


def audited(
    out: Path,
    confidence: FloatArray,
    is_member: BoolArray,
    of_references: FloatArray | None = None,
    reference_members: BoolArray | None = None,
    **settings: object,
) -> Verdict:
    """An audit of one model's answers, of which the true class has this probability.

    Those of references, trained on other records unless their members are given, are (references, records).
    """
    labels = np.arange(len(confidence)) % 2

    def probabilities(own: FloatArray) -> FloatArray:
        return np.where(np.arange(2) == labels[:, None], own[..., None], 1 - own[..., None])

    arrays = {"probabilities": probabilities(confidence), "labels": labels, "members": is_member}
    if of_references is not None:
        arrays["reference_probabilities"] = probabilities(of_references)
        nobody = np.zeros(of_references.shape, dtype=np.bool_)
        arrays["reference_members"] = nobody if reference_members is None else reference_members
    file = out.with_suffix(".npz")
    np.savez(file, **arrays)
    return leakscope.audit(leakscope.SavedPredictions(file), out=out, **settings)


def answers(
    seed: int, members: tuple[float, float], others: tuple[float, float]
) -> tuple[FloatArray, BoolArray]:
    """Probabilities of the true class, uniform between two ends."""
    rng = np.random.default_rng(seed)
    is_member = rng.permutation(N) < N // 2
    return np.where(is_member, rng.uniform(*members, N), rng.uniform(*others, N)), is_member


def test_members_with_lower_confidence_fail_every_gate(tmp_path: Path) -> None:
    verdict = audited(
        tmp_path / "run", *answers(0, (0.70, 0.78), (0.75, 0.99)), gate=leakscope.Gate(preset="internal")
    )
    results = verdict.results
    assert results.gate is not None and results.gate.outcome == "failed"
    assert results.rating.level == "severe"
    assert "loss" in results.inverted_attacks and "correctness" not in results.inverted_attacks
    assert any("count with the opposite sign" in line for line in verdict.summary())
    assert any("in loss and population, so" in line for line in verdict.summary())
    assert verdict.summary()[0].startswith("Gate failed: ")  # what the exit code says comes first
    assert "loss, inverted" in (tmp_path / "run" / "report.md").read_text()
    assert run_command("verify", tmp_path / "run").exit_code == 0
    before = (tmp_path / "run" / "report.md").read_bytes()
    run_command("report", tmp_path / "run")
    assert (tmp_path / "run" / "report.md").read_bytes() == before


def test_members_in_a_band_are_rated_by_the_advantage(tmp_path: Path) -> None:
    confidence, is_member = answers(1, (0.79, 0.81), (0.61, 0.99))
    verdict = audited(tmp_path / "run", confidence, is_member, gate=leakscope.Gate(preset="release"))
    assert verdict.results.headline.auc.value == pytest.approx(0.5, abs=0.05)
    assert verdict.results.rating.level == "high"
    assert verdict.results.gate is not None and verdict.results.gate.outcome == "failed"


def test_what_could_have_been_missed_is_the_highest_advantage_of_an_attack(tmp_path: Path) -> None:
    """Every answer is right, so `correctness` has an advantage of exactly 0, and says least."""
    confidence, is_member = answers(4, (0.6, 0.99), (0.6, 0.99))
    results = audited(tmp_path / "run", confidence.round(1), is_member).results
    (part,) = (part for part in results.rating.parts if part.about == "advantage")
    assert part.level == "none found"
    assert part.high == max(figures.advantage.high or 0.0 for figures in results.attacks.values())


def test_a_comparison_counts_what_leaks_in_either_direction(tmp_path: Path) -> None:
    safe, is_member = answers(2, (0.6, 0.99), (0.6, 0.99))
    lower = np.where(is_member, 0.6 + 0.3 * (safe - 0.6), safe)
    for name, confidence in (("before", safe), ("after", lower)):
        audited(tmp_path / name, confidence, is_member)
    compared = run_command("compare", tmp_path / "before", tmp_path / "after", "--out", tmp_path / "compared")
    assert "after LEAKS MORE than before" in " ".join(compared.out.split())


def test_a_gate_does_not_pass_by_scores_whose_direction_is_not_certain(tmp_path: Path) -> None:
    """Members are less sure, but not certainly so; turned around, the AUC may be above 0.56."""
    confidence, is_member = answers(0, (0.60, 0.975), (0.60, 0.99))
    others = np.random.default_rng(0).uniform(0.6, 0.99, (8, N))
    verdict = audited(
        tmp_path / "run", confidence, is_member, others,
        attacks=["loss"], gate=leakscope.Gate(max_auc=0.56, max_advantage=0.2),
    )  # fmt: skip
    loss = verdict.results.attacks["loss"]
    assert not loss.inverted and loss.auc.value is not None and 0.45 < loss.auc.value < 0.48
    assert verdict.results.gate is not None
    outcomes = {limit.limit_on: limit.outcome for limit in verdict.results.gate.limits}
    assert outcomes == {"max_auc": "inconclusive", "max_advantage": "passed"}
    assert loss.auc.high is not None and loss.auc.high_99 is not None
    half_width = (loss.auc.high - loss.auc.value) * stats.norm.ppf(0.995) / stats.norm.ppf(0.975)
    assert loss.auc.high_99 == pytest.approx(1 - loss.auc.value + half_width, abs=0.003)


def test_an_attack_with_a_mistake_in_its_sign_passes_no_gate(tmp_path: Path) -> None:
    """With references of both kinds, an AUC far below 0.5 is no proof that nothing leaks."""
    rng = np.random.default_rng(6)
    in_mask = np.argsort(rng.random((13, N)), axis=1) < N // 2
    log_odds = rng.normal(1.5, 1.5, N) + 1.5 * in_mask + 0.7 * rng.normal(size=in_mask.shape)
    confidence = 1 / (1 + np.exp(-log_odds))
    verdict = audited(
        tmp_path / "run", confidence[0], in_mask[0], confidence[1:], in_mask[1:],
        attacks=[Backwards()], gate=leakscope.Gate(max_auc=0.6),
    )  # fmt: skip
    backwards = verdict.results.attacks["backwards"]
    assert backwards.inverted and backwards.auc.value is not None and backwards.auc.value > 0.7
    assert verdict.outcome == "failed"
    assert any("Members score lower than non-members in backwards" in line for line in verdict.summary())


def test_a_gate_passes_models_that_leak_nothing_in_either_direction(tmp_path: Path) -> None:
    confidence, is_member = answers(5, (0.60, 0.99), (0.60, 0.99))
    others = np.random.default_rng(1).uniform(0.6, 0.99, (8, N))
    gate = leakscope.Gate(max_auc=0.6, max_advantage=0.2, max_tpr=(TprLimit(0.1, 0.2),))
    verdict = audited(tmp_path / "run", confidence, is_member, others, attacks=["loss"], gate=gate)
    assert verdict.outcome == "passed"


def test_noise_is_hardly_ever_turned_around() -> None:
    """In 0.5% of audits on average."""
    config = EvaluationConfig("records", ("loss",), (0.1,))
    in_mask = np.arange(400)[None] % 2 == 0
    rng = np.random.default_rng(0)
    highest = [figures(rng.normal(size=(1, 400)), in_mask, config).auc.high_99 or 1.0 for _ in range(300)]
    assert sum(end < 0.5 for end in highest) <= 6  # of 300, more than 6 have a probability of 0.1%
