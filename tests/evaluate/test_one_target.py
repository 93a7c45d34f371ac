"""Intervals of one given model hold: few records on a side, thresholds of a single non-member, ties."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy import special

from leakscope.array_types import BoolArray, FloatArray
from leakscope.audits.predictions import SavedPredictions
from leakscope.audits.run import audit
from leakscope.evaluate.attack_figures import Scored, attack_figures
from leakscope.evaluate.config import EvaluationConfig
from leakscope.evaluate.figure import UNDEFINED
from leakscope.evaluate.gate import Gate, TprLimit
from leakscope.evaluate.hygiene.accuracy import check_accuracy
from leakscope.evaluate.results import AttackFigures, SetFigures
from leakscope.evaluate.uncertainty import Replicate, Replicates
from leakscope.stats.differences import tpr_difference
from leakscope.stats.intervals import delong

N_DRAWS = 300
NO_SET = SetFigures("", 0, UNDEFINED, UNDEFINED, (), "not measured here")


def scores_of(n_members: int, n_nonmembers: int, shift: float, seed: int) -> tuple[FloatArray, BoolArray]:
    """Gaussian scores of one target, those of members higher by `shift`."""
    is_member = np.arange(n_members + n_nonmembers) < n_members
    rng = np.random.default_rng([n_members, n_nonmembers, seed])
    return rng.normal(size=len(is_member)) + shift * is_member, is_member


def figures_of(scores: FloatArray, is_member: BoolArray, fpr: float) -> AttackFigures:
    whole = Replicate(scores[None], is_member[None], np.arange(1))
    replicates = Replicates(whole, (), None, 1, uses_references=False)
    config = EvaluationConfig("records", ("loss",), (fpr,))
    scored = Scored(scores[None], is_member[None], replicates, np.arange(len(scores)))
    return attack_figures(scored, config, {}, NO_SET)


def drawn(n_members: int, n_nonmembers: int, shift: float, fpr: float) -> Iterator[AttackFigures]:
    for seed in range(N_DRAWS):
        yield figures_of(*scores_of(n_members, n_nonmembers, shift, seed), fpr)


@pytest.mark.parametrize(
    ("n_members", "n_nonmembers", "fpr", "shift"),
    [
        (1000, 100, 0.01, 1.5),  # one non-member sets the threshold
        (1000, 100, 0.01, 0.5),
        (2000, 1000, 0.001, 1.5),
        (1000, 300, 0.01, 1.5),
        (50, 1000, 0.01, 0.5),  # often no member is above it
        (100, 100, 0.01, 0.5),
        (30, 1000, 0.1, 0.0),
    ],
)
def test_the_tpr_of_one_target(n_members: int, n_nonmembers: int, fpr: float, shift: float) -> None:
    """A gate at the truth passes in at most 3.5%; an interval of 95% is seen to hold in at least 90%.

    Thresholds of one or two non-members are marked as approximate, so 90 and not 93.
    """
    truth = float(special.ndtr(shift - special.ndtri(1 - fpr)))
    points = [figures.tpr_at_fpr[0] for figures in drawn(n_members, n_nonmembers, shift, fpr)]
    assert np.mean([point.high_99 < truth for point in points]) <= 0.035
    assert np.mean([point.low <= truth <= point.high for point in points]) >= 0.90


@pytest.mark.parametrize(("n_members", "n_nonmembers"), [(1000, 12), (12, 1000), (30, 1000), (100, 100)])
def test_the_advantage_of_one_target(n_members: int, n_nonmembers: int) -> None:
    """The truth is what the chosen thresholds reach on average, a little less than the largest difference."""
    figures = [one.advantage for one in drawn(n_members, n_nonmembers, 0.5, 0.1)]
    truth = float(np.mean([figure.value for figure in figures]))
    assert np.mean([figure.high_99 < truth for figure in figures]) <= 0.035
    assert np.mean([figure.low > truth for figure in figures]) <= 0.05


@pytest.mark.parametrize(
    ("n_members", "n_nonmembers", "members_right", "nonmembers_right"),
    [(25, 2000, 0.95, 0.95), (50, 2000, 0.98, 0.98), (2000, 25, 0.999, 0.9), (500, 500, 0.99, 0.9)],
)
def test_the_auc_of_tied_scores(
    n_members: int, n_nonmembers: int, members_right: float, nonmembers_right: float
) -> None:
    """Right or wrong: of few records all may be right by chance, and then have no variance."""
    is_member = np.arange(n_members + n_nonmembers) < n_members
    rate, truth = (
        np.where(is_member, members_right, nonmembers_right),
        0.5 + (members_right - nonmembers_right) / 2,
    )
    rng, n_above, n_below = np.random.default_rng(0), 0, 0
    for _ in range(N_DRAWS):
        scores = (rng.random(len(rate)) < rate).astype(float)
        n_above += delong(scores, is_member).interval.low > truth + 1e-12
        n_below += delong(scores, is_member, 0.99).interval.high < truth - 1e-12
    assert n_above / N_DRAWS <= 0.05 and n_below / N_DRAWS <= 0.035


def test_an_auc_near_1_is_known_as_well_as_one_of_1() -> None:
    """One pair in thousands must not make the interval several times as wide."""
    is_member = np.arange(200) < 100
    scores = is_member + np.linspace(0, 0.5, 200)
    perfect = delong(scores, is_member).interval
    scores[0], scores[199] = 1.2, 1.1  # the lowest member, and the highest non-member above it
    nearly = delong(scores, is_member).interval
    assert 1 - nearly.low < 2 * (1 - perfect.low)


@pytest.mark.parametrize(("n_nonmembers", "fpr"), [(500, 0.1), (1000, 0.01), (500, 0.01)])
@pytest.mark.parametrize("shared", [0.0, 0.9])
def test_models_that_leak_equally_do_not_differ(n_nonmembers: int, fpr: float, shared: float) -> None:
    """Their thresholds vary, too: at fixed ones, three in four such pairs differed."""
    is_member = np.arange(2000 + n_nonmembers) < 2000
    rng, n_apart = np.random.default_rng(0), 0
    for _ in range(N_DRAWS):
        common, *own = rng.normal(size=(3, len(is_member)))
        first, second = (
            np.sqrt(shared) * common + np.sqrt(1 - shared) * one + 1.5 * is_member for one in own
        )
        interval = tpr_difference(first, second, is_member, is_member, fpr).interval
        n_apart += not interval.low <= 0 <= interval.high
    assert n_apart / N_DRAWS <= 0.08  # 5%, and two and a half standard errors


def test_no_gate_passes_because_none_of_50_members_was_called(tmp_path: Path) -> None:
    """None of 50 is up to 10% with 99% confidence, so a limit of 2% cannot be decided."""
    is_member, labels = np.arange(1050) < 50, np.arange(1050) % 2
    log_odds = np.linspace(0, 3, 1050)
    log_odds[is_member] = np.linspace(1, 2, 50)  # below the highest non-members
    logits = np.zeros((1050, 2), dtype=np.float32)
    logits[np.arange(1050), labels] = log_odds
    np.savez(tmp_path / "outputs.npz", logits=logits, labels=labels, is_member=is_member)
    verdict = audit(
        SavedPredictions(tmp_path / "outputs.npz"),
        out=tmp_path / "run",
        attacks=["loss"],
        fpr=[0.01],
        gate=Gate(max_tpr=(TprLimit(0.01, 0.02),)),
    )
    assert verdict.results.attacks["loss"].tpr_at_fpr[0].value == 0
    assert verdict.outcome == "inconclusive"


def test_eleven_of_twelve_right_is_not_called_guessing() -> None:
    correct, in_mask = np.ones((1, 212), dtype=bool), np.arange(212)[None] < 12
    correct[0, 0] = False
    outcome = check_accuracy(correct, in_mask, np.array([0]), np.arange(212) % 2)
    assert outcome.status == "warning" and "With 12 of them" in outcome.sentence


def test_a_model_that_guesses_is_an_alarm() -> None:
    rng = np.random.default_rng(0)
    correct, in_mask = rng.random((1, 500)) < 0.5, np.arange(500)[None] < 250
    assert check_accuracy(correct, in_mask, np.array([0]), np.arange(500) % 2).status == "failed"
