"""Comparing audits: a defense that helps, one that harms, no difference, and what is not comparable."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.dummy import DummyClassifier

import leakscope
from leakscope.compare.compare import Comparison, compare, recipe_differences
from leakscope.compare.page import write_report
from leakscope.compare.records import _change, _Exposure
from leakscope.compare.results import LeakageDifference, LeftOut, RunComparison
from leakscope.compare.sentences import run_summary, share_sentence, summary
from leakscope.compare.tables import figure_name, leakage_table
from leakscope.errors import BankMismatchError, InputError
from leakscope.runs.verification import verify_run
from leakscope.stats.differences import record_change_p_values
from tests.made_up_audits import N_RECORDS, made_up_audit


def compared(audits: Path, out: Path, *names: str) -> Comparison:
    return compare([audits / name for name in names], out)


def only(comparison: Comparison) -> RunComparison:
    (run,) = comparison.results.comparisons
    return run


def figure(run: RunComparison, name: str) -> LeakageDifference:
    (one,) = (figure for figure in run.leakage if figure_name(figure) == name)
    return one


def changes(run: RunComparison) -> int:
    assert run.records is not None
    return run.records.more_exposed + run.records.less_exposed


def test_a_defense_that_helps_and_what_it_costs(helped: Comparison) -> None:
    run = only(helped)
    assert run.outcome == "helped" and not helped.is_regression
    assert figure(run, "AUC (lira)").outcome == "lower"
    assert figure(run, "bits of membership per record").outcome == "lower"
    assert run.accuracy is not None and run.records is not None
    cost = run.accuracy.nonmembers
    assert None not in (cost.high, cost.other, cost.baseline)
    assert (cost.high or 0) < 0
    assert cost.difference == pytest.approx((cost.other or 0) - (cost.baseline or 0))
    assert run.records.exposed_other < run.records.exposed_baseline
    assert run.recipe_differences == ("gap is 0.2 instead of 2.0", "level is 0.2 instead of 1.0")


def test_print_prints_the_summary(helped: Comparison) -> None:
    assert str(helped) == "\n".join(helped.summary())
    assert helped.summary()[0] == "defended leaks less than leaky."
    assert "Accuracy on non-members falls from" in str(helped)
    page = helped._repr_html_()
    assert "defended leaks less than leaky." in page and "<td>AUC (lira)</td>" in page


def test_a_parameter_that_differs_is_named_once_and_not_by_its_hash() -> None:
    hashes = [{"values": {"parameters": {"1": code}}, "files": code} for code in ("e756", "1dc6")]
    first = {"parameters": {"max_depth": None}, "code": hashes[0]}
    assert recipe_differences(first, {"parameters": {"max_depth": 3}, "code": hashes[1]}) == (
        "parameters.max_depth is 3 instead of None",
        "code.files is 1dc6 instead of e756",
    )
    assert len(recipe_differences(first, {**first, "code": hashes[1]})) == 2  # what else would say it?


def test_a_comparison_of_units_speaks_of_them(helped: Comparison) -> None:
    results, run = helped.results, only(helped)
    assert results.baseline.unit is None and run.records is not None
    baseline = replace(results.baseline, unit="patient_id")
    fewer = replace(run, records=replace(run.records, less_exposed=1, more_exposed=0))
    of_patients = replace(results, runs=(baseline, *results.runs[1:]), comparisons=(fewer,))
    text = " ".join([*summary(of_patients), share_sentence(fewer, of_patients.noun)])
    assert "ranks a random patient of the training set above a random other patient" in text
    assert "Individually exposed patients: " in text and "over patients, for these models" in text
    assert "1 patient is significantly less exposed and 0 significantly more" in text
    assert " records " not in text and "1 record is significantly" in " ".join(
        summary(replace(results, comparisons=(fewer,)))
    )


def test_the_page_states_its_limits_in_sentences(helped: Comparison, tmp_path: Path) -> None:
    write_report(helped.results, tmp_path, redacted=False)
    text = (tmp_path / "report.md").read_text().split("## Limitations")[1]
    assert "- An unresolved difference need not be zero: it can be anywhere in its interval." in text


def test_in_the_other_direction_it_is_a_regression(audits: Path, tmp_path: Path) -> None:
    comparison = compared(audits, tmp_path / "out", "defended", "leaky")
    assert comparison.is_regression and only(comparison).outcome == "worse"
    assert comparison.summary()[0] == "leaky LEAKS MORE than defended."
    assert any(line.startswith("Regression in leaky: ") for line in comparison.summary())
    assert "Accuracy on non-members rises from" in str(comparison)


@pytest.mark.parametrize("other", ["again", "elsewhere"])
def test_other_randomness_alone_is_no_difference(audits: Path, tmp_path: Path, other: str) -> None:
    comparison = compared(audits, tmp_path / "out", "leaky", other)
    run = only(comparison)
    assert run.outcome == "no difference" and not comparison.is_regression
    assert run.is_paired == (other == "again")
    assert "No change in accuracy on non-members was detected" in str(comparison)
    assert changes(run) <= 0.05 * N_RECORDS
    assert "95% interval (these records, other models)" in leakage_table(run).head


def test_a_copy_of_a_run_differs_by_exactly_nothing(audits: Path, tmp_path: Path) -> None:
    made_up_audit(tmp_path / "copy", 2.0)
    run = only(compare([audits / "leaky", tmp_path / "copy"], tmp_path / "out"))
    jackknifed = [figure for figure in run.leakage if figure.measure != "bits"]
    assert {(figure.difference, figure.low, figure.high) for figure in jackknifed} == {(0.0, 0.0, 0.0)}
    assert changes(run) == 0


def test_the_figures_are_those_of_the_audits(audits: Path, helped: Comparison) -> None:
    run = json.loads((helped.folder / "results.json").read_text())["comparisons"][0]
    for side, name in (("baseline", "leaky"), ("other", "defended")):
        results = json.loads((audits / name / "results.json").read_text())
        for row in run["leakage"]:
            attack = results["attacks"].get(row["attack"], {})
            if row["measure"] in ("auc", "advantage"):
                assert row[side] == pytest.approx(attack[row["measure"]]["value"])
            elif row["measure"] == "tpr":
                (point,) = (p for p in attack["tpr_at_fpr"] if p["fpr"] == row["fpr"])
                assert row[side] == pytest.approx(point["value"])
        expected = results["accuracy"]["nonmembers"]["value"]
        assert run["accuracy"]["nonmembers"][side] == pytest.approx(expected)
        groups = results["attacks"]["lira"]["groups"]["town"]
        for group, of_audit in zip(run["groups"]["town"], groups, strict=True):
            assert group["group"] == of_audit["group"]
            assert group[side] == pytest.approx(of_audit["auc"]["value"])
        assert run["records"][f"exposed_{side}"] == results["exposed"]["records"]


def test_several_runs_share_one_family_of_intervals(audits: Path, helped: Comparison, tmp_path: Path) -> None:
    results = compared(audits, tmp_path / "all", "leaky", "defended", "again", "elsewhere").results
    n_figures = 3 * helped.results.intervals.leakage_figures
    assert results.intervals.leakage_figures == n_figures
    assert results.intervals.simultaneous_level == pytest.approx(1 - 0.05 / n_figures)
    assert [run.outcome for run in results.comparisons] == ["helped", "no difference", "no difference"]


@pytest.mark.slow
def test_a_comparison_can_be_verified_and_moved(audits: Path, tmp_path: Path) -> None:
    shutil.copytree(audits, tmp_path / "runs")
    compare([tmp_path / "runs" / name for name in ("leaky", "again")], tmp_path / "runs" / "out")
    moved = (tmp_path / "runs").rename(tmp_path / "archive")
    assert verify_run(moved / "out").problems == []
    results = json.loads((moved / "out" / "results.json").read_text())
    results["comparisons"][0]["leakage"][0]["difference"] += 0.01
    (moved / "out" / "results.json").write_text(json.dumps(results))
    assert "leakage[0].difference" in verify_run(moved / "out").problems[0]


def test_single_records_are_paired_by_id(audits: Path, helped: Comparison) -> None:
    table = pl.read_parquet(helped.folder / "records.parquet")
    baseline = pl.read_parquet(audits / "leaky" / "records.parquet")
    assert table["id"].to_list() == [f"r{i}" for i in range(N_RECORDS)]
    assert table["advantage_baseline"].to_list() == baseline["advantage"].to_list()


def test_exposed_records_that_one_run_cannot_count_are_said_so(helped: Comparison) -> None:
    """Nothing is compared with a number that is not there."""
    comparison = only(helped)
    assert comparison.records is not None

    def sentence(other: int | None, before: int | None) -> str:
        assert comparison.records is not None
        records = replace(comparison.records, exposed_other=other, exposed_baseline=before)
        lines = run_summary(helped.results, replace(comparison, records=records))
        return next(line for line in lines if line.startswith("Individually exposed"))

    name, baseline = comparison.run, helped.results.baseline.name
    assert f": 3, compared with 7 in {baseline}." in sentence(3, 7)
    assert f": 7 in {baseline}; {name} has too few models to tell." in sentence(None, 7)
    assert f": 3 in {name}; {baseline} has too few models to tell." in sentence(3, None)


def test_what_some_run_lacks_is_left_out_and_named(audits: Path, tmp_path: Path) -> None:
    made_up_audit(tmp_path / "less", 2.0, attacks=("loss",), fpr_budgets=(0.1, 0.001), towns=())
    comparison = compare([audits / "leaky", tmp_path / "less"], tmp_path / "out")
    expected = LeftOut(("correctness", "lira"), (0.001, 0.05), ("town",), ())
    assert comparison.results.left_out == expected
    run = only(comparison)
    assert {figure.fpr for figure in run.leakage if figure.measure == "tpr"} == {0.1}
    assert list(run.groups) == ["label"]


def test_groups_that_are_defined_differently_are_left_out(audits: Path, tmp_path: Path) -> None:
    made_up_audit(tmp_path / "moved", 2.0, towns=("south", "north"))
    comparison = compare([audits / "leaky", tmp_path / "moved"], tmp_path / "out")
    assert comparison.results.left_out.groups == ("town",)
    assert list(only(comparison).groups) == ["label"]


def test_a_binary_attack_is_compared_by_its_auc_alone(helped: Comparison) -> None:
    measures = {figure.measure for figure in only(helped).leakage if figure.attack == "correctness"}
    assert measures == {"auc"}


def test_a_model_that_diverged_in_one_run_counts_in_neither(audits: Path, tmp_path: Path) -> None:
    made_up_audit(tmp_path / "part", 2.0, diverged=(3,))
    comparison = compare([audits / "leaky", tmp_path / "part"], tmp_path / "out")
    run = only(comparison)
    assert run.is_paired
    # The same fifteen models.
    assert {figure.difference for figure in run.leakage if figure.measure != "bits"} == {0.0}
    assert comparison.summary()[-1] == "1 model of part diverged and is left out."


def test_figures_where_models_diverged_are_those_of_the_audit(audits: Path, tmp_path: Path) -> None:
    verdict = made_up_audit(tmp_path / "part", 0.0, diverged=(3, 6, 7, 12))
    run = only(compare([audits / "leaky", tmp_path / "part"], tmp_path / "out"))
    assert run.auc_of("lira").other == pytest.approx(verdict.results.attacks["lira"].auc.value)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"records": "cd"},
            "records with sha256 cdcdcdcdcdcd, the first run has records with sha256 abababababab",
        ),
        ({"models": 6}, "it has 6 models, the first run has 16 models"),
    ],
)
def test_other_records_or_fewer_models_are_refused(
    audits: Path, tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    made_up_audit(tmp_path / "other", 2.0, **changed)
    with pytest.raises(InputError, match="cannot be compared") as refused:
        compare([audits / "leaky", tmp_path / "other"], tmp_path / "out")
    assert message in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_runs_without_a_common_attack_or_given_twice_are_refused(audits: Path, tmp_path: Path) -> None:
    made_up_audit(tmp_path / "loss", 2.0, attacks=("loss",))
    made_up_audit(tmp_path / "lira", 2.0, attacks=("lira",))
    with pytest.raises(InputError, match="share no attack"):
        compare([tmp_path / "loss", tmp_path / "lira"], tmp_path / "out")
    with pytest.raises(InputError, match="given twice"):
        compared(audits, tmp_path / "out", "leaky", "leaky")
    with pytest.raises(InputError, match="at least two run folders"):
        compared(audits, tmp_path / "out", "leaky")


def test_a_link_to_a_run_is_the_same_run(audits: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(audits / "leaky")
    with pytest.raises(InputError, match="the same run is given twice"):
        compare([audits / "leaky", link], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_another_comparisons_folder_is_refused(audits: Path, tmp_path: Path) -> None:
    compared(audits, tmp_path / "out", "leaky", "again")
    with pytest.raises(BankMismatchError, match="different run"):
        compared(audits, tmp_path / "out", "leaky", "defended")


@pytest.mark.slow
def test_a_failed_check_of_an_audit_comes_first(audits: Path, tmp_path: Path) -> None:
    shutil.copytree(audits, tmp_path / "runs")
    path = tmp_path / "runs" / "again" / "results.json"
    results = json.loads(path.read_text())
    results["hygiene"][0] |= {"status": "failed", "sentence": "Half of them are copies."}
    path.write_text(json.dumps(results))
    comparison = compare([tmp_path / "runs" / name for name in ("leaky", "again")], tmp_path / "out")
    assert comparison.summary()[0] == "DO NOT TRUST THIS COMPARISON (again): Half of them are copies."
    assert comparison.exit_code == 4


def test_too_few_models_are_no_evidence_of_no_difference(tmp_path: Path) -> None:
    for name, gap in (("a", 3.0), ("b", 0.0)):
        made_up_audit(tmp_path / name, gap, models=2, attacks=("loss",))
    comparison = compare([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    assert comparison.summary()[0] == "Whether b leaks more or less than a is unknown: too few models."
    assert "no interval" in str(comparison) and not comparison.is_regression


@pytest.mark.slow
def test_alike_populations_are_rarely_called_different(tmp_path: Path) -> None:
    """Twelve pairs of populations, each with a design of its own: at most one false alarm."""
    alarms = 0
    for k in range(12):
        for seed in (2 * k, 2 * k + 1):
            made_up_audit(
                tmp_path / f"{seed}", 1.0, design_seed=seed, noise_seed=seed, attacks=("loss", "lira")
            )
        comparison = compare([tmp_path / f"{2 * k}", tmp_path / f"{2 * k + 1}"], tmp_path / f"out-{k}")
        alarms += only(comparison).outcome != "no difference"
    assert alarms <= 1


def test_scores_are_turned_around_in_all_alike_runs_or_in_none(tmp_path: Path) -> None:
    """Members have the higher losses in both runs; by chance, only one of the audits is sure of that."""
    verdicts = [
        made_up_audit(tmp_path / str(seed), -0.12, noise_seed=seed, attacks=("loss",)) for seed in (4, 5)
    ]
    figures = [verdict.results.attacks["loss"] for verdict in verdicts]
    assert [one.inverted for one in figures] == [False, True]
    for runs in (("4", "5"), ("5", "4")):
        found = only(compare([tmp_path / run for run in runs], tmp_path / f"out-{runs[0]}"))
        assert found.outcome == "no difference"
        auc, ends = found.auc_of("loss"), [abs((one.auc.value or 0.5) - 0.5) for one in figures]
        assert sorted((auc.baseline, auc.other)) == pytest.approx(sorted(0.5 + end for end in ends))
        assert auc.low is not None and auc.high is not None and auc.low < 0 < auc.high


def test_a_run_whose_members_have_the_higher_scores_is_not_turned_around(tmp_path: Path) -> None:
    made_up_audit(tmp_path / "turned", -1.0, attacks=("loss",))
    made_up_audit(tmp_path / "leaky", 1.0, noise_seed=1, attacks=("loss",))
    auc = only(compare([tmp_path / "turned", tmp_path / "leaky"], tmp_path / "out")).auc_of("loss")
    assert auc.baseline is not None and auc.baseline > 0.6
    assert auc.other is not None and auc.other > 0.6


def test_a_record_that_no_run_detects_has_not_changed() -> None:
    """Decisions about a record share references, so that all of a side may be wrong together."""
    inverted, undecided = np.array([[0], [8], [8], [8]]), np.array([[4], [8], [1], [8]])
    first, second = (
        _Exposure(np.array(["a"]), counts[0] / 8 - counts[2] / 8, *np.zeros((2, 1), bool), counts)
        for counts in (inverted, undecided)
    )
    assert record_change_p_values(inverted, undecided)[0] < 1e-4
    assert _change(first, second).p_value[0] > 0.1
    exposed = np.array([[8], [8], [0], [8]])
    detected = _Exposure(np.array(["a"]), np.ones(1), *np.zeros((2, 1), bool), exposed)
    assert _change(first, detected).p_value[0] < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["most_frequent", "prior"])
def test_two_audits_of_a_model_that_learns_nothing_change_no_record(strategy: str, tmp_path: Path) -> None:
    """A fifth of the records were reported as changed."""
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(400, 3)), (rng.random(400) < 0.5).astype(int)
    for seed in (10, 11):
        leakscope.audit(
            X=features,
            y=labels,
            estimator=DummyClassifier(strategy=strategy),
            out=tmp_path / str(seed),
            models=16,
            seed=seed,
            attacks=["loss", "eb_lira"],
        )
    assert changes(only(compare([tmp_path / "10", tmp_path / "11"], tmp_path / "out"))) == 0
