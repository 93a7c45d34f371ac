"""How the scaling and ensemble studies settle claims: by rules, from numbers, in both directions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from leakscope.bank.results import parse_results
from leakscope.single_model.results import AucFigure
from leakscope.stats.estimate import Estimate
from leakscope.studies.claims import Outcome, Settled
from leakscope.studies.ensemble import claims as ensemble
from leakscope.studies.ensemble.results import EnsembleResults
from leakscope.studies.scaling import claims as scaling
from leakscope.studies.scaling.evidence import event, r_range
from leakscope.studies.scaling.predictors import verdict_of
from leakscope.studies.scaling.published import MEASURED_TIME
from leakscope.studies.scaling.results import Compared, Correlation, ScalingResults
from leakscope.studies.scaling.settle_further import hypothesis_outcomes
from tests.cli.command import run_command

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"


def read(study: str, name: str, results_type: type[Any]) -> Any:
    path = RESULTS / study / f"{name}.json"
    return parse_results(json.loads(path.read_text()), results_type, path)


def by_key(settled: list[Settled]) -> dict[str, Settled]:
    return {entry.claim.key: entry for entry in settled}


@pytest.fixture(scope="module")
def published() -> ScalingResults:
    results: ScalingResults = read("scaling", "published", ScalingResults)
    return results


@pytest.fixture(scope="module")
def decisive() -> ScalingResults:
    results: ScalingResults = read("scaling", "decisive", ScalingResults)
    return results


@pytest.fixture(scope="module")
def wide() -> ScalingResults:
    results: ScalingResults = read("scaling", "wide", ScalingResults)
    return results


@pytest.fixture(scope="module")
def small() -> EnsembleResults:
    results: EnsembleResults = read("ensemble", "small", EnsembleResults)
    return results


@pytest.mark.parametrize("study", ["scaling", "ensemble"])
def test_the_command_writes_the_page_prints_the_counts_and_runs_nothing(study: str, tmp_path: Path) -> None:
    folder = tmp_path / study
    folder.mkdir()
    for file in (RESULTS / study).glob("*.json"):
        (folder / file.name).write_bytes(file.read_bytes())
    done = run_command("study", study, "--claims", folder, "--out", tmp_path / "run")
    assert (done.exit_code, done.err) == (0, "")
    assert folder.with_suffix(".md").read_text() == (RESULTS / f"{study}.md").read_text()
    counted = done.out.splitlines()[0]
    assert counted in (RESULTS / f"{study}.md").read_text() and "claims: " in counted
    assert not (tmp_path / "run").exists()


def test_every_cell_of_the_table_agrees_and_a_changed_one_does_not(published: ScalingResults) -> None:
    settled = by_key(scaling.settle([published]))
    assert settled["attack_auc_16"].outcome is Outcome.REPRODUCED
    assert "rarely" in settled["attack_auc_16"].why  # outside the range over initializations
    exact = published.published_seeds
    assert exact is not None
    moved = replace(exact.widths[0], attack_auc=0.5)
    changed = replace(published, published_seeds=replace(exact, widths=(moved, *exact.widths[1:])))
    assert by_key(scaling.settle([changed]))["attack_auc_16"].outcome is Outcome.SAME_DIRECTION
    assert by_key(scaling.settle([changed]))["protocol"].outcome is Outcome.NOT_REPRODUCED


def test_what_other_initial_weights_reverse_is_called_noise(published: ScalingResults) -> None:
    settled = by_key(scaling.settle([published]))
    for key in ("gap_ahead", "auc_rises", "not_monotone", "auc_vs_log_params", "auc_vs_overfit_gap"):
        assert settled[key].outcome is Outcome.NOISE, key
    assert settled["gap_vs_log_params"].outcome is Outcome.REPRODUCED


def test_a_success_on_one_dataset_that_others_do_not_give_is_called_noise(
    published: ScalingResults, decisive: ScalingResults
) -> None:
    """The five AUCs above 0.5 share one dataset, so they are one draw and not five."""
    alone = by_key(scaling.settle([published]))["auc_modest"]
    entry = by_key(scaling.settle([published, decisive]))["auc_modest"]
    assert alone.outcome is Outcome.REPRODUCED and "on the published data alone" in alone.why
    assert entry.outcome is Outcome.NOISE and "0.497 (0.491 to 0.503)" in entry.why
    succeeds = {**decisive.gap_or_size, "shokri": decisive.gap_or_size["lira"]}
    other = by_key(scaling.settle([published, replace(decisive, gap_or_size=succeeds)]))["auc_modest"]
    assert other.outcome is Outcome.REPRODUCED


@pytest.mark.parametrize(
    ("holds", "share", "outcome"),
    [
        (True, 1.0, Outcome.REPRODUCED),
        (True, 0.6, Outcome.NOISE),
        (False, 0.6, Outcome.NOT_REPRODUCED),
        (False, 0.0, Outcome.REFUTED),
    ],
)
def test_the_verdict_on_a_statement(holds: bool, share: float, outcome: Outcome) -> None:
    assert event(holds, share) is outcome


def test_the_range_of_r_holds_the_value_and_widens_with_the_moves() -> None:
    x, y = (1.0, 2.0, 3.0, 4.0, 5.0), (1.0, 2.5, 2.0, 4.0, 5.5)
    low, high = r_range(x, y, 0.0, 0.0)
    assert low == high
    wider = r_range(x, y, 0.0, 0.2)
    assert wider[0] < low < wider[1] <= 1


def test_without_their_evidence_claims_are_not_testable(published: ScalingResults) -> None:
    settled = by_key(scaling.settle([published]))
    for key in ("gap_as_good", "real_data", "larger_data", "class_variance"):
        assert settled[key].outcome is Outcome.NOT_TESTABLE
        assert settled[key].why == "these results say nothing about it"


def test_the_decisive_study_is_undecided_and_names_the_attack_that_fails(decisive: ScalingResults) -> None:
    assert decisive.gap_or_size["lira"].verdict == "undecided"
    assert decisive.gap_or_size["shokri"].verdict == "no success"
    whole, five = decisive.gap_or_size["lira"].over
    assert whole.coefficients["pearson"].favors == "gap"
    assert whole.coefficients["spearman"].favors == whole.coefficients["kendall"].favors == "size"
    assert five.hidden_widths == (16, 32, 64, 128, 256)
    entry = by_key(scaling.settle([decisive]))["gap_as_good"]
    assert entry.outcome is Outcome.NOT_TESTABLE and entry.why.startswith("undecided: ")
    assert "shokri: no success" in entry.ours and "1 favor gap, 4 favor size" in entry.why


def favoring(decisive: ScalingResults, kinds: dict[str, str]) -> ScalingResults:
    """Every comparison of the decisive study that favors a key of `kinds` favors its value instead."""

    def changed(compared: Compared) -> Compared:
        return replace(compared, favors=kinds.get(compared.favors, compared.favors))

    findings = {
        name: replace(
            finding,
            over=tuple(
                replace(part, coefficients={by: changed(one) for by, one in part.coefficients.items()})
                for part in finding.over
            ),
        )
        for name, finding in decisive.gap_or_size.items()
    }
    return replace(decisive, gap_or_size=findings)


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ({"size": "neither"}, Outcome.REPRODUCED),
        ({"gap": "neither"}, Outcome.NOT_TESTABLE),
        ({"gap": "size", "neither": "size"}, Outcome.REFUTED),
    ],
)
def test_the_gap_is_at_least_as_good_where_size_is_nowhere_ahead(
    decisive: ScalingResults, kinds: dict[str, str], expected: Outcome
) -> None:
    assert by_key(scaling.settle([favoring(decisive, kinds)]))["gap_as_good"].outcome is expected


def test_the_dip_at_width_128_counts_only_with_a_larger_gap(published: ScalingResults) -> None:
    assert "gap 0.344 against 0.329" in by_key(scaling.settle([published]))["not_monotone"].ours
    assert published.published_seeds is not None
    rows = tuple(
        replace(row, overfit_gap=0.3) if row.hidden_width == 128 else row
        for row in published.published_seeds.widths
    )
    smaller = replace(published, published_seeds=replace(published.published_seeds, widths=rows))
    assert by_key(scaling.settle([smaller]))["not_monotone"].outcome is Outcome.NOT_REPRODUCED


@pytest.mark.parametrize(
    ("favors", "verdict"),
    [(("gap", "gap"), "gap"), (("gap", "size"), "undecided"), (("size", "neither"), "undecided"),
     (("neither", "neither"), "neither")],
)  # fmt: skip
def test_only_unanimity_decides(decisive: ScalingResults, favors: tuple[Any, Any], verdict: str) -> None:
    part = decisive.gap_or_size["lira"].over[0]
    one = part.coefficients["pearson"]
    coefficients: dict[Any, Any] = {
        name: replace(one, favors=kind) for name, kind in zip(("pearson", "kendall"), favors, strict=True)
    }
    over = (replace(part, coefficients=coefficients),)
    assert verdict_of(Estimate(0.8, 0.7, 0.9), over) == verdict
    assert verdict_of(Estimate(0.5, 0.4, 0.6), over) == "no success"


def partial(low: float | None) -> Correlation:
    return (
        Correlation(None, None, None, None) if low is None else Correlation(low + 0.1, 0.01, low, low + 0.2)
    )


@pytest.mark.parametrize(
    ("size", "gap", "outcomes"),
    [
        ((0.5, 0.5), (0.5, 0.5), (Outcome.SAME_DIRECTION, Outcome.SAME_DIRECTION)),
        ((0.5, 0.5), (-0.1, -0.1), (Outcome.SAME_DIRECTION, Outcome.NOT_REPRODUCED)),
        ((0.5, 0.5), (0.5, -0.1), (Outcome.NOT_TESTABLE, Outcome.NOT_TESTABLE)),
        ((0.5, 0.5), (0.5, None), (Outcome.NOT_TESTABLE, Outcome.NOT_TESTABLE)),
    ],
)
def test_both_hypotheses_are_undecided_where_either_is(
    size: tuple[Any, Any], gap: tuple[Any, Any], outcomes: tuple[Outcome, Outcome]
) -> None:
    pairs = [(partial(of_values), partial(of_ranks)) for of_values, of_ranks in (size, gap)]
    settled = hypothesis_outcomes(pairs)
    assert tuple(outcome for outcome, _ in settled) == outcomes
    undecided = Outcome.NOT_TESTABLE in outcomes
    assert all(("undecided" in why) == undecided for _, why in settled)


def test_more_widths_are_judged_by_the_shares_of_significant_initializations(
    wide: ScalingResults, decisive: ScalingResults
) -> None:
    entry = by_key(scaling.settle([wide, decisive]))["more_widths"]
    assert entry.outcome is Outcome.REPRODUCED and "0.497 (0.491 to 0.503)" in entry.why
    spread = wide.initializations
    assert spread is not None
    success, gaps = (
        np.array([getattr(w, figure).values for w in spread.widths])
        for figure in ("attack_auc", "overfit_gap")
    )
    five = [k for k, row in enumerate(wide.results) if row.hidden_width in (16, 32, 64, 128, 256)]
    for rows, words in ((slice(None), "p < 0.05 in {} of 40"), (five, "with 5 widths in {};")):
        found = [stats.pearsonr(x, y) for x, y in zip(success[rows].T, gaps[rows].T, strict=True)]
        n = sum(one.statistic > 0 and one.pvalue < 0.05 for one in found)
        assert words.format(n) in entry.ours.split("size:")[0]


def test_more_widths_without_an_effect_add_no_power(wide: ScalingResults) -> None:
    """AUCs in the order of the initializations, the same at every width but for noise without a trend."""
    spread = wide.initializations
    assert spread is not None
    rng = np.random.default_rng(0)
    widths = tuple(
        replace(row, attack_auc=replace(row.attack_auc, values=tuple(rng.normal(0.5, 0.01, spread.n))))
        for row in spread.widths
    )
    flat = replace(wide, initializations=replace(spread, widths=widths))
    assert by_key(scaling.settle([flat]))["more_widths"].outcome is Outcome.NOT_REPRODUCED


def test_regularization_is_paired_by_repeat_and_needs_both(decisive: ScalingResults) -> None:
    dropout, weight_decay = (read("scaling", name, ScalingResults) for name in ("dropout", "weight-decay"))
    entry = by_key(scaling.settle([decisive, dropout, weight_decay]))["regularization"]
    assert entry.outcome is Outcome.REPRODUCED
    by_hand = []
    for row in dropout.results:
        plain = next(one for one in decisive.results if one.hidden_width == row.hidden_width)
        by_hand.append(
            [a.auc["lira"] - b.auc["lira"] for a, b in zip(row.repeats, plain.repeats, strict=False)]
        )
    assert f"LiRA's AUC {np.mean(by_hand):+.3f}" in entry.ours
    without = replace(decisive, config=replace(decisive.config, weight_decay=0.01), results=decisive.results)
    same = by_key(scaling.settle([decisive, dropout, without]))["regularization"]
    assert same.outcome is Outcome.SAME_DIRECTION and "LiRA's AUC +0.000" in same.ours


def test_the_measured_time_is_that_of_the_benchmarks() -> None:
    page = (RESULTS.parent / "benchmarks.md").read_text()
    row = next(line for line in page.splitlines() if line.startswith("| compiled |"))
    seconds = [float(cell.split()[0]) for cell in row.split("|")[2:4]]
    assert seconds == [MEASURED_TIME.compiled_s, MEASURED_TIME.plain_loop_s]


@pytest.mark.parametrize(
    ("differences", "outcome"),
    [
        (((0.01, 0.02), (0.01, 0.03)), Outcome.REPRODUCED),
        (((0.01, 0.02), (-0.01, 0.03)), Outcome.SAME_DIRECTION),
        (((-0.01, 0.02), (-0.01, 0.03)), Outcome.NOT_REPRODUCED),
        (((-0.03, -0.02), (-0.01, 0.03)), Outcome.REFUTED),
        (((0.01, 0.02), (-0.03, -0.01)), Outcome.NOT_REPRODUCED),
    ],
)
def test_the_verdict_on_calibration(differences: tuple[tuple[float, float], ...], outcome: Outcome) -> None:
    estimates = [Estimate((low + high) / 2, low, high) for low, high in differences]
    assert ensemble.calibration_outcome(estimates) is outcome


def test_the_most_effective_feature_is_compared_with_the_ten(small: EnsembleResults) -> None:
    best = AucFigure(0.99, 0.98, 0.995, "")
    likelihood = replace(small, features={**small.features, "global_lira": best})
    assert by_key(ensemble.settle([likelihood]))["most_effective"].outcome is Outcome.REPRODUCED
    entropy = replace(small, features={**small.features, "entropy": best})
    entry = by_key(ensemble.settle([entropy]))["most_effective"]
    assert entry.outcome is Outcome.NOT_REPRODUCED and "entropy, has 0.9900" in entry.ours


def test_an_agreement_on_another_target_is_no_reproduction(small: EnsembleResults) -> None:
    settled = by_key(ensemble.settle([small]))
    rates = [key for key in settled if key.startswith(("auc_", "tpr_"))]
    assert len(rates) == 12
    assert all(settled[key].outcome is not Outcome.REPRODUCED for key in rates)
    as_published = replace(
        small,
        config=replace(small.config, net="resnet18"),
        public=replace(small.public, records=20_000),
        private=replace(small.private, records=20_000),
    )
    settled = by_key(ensemble.settle([as_published]))
    assert settled["case"].outcome is Outcome.REPRODUCED
    inside = small.attackers["forest"].auc
    assert inside.low < 0.6715 < inside.high
    assert settled["auc_validation_forest"].outcome is Outcome.REPRODUCED


def test_the_full_case_is_preferred_once_it_is_there(small: EnsembleResults) -> None:
    full = replace(small, config=replace(small.config, net="resnet18", dataset="cifar10"))
    for results in ([small, full], [full, small]):
        assert "resnet18 on cifar10" in by_key(ensemble.settle(results))["purpose_loss"].protocol


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [(0.6, 0.7, Outcome.REPRODUCED), (0.45, 0.6, Outcome.NOT_REPRODUCED), (0.3, 0.4, Outcome.REFUTED)],
)
def test_the_verdict_on_a_feature(low: float, high: float, outcome: Outcome) -> None:
    assert ensemble.purpose_outcome(AucFigure((low + high) / 2, low, high, "")) is outcome


@pytest.mark.parametrize(
    ("mlp", "outcome"),
    [
        ((0.7, 0.69, 0.71), Outcome.REPRODUCED),
        ((0.66, 0.64, 0.68), Outcome.SAME_DIRECTION),
        ((0.64, 0.62, 0.66), Outcome.NOT_REPRODUCED),
        ((0.6, 0.59, 0.61), Outcome.REFUTED),
    ],
)
def test_the_verdict_on_the_best(mlp: tuple[float, float, float], outcome: Outcome) -> None:
    figures = {"mlp": AucFigure(*mlp, ""), "forest": AucFigure(0.65, 0.63, 0.67, "")}
    assert ensemble.best_outcome("mlp", figures) is outcome


def test_no_p_value_is_printed_as_zero() -> None:
    page = scaling.PUBLICATION.page(RESULTS / "scaling")
    assert "p = 0.000" not in page and "p &lt; 0.001" in page
