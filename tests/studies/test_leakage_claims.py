"""The page of the leakage study: rules of its verdicts, its tables, and whether its numbers still hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from leakscope.bank.results import parse_results
from leakscope.bank.run_folder import read_json
from leakscope.errors import InputError
from leakscope.leakage.inequalities import membership_entropy
from leakscope.studies.claims import Outcome
from leakscope.studies.leakage.claims import PUBLICATION, settle
from leakscope.studies.leakage.config import FIGURES, NETWORK, LeakageConfig, settings
from leakscope.studies.leakage.judge import judge_point
from leakscope.studies.leakage.linear import linear_experiments
from leakscope.studies.leakage.network import network_experiments
from leakscope.studies.leakage.page import command
from leakscope.studies.leakage.page_charts import number
from leakscope.studies.leakage.page_extensions import privacy_body
from leakscope.studies.leakage.page_tables import IMPRECISE, SATURATED, fit_quality
from leakscope.studies.leakage.results import LeakageResults, Point
from leakscope.studies.leakage.universe import load_universe
from tests.cli.command import run_command
from tests.published_data import root_with

REPO = Path(__file__).resolve().parents[2]
COMMITTED = REPO / "docs" / "results" / "leakage"


@pytest.fixture(scope="module")
def committed() -> LeakageResults:
    (file,) = COMMITTED.glob("*.json")
    return parse_results(read_json(file), LeakageResults, file)


def outcomes(results: LeakageResults) -> dict[str, Outcome]:
    return {entry.claim.key: entry.outcome for entry in settle([results])}


def with_changed_points(results: LeakageResults, change: Callable[[int, Point], Point]) -> LeakageResults:
    """The results with every point changed; `change` gets its position among the points of all figures."""
    position, figures = count(), {}
    for figure, of_figure in results.figures.items():
        points = tuple(change(next(position), point) for point in of_figure.points)
        figures[figure] = replace(of_figure, points=points)
    return replace(results, figures=figures)


def test_what_is_said_of_all_points_has_one_rule(committed: LeakageResults) -> None:
    """Reproduced at all points, same direction at more than half, not reproduced at half of them or fewer."""

    def changed(n_holding: int) -> LeakageResults:
        def change(i: int, point: Point) -> Point:
            outliers = (2.0,) if i < n_holding else (-2.0,)  # a value below the box is no exposed record
            box = replace(point.advantage.box, outliers=outliers)
            most = replace(point.maximal_bits, attained=0.1, attained_largest=0.3 if i < n_holding else 0.1)
            return replace(point, advantage=replace(point.advantage, box=box), maximal_bits=most)

        return with_changed_points(committed, change)

    for n_holding, expected in (
        (34, Outcome.REPRODUCED), (33, Outcome.SAME_DIRECTION), (18, Outcome.SAME_DIRECTION),
        (17, Outcome.NOT_REPRODUCED),
    ):  # fmt: skip
        assert outcomes(changed(n_holding))["order-infinity"] is expected, n_holding
    for n_holding, expected in (
        (34, Outcome.REPRODUCED), (33, Outcome.SAME_DIRECTION), (11, Outcome.SAME_DIRECTION),
        (10, Outcome.NOT_REPRODUCED),
    ):  # fmt: skip
        assert outcomes(changed(n_holding))["outliers"] is expected, n_holding  # 10 of 34: at most 47.5%


def test_two_kinds_of_models_do_not_settle_a_claim_about_any(committed: LeakageResults) -> None:
    assert outcomes(committed)["any-model"] is Outcome.SAME_DIRECTION
    points = tuple(replace(point, value=1000 - point.value) for point in committed.figures[2].points)
    turned = {**committed.figures, 2: replace(committed.figures[2], points=points)}
    assert outcomes(replace(committed, figures=turned))["any-model"] is Outcome.REFUTED


def test_one_pair_of_models_does_not_settle_a_claim_about_complex_ones(committed: LeakageResults) -> None:
    assert outcomes(committed)["complex-models"] is Outcome.SAME_DIRECTION
    reversed_pairs = tuple(replace(pair, advantage=-pair.advantage) for pair in committed.network)
    assert outcomes(replace(committed, network=reversed_pairs))["complex-models"] is Outcome.REFUTED


def test_distinct_records_are_judged_by_intervals_at_every_size(committed: LeakageResults) -> None:
    (found,) = [entry for entry in settle([committed]) if entry.claim.key == "distinct"]
    points = committed.figures[1].points
    assert all(point.distinctness.low is not None for point in points)
    first = points[0].distinctness
    assert f"{first.spearman:+.2f} ({first.low:+.2f} to {first.high:+.2f}) at 10" in found.ours
    for lows, expected in (
        ([0.1] * 6, Outcome.REPRODUCED),
        ([0.1] * 4 + [-0.1] * 2, Outcome.SAME_DIRECTION),
        ([0.1] * 3 + [-0.1] * 3, Outcome.NOT_REPRODUCED),
    ):
        moved = tuple(
            replace(point, distinctness=replace(point.distinctness, low=low))
            for point, low in zip(points, lows, strict=True)
        )
        figures = {**committed.figures, 1: replace(committed.figures[1], points=moved)}
        assert outcomes(replace(committed, figures=figures))["distinct"] is expected, lows


def test_the_adversary_that_exceeds_the_fit_has_a_row(committed: LeakageResults) -> None:
    (row,) = [entry for entry in settle([committed]) if entry.claim.key == "fitted-variation"]
    assert row.outcome is Outcome.REFUTED and row.ours.startswith("17 records beyond it, at 7 of 34 points")
    none = with_changed_points(
        committed,
        lambda _, p: replace(p, inequalities=replace(p.inequalities, likelihood_ratio_beyond=0)),
    )
    (row,) = [entry for entry in settle([none]) if entry.claim.key == "fitted-variation"]
    assert row.outcome is Outcome.REPRODUCED and "not Gaussian there" not in row.why


def test_one_network_does_not_settle_a_claim_about_general_models(committed: LeakageResults) -> None:
    assert outcomes(committed)["deep-networks"] is Outcome.SAME_DIRECTION
    points = committed.figures[NETWORK].points
    advantages = [point.advantage for point in reversed(points)]
    turned = tuple(replace(p, advantage=one) for p, one in zip(points, advantages, strict=True))
    figures = {**committed.figures, NETWORK: replace(committed.figures[NETWORK], points=turned)}
    assert outcomes(replace(committed, figures=figures))["deep-networks"] is Outcome.NOT_REPRODUCED


def test_the_fit_is_undecided_where_nearest_neighbors_cannot_see(committed: LeakageResults) -> None:
    """In figure 3 they give a quarter of the Gaussian value, and would give a third if the fit were right."""
    saturated = committed.figures[3].points[0].output
    assert saturated.neighbours and saturated.neighbours.mean and saturated.gaussian_compared
    assert saturated.gaussian_compared > 4 * saturated.neighbours.mean
    assert fit_quality(saturated) == SATURATED
    right = replace(saturated, neighbours_if_gaussian=saturated.gaussian_compared)
    sharp = replace(right, relative_difference=0.1, relative_difference_half_width=0.2)
    assert fit_quality(sharp) == "no misfit seen"
    assert fit_quality(replace(sharp, relative_difference_half_width=0.3)) == IMPRECISE
    assert fit_quality(replace(sharp, relative_difference_half_width=0.05)) == "differs"
    assert fit_quality(replace(saturated, is_poor=True)) == "poor"


def test_the_page_has_every_point_of_every_figure(committed: LeakageResults) -> None:
    page = PUBLICATION.page(COMMITTED)
    for figure, of_figure in committed.figures.items():
        part = page.split(f"### Figure {figure}:")[1].split("###")[0]
        for point in of_figure.points:
            information = point.rho_mi_bits
            rows = [row for row in part.split("\n") if row.startswith(f"| {number(point.value)} |")]
            assert len(rows) == 3
            assert f"| {number(point.advantage.median)} (" in rows[0]
            assert f"| {number(point.rho_kl.mean)} (" in rows[0]
            if point.rho_kl_finite_precision:
                assert f"| {number(point.rho_kl_finite_precision.mean)} (" in rows[0]
            assert f"| {number(information.mean)} | {information.at_sampling_prior.prior:.2e} |" in rows[1]
            assert f"{point.maximal_bits.attained:.3f} (" in rows[1]
            near = point.output.neighbours
            assert near is not None and f"| {number(near.floor)} ({number(near.floor_low)} to " in rows[2]


def test_accuracies_below_a_constant_guess_are_marked(committed: LeakageResults) -> None:
    privacy = committed.privacy
    assert privacy is not None and 0.74 < privacy.constant_accuracy < 0.78  # 76% of all have a low income
    below = [p for p in (*privacy.analytic, *privacy.classical) if p.accuracy < privacy.constant_accuracy]
    text = PUBLICATION.page(COMMITTED)
    assert text.count(", below a constant guess |") == len(below) == 8
    assert "worse than that at epsilon 2 and below" in text
    better = replace(privacy, constant_accuracy=0.5)
    assert "every released model exceeds it" in str(privacy_body(better))


# Rounding of float64, and of the networks' float32, grows by the condition of a regression and over training
# steps: half of the digits must stay.
LINEAR_TOLERANCE = float(np.sqrt(np.finfo(np.float64).eps))
NETWORK_TOLERANCE = float(np.sqrt(np.finfo(np.float32).eps))


def numbers_of(point: Point) -> list[float | None]:
    """What the page says of a point: advantage, leakage of parameters and output, information."""
    near = point.output.neighbours
    return [
        point.advantage.median, point.advantage.mean, point.rho_kl.mean, point.rho_kl.mean_high,
        point.output.gaussian.mean, near.mean if near else None, near.floor if near else None,
        point.output.neighbours_if_gaussian, point.rho_mi_bits.mean, point.rho_mi_bits.at_sampling_prior.mean,
        point.maximal_bits.attained, point.inequalities.total_variation,
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("figure", "tolerance"), [(1, LINEAR_TOLERANCE), (NETWORK, NETWORK_TOLERANCE)])
def test_the_committed_results_are_those_of_the_present_code(
    committed: LeakageResults, figure: int, tolerance: float
) -> None:
    """Train the regressions of figure 1, and the smallest networks of figure 2, again."""
    config = committed.config
    universe = load_universe(config.dataset, config.records, config.seed, root_with("adult"))
    points = settings(config)[figure]
    if figure == NETWORK:
        found = network_experiments(config, universe, figure, points[:1], lambda _: None)
    else:
        found = linear_experiments(config, universe, figure, points, lambda _: None)
    for setting, experiment, then in zip(points, found, committed.figures[figure].points, strict=False):
        now = judge_point(config, figure, setting, experiment)
        assert numbers_of(now) == pytest.approx(numbers_of(then), rel=tolerance, abs=tolerance)


def test_the_committed_configuration_is_that_of_the_command(committed: LeakageResults) -> None:
    assert committed.config == LeakageConfig() and committed.config.network_trials == 100
    assert set(committed.figures) == set(FIGURES)


SMALL = ("--records", "2", "--trials", "20", "--figure", "5")


@pytest.mark.slow
def test_priors_are_in_results_and_report(tmp_path: Path) -> None:
    options = (*SMALL, "--prior", "0.5", "--prior", "0.01", "--prior", "0.5")
    shown = run_command("study", "leakage", "--data-dir", tmp_path, *options, "--out", tmp_path / "run")
    assert shown.exit_code == 0, shown.err
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["config"]["priors"] == [0.01, 0.5]
    for point in results["figures"]["5"]["points"]:
        information = point["rho_mi_bits"]
        low, half = information["at_priors"]
        assert (low["prior"], half["prior"]) == (0.01, 0.5)
        error = 3 * (half["error"] + information["error"])
        assert half["mean"] == pytest.approx(information["mean"], abs=error + 1e-6)  # two ways to one number
        assert half["share"] == pytest.approx(half["mean"]) and low["mean"] < membership_entropy(
            0.01
        ) / np.log(2)
    report = (tmp_path / "run" / "report.md").read_text()
    assert "rho_MI at 0.01, bits | rho_MI at 0.5, bits" in report and "the given priors 0.01, 0.5" in report
    assert run_command("verify", tmp_path / "run").exit_code == 0


def test_priors_outside_0_to_1_are_refused(tmp_path: Path) -> None:
    for wrong in (0.0, 1.0, -0.1, float("nan")):
        with pytest.raises(InputError, match=r"priors=\[.*\]: each must be above 0 and below 1"):
            LeakageConfig(priors=(0.5, wrong))
    shown = run_command("study", "leakage", *SMALL, "--prior", "2", "--out", tmp_path / "run")
    assert shown.exit_code == 2 and "priors=[2.0]" in shown.err and not (tmp_path / "run").exists()


def test_the_command_of_a_report_keeps_priors_and_extensions() -> None:
    whole = str(command(LeakageConfig(priors=(0.1,))))
    assert whole.endswith("--budget quick --prior 0.1 --out runs/again")  # all figures and all extensions
    part = str(command(LeakageConfig(figures=(1,), extensions=(), priors=(0.1,))))
    assert part.endswith("--budget quick --figure 1 --prior 0.1 --out runs/again")


def test_the_slope_has_the_error_of_the_records(committed: LeakageResults) -> None:
    """Without it, another choice of 40 records turns the verdict."""
    assert outcomes(committed)["inverse-size"] is Outcome.REPRODUCED

    def narrow(_: int, point: Point) -> Point:
        mean = point.advantage.mean
        return replace(point, advantage=replace(point.advantage, mean_low=mean, mean_high=mean))

    assert outcomes(with_changed_points(committed, narrow))["inverse-size"] is Outcome.SAME_DIRECTION


def test_weaker_adversaries_have_to_lose_half(committed: LeakageResults) -> None:
    """By the ends: where noise is small, the threshold adversary's advantage no longer changes."""
    assert committed.privacy is not None
    first, *rest = committed.privacy.analytic
    for share, expected in (
        (0.5, Outcome.REPRODUCED), (0.9, Outcome.SAME_DIRECTION), (1.1, Outcome.NOT_REPRODUCED)
    ):  # fmt: skip
        weak = replace(first, threshold=share * rest[-1].threshold)
        privacy = replace(committed.privacy, analytic=(weak, *rest))
        assert outcomes(replace(committed, privacy=privacy))["weaker-adversaries"] is expected, share
