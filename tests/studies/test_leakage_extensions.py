"""The leakage study beyond its figures: private noise, limits, regularizer, claims; and its words."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy import special

from leakscope.bank.results import parse_results, write_results
from leakscope.bank.run_folder import read_json
from leakscope.leakage.mechanism import delta_of
from leakscope.report.png import draw_png
from leakscope.runs.kinds import schema
from leakscope.studies.claims import Outcome
from leakscope.studies.leakage.claims import PUBLICATION, settle
from leakscope.studies.leakage.config import (
    CLASSICAL,
    DELTA,
    FIGURES,
    PRIVACY,
    ROUNDED,
    LeakageConfig,
    private_sensitivity,
    settings,
)
from leakscope.studies.leakage.judge_extensions import advantage_bound
from leakscope.studies.leakage.page import write_report
from leakscope.studies.leakage.page_extensions import privacy_chart
from leakscope.studies.leakage.results import LeakageResults
from leakscope.studies.leakage.study import recompute, run
from leakscope.studies.leakage.theory import evaluated, rounded_mean_leakage
from tests.cli.command import run_command

REPO = Path(__file__).resolve().parents[2]
COMMITTED = REPO / "docs" / "results" / "leakage"
SMALL = LeakageConfig(
    dataset="digits", figures=(1,), records=3, trials=40, network_records=1, regularizer_steps=2
)


@pytest.fixture(scope="module")
def committed() -> LeakageResults:
    (file,) = COMMITTED.glob("*.json")
    return parse_results(read_json(file), LeakageResults, file)


@pytest.fixture
def report(committed: LeakageResults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The report of the committed results, without pictures."""
    monkeypatch.setattr("leakscope.report.png.draw_png", lambda charts: b"")
    write_results(tmp_path, committed)
    write_report(committed, tmp_path, redacted=False)
    return tmp_path


@pytest.mark.slow
@pytest.mark.usefixtures("whole_audits")
def test_extensions_come_again_from_the_folder(tmp_path: Path) -> None:
    out = tmp_path / "run"
    results = run(SMALL, out)
    assert recompute(out, results.config) == results
    assert results.limits and results.privacy and results.regularizer
    assert len(results.privacy.analytic) == 11 and len(results.limits.clipping) == 7
    text = (out / "report.md").read_text()
    assert "figures/epsilon.png" in text and (out / "figures" / "epsilon.png").stat().st_size > 10_000
    assert "## Published claims" in text


def test_every_axis_is_evenly_spaced() -> None:
    """Categories stand for an axis only where their steps are equal: added, or multiplied."""
    for figure, points in settings(LeakageConfig()).items():
        if figure in FIGURES or figure == PRIVACY:
            values = np.array([point.value for point in points if np.isfinite(point.value)])
            steps = np.diff(values)
            is_even = np.allclose(steps, steps[0]) or np.allclose(
                values[1:] / values[:-1], values[1] / values[0]
            )
            assert is_even, (figure, values)


def test_the_noise_is_calibrated_to_the_sensitivity() -> None:
    for point in settings(LeakageConfig())[PRIVACY][:-1]:
        assert delta_of(point.noise_sd, point.value, private_sensitivity()) <= DELTA
        assert delta_of(0.999 * point.noise_sd, point.value, private_sensitivity()) > DELTA


def test_the_bound_of_differential_privacy_is_sharp() -> None:
    """Randomized response has exactly this advantage; delta adds the share that is revealed outright."""
    for epsilon in (0.1, 1.0, 5.0):
        truth = np.exp(epsilon) / (1 + np.exp(epsilon))
        assert advantage_bound(epsilon, 0.0) == pytest.approx(2 * truth - 1)
    assert advantage_bound(1.0, 0.01) > advantage_bound(1.0, 0.0)
    assert advantage_bound(np.inf, DELTA) == 1 and advantage_bound(0.0, 0.1) == pytest.approx(0.1)


def test_on_adult_no_measured_advantage_exceeds_its_bound(committed: LeakageResults) -> None:
    assert committed.privacy is not None
    for point in (*committed.privacy.analytic, *committed.privacy.classical):
        assert point.beyond == 0 and point.largest_measured_low <= point.gaussian_bound
        assert point.informed - 3 * point.informed_error <= point.worst_pair <= point.gaussian_bound
        assert point.gaussian_bound <= point.advantage_bound
        if point.leakage_bound is not None:
            assert point.leakage_high is not None and point.leakage_high < point.leakage_bound


def test_on_adult_leakage_and_advantages_fall_with_epsilon(committed: LeakageResults) -> None:
    assert committed.privacy is not None
    points = committed.privacy.analytic
    for name in ("leakage", "threshold", "informed", "worst_pair", "accuracy"):
        assert (np.diff([getattr(point, name) for point in points]) >= 0).all(), name
    smallest, largest = points[0], points[-2]
    assert smallest.leakage_high is not None and largest.leakage_low is not None
    assert smallest.leakage_high < largest.leakage_low and smallest.informed < 0.1 < largest.informed


def test_the_classical_rule_adds_more_noise(committed: LeakageResults) -> None:
    assert committed.privacy is not None
    for classical, analytic in zip(committed.privacy.classical, committed.privacy.analytic, strict=False):
        assert classical.epsilon == analytic.epsilon and classical.sigma > analytic.sigma


def test_figure_2_has_both_estimates_with_intervals_at_every_size(committed: LeakageResults) -> None:
    for point in committed.figures[2].points:
        gaussian, neighbours = point.output.gaussian, point.output.neighbours
        assert neighbours is not None and neighbours.mean is not None and gaussian.mean is not None
        assert neighbours.mean_low is not None and gaussian.mean_low is not None
        assert neighbours.mean_low < neighbours.mean and gaussian.mean_low < gaussian.mean
    first = committed.figures[2].points[0].output
    assert first.is_poor and first.neighbours_if_gaussian is not None and first.gaussian.mean is not None
    assert first.neighbours_if_gaussian < 0.1 * first.gaussian.mean  # its bias at this K is stated


def test_really_rounding_reveals_nothing_at_the_heaviest_penalty(committed: LeakageResults) -> None:
    before, last = (point.rho_kl_finite_precision for point in committed.figures[3].points[-2:])
    assert before is not None and last is not None
    assert last.mean == 0 == last.mean_high
    assert before.mean is not None and 0.03 < before.mean < 0.14  # noise of the same size would give 0.143
    assert [point.grid for point in settings(committed.config)[ROUNDED]] == [0.01] * 7


def outcomes(results: LeakageResults) -> dict[str, Outcome]:
    return {entry.claim.key: entry.outcome for entry in settle([results])}


def test_the_adversary_that_exceeds_the_fit_is_counted(committed: LeakageResults) -> None:
    (check,) = [check for check in committed.checks if check.statement.startswith("likelihood-ratio")]
    assert check.holds is False and "17 records, at 7" in check.detail
    headline = run_command("study", "leakage", "--help").out
    assert "--claims" in headline and "--extension" in headline


def test_verdicts_follow_the_numbers(committed: LeakageResults) -> None:
    """Turn what was measured around, and the verdict turns."""
    before = outcomes(committed)
    assert before["figure-1-leakage"] is Outcome.REPRODUCED and before["theorem-1"] is Outcome.REFUTED
    points = tuple(replace(point, value=1000 - point.value) for point in committed.figures[1].points)
    turned = {**committed.figures, 1: replace(committed.figures[1], points=points)}
    assert outcomes(replace(committed, figures=turned))["figure-1-leakage"] is Outcome.REFUTED
    wide = tuple(
        replace(p, rho_kl=replace(p.rho_kl, mean_low=0.0, mean_high=1e6)) for p in committed.figures[1].points
    )
    unsure = {**committed.figures, 1: replace(committed.figures[1], points=wide)}
    assert outcomes(replace(committed, figures=unsure))["figure-1-leakage"] is Outcome.SAME_DIRECTION


def test_rules_of_formulas_follow_the_numbers(committed: LeakageResults) -> None:
    theory = replace(
        committed.theory, kl_reduction_ratio=2.0, mi_reduction_ratio=2.0, neighbours_counted=3,
        printed_divergence=committed.theory.exact_divergence, classical_delta_above_one=1e-9,
        error_sum=2 * committed.theory.one_minus_variation, printed_left_out_share=0.7,
        printed_slope=committed.theory.exact_slope, leakage_by_size=(0.02, 0.01),
        leakage_by_weight=(0.02, 0.01),
    )  # fmt: skip
    found = outcomes(replace(committed, theory=theory))
    assert found["noise-order"] is Outcome.REPRODUCED
    assert outcomes(committed)["noise-order"] is Outcome.SAME_DIRECTION  # t^2 is O(t), but not the rate
    larger = replace(committed.theory, kl_reduction_ratio=1.2)
    assert outcomes(replace(committed, theory=larger))["noise-order"] is Outcome.REFUTED
    refuted = (
        "theorem-4-order",
        "neighbors",
        "gaussian-divergence",
        "classical-noise",
        "le-cam",
        "prior-out",
        "fisher-divergence",
        "monotone",
    )
    assert all(outcomes(committed)[key] is Outcome.REFUTED for key in refuted)
    assert all(found[key] is Outcome.REPRODUCED for key in refuted)


def test_leakage_of_a_rounded_mean_is_that_of_all_training_sets() -> None:
    """Training sets listed one by one; leakage of one record at a time."""
    values, size, least = [1] * 18 + [0] * 2, 4, 0.55 * 1.5 * 4
    chosen = [set(one) for one in combinations(range(20), size)]
    results = np.array([sum(values[i] for i in one) >= least for one in chosen])
    leakage = []
    for record in range(20):
        is_in = np.array([record in one for one in chosen])
        joint = np.array([[(is_in == z) & (results == out) for out in (0, 1)] for z in (0, 1)]).mean(axis=2)
        apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
        leakage.append(special.rel_entr(joint, apart).sum() / np.log(2))
    assert rounded_mean_leakage(size, 0.5) == pytest.approx(np.mean(leakage), rel=1e-12)
    assert np.mean(leakage) > 4 * rounded_mean_leakage(size, 0.0)


def test_rules_of_extensions_follow_the_numbers(committed: LeakageResults) -> None:
    assert committed.regularizer and committed.limits
    none = tuple(
        replace(one, leakage=0.0, leakage_low=-1.0, leakage_high=1.0)
        for one in committed.regularizer.comparisons
    )
    some = tuple(replace(point, leakage=0.1, informed=0.2) for point in committed.limits.clipping)
    changed = replace(
        committed,
        regularizer=replace(committed.regularizer, comparisons=none),
        limits=replace(committed.limits, clipping=some),
    )
    found = outcomes(changed)
    assert found["regularizer"] is Outcome.NOT_REPRODUCED
    assert found["theorem-3-lipschitz"] is Outcome.SAME_DIRECTION


def test_a_run_without_a_part_says_nothing_about_its_claims(committed: LeakageResults) -> None:
    found = {
        entry.claim.key: entry for entry in settle([replace(committed, figures={}, privacy=None, network=())])
    }
    for key in ("figure-1-leakage", "noise-order", "complex-models"):
        assert found[key].outcome is Outcome.NOT_TESTABLE and "say nothing" in found[key].why
    assert found["theorem-1"].outcome is Outcome.REFUTED


def test_the_option_writes_the_page_and_runs_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "leakage"
    folder.mkdir()
    (file,) = COMMITTED.glob("*.json")
    (folder / "a.json").write_bytes(file.read_bytes())
    shown = run_command("study", "leakage", "--claims", folder, "--out", tmp_path / "run")
    n_claims = len(PUBLICATION.claims)
    assert shown.exit_code == 0 and re.match(rf"{n_claims} claims: \d+ reproduced, ", shown.out)
    assert (tmp_path / "leakage.md").read_text().count("\n| ") > n_claims and not (tmp_path / "run").exists()
    missing = run_command("study", "leakage", "--claims", tmp_path / "none")
    assert missing.exit_code == 2 and "none' is no folder; give one with results files" in missing.err
    (tmp_path / "none").mkdir()
    empty = run_command("study", "leakage", "--claims", tmp_path / "none")
    assert empty.exit_code == 2 and "has no results files" in empty.err


BOUND = re.compile(r"\bbound(s|ed|ing)?\b", re.IGNORECASE)
ABOUT_PRIVACY = re.compile(r"eps|private|privacy|sensitivity|mechanism", re.IGNORECASE)
DENIED = re.compile(r"\b(no|not a|nothing)\b[^.]*\bbound", re.IGNORECASE)


def sentences(text: str) -> Iterator[str]:
    for paragraph in text.split("\n"):
        yield from re.split(r"(?<=[.;])\s", paragraph)


def called_a_bound(text: str) -> list[str]:
    """Sentences that call something a bound outside differential privacy, without denying it."""
    return [
        sentence
        for sentence in sentences(text)
        if BOUND.search(sentence) and not (ABOUT_PRIVACY.search(sentence) or DENIED.search(sentence))
    ]


def test_the_search_for_bounds_finds_them() -> None:
    assert called_a_bound("A Gaussian fit gives 457 nats, a lower bound.")
    assert not called_a_bound("A fit is no bound. (eps, delta) bounds the advantage.")


@pytest.mark.slow
def test_no_text_of_the_study_calls_a_fit_a_bound(report: Path, tmp_path: Path) -> None:
    """The report, what the command prints, the claims, and the descriptions of every field of the results."""
    printed = run_command(
        "study", "leakage", "--data-dir", tmp_path, "--records", "2", "--trials", "20", "--figure", "3",
        "--out", tmp_path / "run",
    )  # fmt: skip
    assert printed.exit_code == 0, printed.err
    described = schema("study leakage")
    texts = {
        "report.md": (report / "report.md").read_text(),
        "report.html": re.sub(r"<[^>]+>", "\n", (report / "report.html").read_text().split("<script")[0]),
        "printed": printed.out + printed.err,
        "claims": PUBLICATION.page(COMMITTED),
        "schema": "\n".join(
            f"{definition.get('title', '')}. {name}: {value.get('description', '')}"
            for definition in described["$defs"].values()
            for name, value in definition["properties"].items()
        ),
    }
    for name, text in texts.items():
        found = [line for line in called_a_bound(text) if "|" not in line]
        assert found == [], name
    heads = [line for line in texts["report.md"].split("\n") if line.startswith("|") and BOUND.search(line)]
    assert all(line.startswith(("| epsilon |", "| private noise")) for line in heads), heads


def test_fields_called_bounds_are_those_of_the_mechanism() -> None:
    named = {
        (kind, name)
        for kind, definition in schema("study leakage")["$defs"].items()
        for name in definition["properties"]
        if "bound" in name
    }
    assert {kind for kind, _ in named} == {"PrivatePoint"}


def test_no_page_of_the_documentation_calls_a_fit_a_bound() -> None:
    about_fits = re.compile(r"\bfit(s|ted)?\b|gaussian", re.IGNORECASE)
    page = re.sub(r"```.*?```", "", (REPO / "docs" / "leakage.md").read_text(), flags=re.DOTALL)
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\n|\n- ", page)]
    found = [line for part in paragraphs for line in called_a_bound(part) if about_fits.search(line)]
    assert found == []


def test_numbers_of_the_page_on_leakage_are_those_of_the_committed_results(committed: LeakageResults) -> None:
    page = " ".join((REPO / "docs" / "leakage.md").read_text().split())
    points = [point for figure in committed.figures.values() for point in figure.points]
    beyond = [point.inequalities.likelihood_ratio_beyond for point in points]
    assert f"for {sum(beyond)} records at {sum(n > 0 for n in beyond)} of {len(points)} points" in page
    output = committed.figures[2].points[0].output
    assert output.neighbours is not None and output.neighbours.mean is not None
    assert 2 < output.neighbours.mean < 3 and "nearest neighbors give 2 to 3 nats" in page
    assert output.gaussian.mean is not None and 100 < output.gaussian.mean < 1000
    assert f"about {output.neighbours_if_gaussian:.1f} nats if the fit were right" in page


@pytest.mark.usefixtures("whole_audits")
def test_the_picture_on_the_page_is_drawn_from_the_committed_results(committed: LeakageResults) -> None:
    assert committed.privacy is not None
    drawn = io.BytesIO(draw_png([privacy_chart(committed.privacy)]))
    found, expected = (
        np.asarray(Image.open(source).convert("L"), dtype=np.float64)
        for source in (drawn, COMMITTED.parent / "figures" / "epsilon.png")
    )
    assert found.shape == expected.shape
    assert np.abs(found - expected).mean() < 1  # fonts may differ between versions of matplotlib


def test_what_is_the_same_in_every_run_is_as_committed(committed: LeakageResults) -> None:
    """Formulas, sensitivity and noise do not depend on the records."""
    assert committed.privacy is not None
    for name, value in vars(evaluated()).items():
        assert getattr(committed.theory, name) == pytest.approx(value, rel=1e-6), name
    assert committed.privacy.sensitivity == pytest.approx(private_sensitivity(), rel=1e-12)
    points = settings(committed.config)
    for part, found in ((PRIVACY, committed.privacy.analytic), (CLASSICAL, committed.privacy.classical)):
        assert [point.sigma for point in found] == pytest.approx([point.noise_sd for point in points[part]])
