"""Committed results are what their commands give: slow tests rerun them, quick ones hold them together.

Sums are rounded in another order on another processor, or without the compiled code that trains small
perceptrons. With torch in place of compiled code (`LEAKSCOPE_COMPILE=0`), no accuracy of a target of the
published protocol changed by more than one record, and no mean AUC of the published attack by more than
0.0014; correctness alone has an AUC of 0.5 + gap / 2, so a record moves it by 0.002. With other kernels of
OpenBLAS, no score of the ensemble's perceptron changed by more than 4e-14.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakscope.bank.results import parse_results
from leakscope.stats.correlation import pearson
from leakscope.stats.roc import auc
from leakscope.studies.ensemble.outputs import read_outputs
from leakscope.studies.ensemble.results import EnsembleResults
from leakscope.studies.ensemble.scores import SCORES
from leakscope.studies.ensemble.study import run_from
from leakscope.studies.scaling.config import PRESETS
from leakscope.studies.scaling.results import ScalingResults, WidthResults
from leakscope.studies.scaling.study import run

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
ONE_RECORD = 1 / 250
AUC_ROUNDING = 0.002
FLOAT32_ROUNDING = 1e-6
ALLOWED = {"train_acc": ONE_RECORD, "test_acc": ONE_RECORD, "attack_auc": AUC_ROUNDING}


def read(study: str, name: str, results_type: type[Any]) -> Any:
    path = RESULTS / study / f"{name}.json"
    return parse_results(json.loads(path.read_text()), results_type, path)


def scores_of(path: Path) -> dict[str, Any]:
    with np.load(path) as file:
        return dict(file)


def differing_repeats(again: WidthResults, committed: WidthResults) -> list[str]:
    """Targets whose figures differ by more than rounding."""
    problems = []
    for one, stored in zip(again.repeats, committed.repeats, strict=True):
        where = f"width {one.hidden_width}, repeat {one.repeat}"
        for figure in ("train_acc", "test_acc"):
            if abs(getattr(one, figure) - getattr(stored, figure)) > ONE_RECORD + 1e-12:
                problems.append(f"{where}: {figure}")
        problems += [f"{where}: AUC of {attack}" for attack, value in one.auc.items()
                     if abs(value - stored.auc[attack]) > AUC_ROUNDING + ONE_RECORD / 2]  # fmt: skip
    return problems


@pytest.mark.slow
def test_the_published_command_gives_the_committed_results(tmp_path: Path) -> None:
    committed: ScalingResults = read("scaling", "published", ScalingResults)
    again = run(PRESETS["published"], tmp_path / "run")
    assert again.config == committed.config
    for row, stored in zip(again.results, committed.results, strict=True):
        assert differing_repeats(row, stored) == []
    assert again.initializations is not None and committed.initializations is not None
    assert again.published_seeds is not None and committed.published_seeds is not None
    for one, stored_spread in zip(
        again.initializations.widths, committed.initializations.widths, strict=True
    ):
        for figure, allowed in (
            ("train_acc", ONE_RECORD),
            ("test_acc", ONE_RECORD),
            ("attack_auc", AUC_ROUNDING),
        ):
            values, stored_values = (getattr(w, figure).values for w in (one, stored_spread))
            np.testing.assert_allclose(values, stored_values, rtol=0, atol=allowed, err_msg=figure)
    for exact, stored_exact in zip(
        again.published_seeds.widths, committed.published_seeds.widths, strict=True
    ):
        for figure, allowed in (
            ("train_acc", ONE_RECORD),
            ("test_acc", ONE_RECORD),
            ("attack_auc", AUC_ROUNDING),
        ):
            assert getattr(exact, figure) == pytest.approx(getattr(stored_exact, figure), abs=allowed)


def test_a_result_of_other_data_is_not_within_rounding() -> None:
    """The tolerance tells one repeat from another, which differ by their initial weights alone."""
    committed: ScalingResults = read("scaling", "published", ScalingResults)
    for row in committed.results:
        shifted = {
            **vars(row),
            "repeats": tuple(
                type(one)(**{**vars(other), "repeat": one.repeat})
                for one, other in zip(row.repeats, row.repeats[1:] + row.repeats[:1], strict=True)
            ),
        }
        assert differing_repeats(WidthResults(**shifted), row) != []


@pytest.mark.parametrize("name", ["published", "wide"])
def test_the_correlations_follow_from_the_committed_figures(name: str) -> None:
    """They are sensitive to rounding, so a rerun cannot hold them to more digits than their figures."""
    results: ScalingResults = read("scaling", name, ScalingResults)
    size = np.log2([row.n_params for row in results.results])
    success = np.array([row.mean_attack_auc for row in results.results])
    gap = np.array([row.mean_overfit_gap for row in results.results])
    stored = results.correlations
    pairs = {"auc_vs_log_params": (success, size), "auc_vs_overfit_gap": (success, gap),
             "gap_vs_log_params": (gap, size)}  # fmt: skip
    for name, pair in pairs.items():
        assert getattr(stored, name).r == pytest.approx(np.corrcoef(*pair)[0, 1], abs=1e-9)
    spread = results.initializations
    assert spread is not None and spread.auc_vs_log_params is not None
    by_initialization = zip(*(width.attack_auc.values for width in spread.widths), strict=True)
    again = [pearson(values, size).r for values in by_initialization]
    np.testing.assert_allclose(again, spread.auc_vs_log_params.values, atol=1e-9)


def test_the_committed_scores_give_the_committed_figures() -> None:
    results: EnsembleResults = read("ensemble", "full", EnsembleResults)
    outputs = read_outputs(RESULTS / "ensemble" / "full-outputs.npz")
    is_member = outputs.is_member[~outputs.is_public]
    scores = scores_of(RESULTS / "ensemble" / f"full-{SCORES}")
    assert scores.keys() == results.attackers.keys()
    for name, one in scores.items():
        assert one.dtype == np.float32 and len(one) == results.private.records == 20_000
        spread, truth = results.attackers[name].private, results.private_truth[name]
        assert float(one.mean(dtype=np.float64)) == pytest.approx(spread.mean, abs=FLOAT32_ROUNDING)
        assert float(one.std(dtype=np.float64)) == pytest.approx(spread.sd, abs=FLOAT32_ROUNDING)
        # Ties that the study breaks are ties again in float32.
        assert auc(one.astype(np.float64), is_member) == pytest.approx(truth.auc.value, abs=5e-4)


def test_what_ties_cost_is_as_the_page_says() -> None:
    """Of the scores as calibrated, and of the tie-broken ones that float32 merges again."""
    results: EnsembleResults = read("ensemble", "full", EnsembleResults)
    figures = results.attackers["mlp"]
    rates = (figures.with_ties.tpr_at_fpr.value, figures.tpr_at_fpr.value)
    outputs = read_outputs(RESULTS / "ensemble" / "full-outputs.npz")
    is_member = outputs.is_member[~outputs.is_public]
    scores = scores_of(RESULTS / "ensemble" / f"full-{SCORES}")["mlp"]
    thresholds = np.unique(scores)
    false_rates, true_rates = (
        1 - np.searchsorted(np.sort(scores[side]), thresholds) / side.sum()
        for side in (~is_member, is_member)
    )
    merged = true_rates[false_rates <= 0.05].max()
    page = " ".join((RESULTS.parent / "ensemble.md").read_text().split())
    assert f"is {100 * rates[0]:.1f}% instead of {100 * rates[1]:.1f}%." in page
    assert f"lowers the TPR of the MLP to {100 * merged:.1f}%." in page


@pytest.mark.slow
@pytest.mark.parametrize("name", ["small", "full"])
def test_the_committed_outputs_give_the_committed_results(name: str, tmp_path: Path) -> None:
    """Not the sha256 of a submission: its last digits depend on the processor."""
    committed: EnsembleResults = read("ensemble", name, EnsembleResults)
    again = run_from(RESULTS / "ensemble" / f"{name}-outputs.npz", tmp_path / "run", {})
    for attacker, stored in committed.attackers.items():
        for one, other in ((again.attackers[attacker], stored),
                           (again.private_truth[attacker], committed.private_truth[attacker])):  # fmt: skip
            for end in ("value", "low", "high"):
                assert getattr(one.auc, end) == pytest.approx(getattr(other.auc, end), abs=1e-6)
                assert getattr(one.tpr_at_fpr, end) == pytest.approx(getattr(other.tpr_at_fpr, end), abs=1e-3)
    for feature, figure in committed.features.items():
        ends = again.features[feature]
        assert (ends.value, ends.low, ends.high) == pytest.approx((figure.value, figure.low, figure.high))
    for rates, stored_rates in zip(again.calibrations, committed.calibrations, strict=True):
        assert rates.isotonic.value == pytest.approx(stored_rates.isotonic.value, abs=1e-3)
        assert rates.sigmoid.value == pytest.approx(stored_rates.sigmoid.value, abs=1e-3)
    if name == "full":
        scores = scores_of(tmp_path / "run" / SCORES)
        for attacker, values in scores_of(RESULTS / "ensemble" / f"full-{SCORES}").items():
            np.testing.assert_allclose(scores[attacker], values, rtol=0, atol=FLOAT32_ROUNDING)
