"""Comparing audits: a defence that helps, one that harms, no difference, and what cannot be compared."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

import leakscope
from leakscope.attacks.spec import resolve
from leakscope.bank.bank import Bank
from leakscope.compare.compare import Comparison, compare
from leakscope.compare.figures import Asked, population_of
from leakscope.compare.records import paired_share_interval
from leakscope.compare.words import figure_name, outcome_of
from leakscope.design import make_design
from leakscope.errors import BankMismatchError, InputError
from leakscope.runs.verification import verify_run
from leakscope.stats.roc import auc
from leakscope.types import Signals
from tests.audits.test_predictions import saved
from tests.made_up_audits import N_MODELS, N_RECORDS, made_up_audit, quick_single_records


@pytest.fixture(autouse=True, scope="module")
def quick() -> Iterator[None]:
    with quick_single_records(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("leakscope.compare.report.write_report", lambda *_: None)
        yield


@pytest.fixture(scope="module")
def audits(quick: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A leaky baseline, a defence that costs accuracy, the baseline with other randomness."""
    folder = tmp_path_factory.mktemp("audits")
    made_up_audit(folder / "leaky", 2.0)
    made_up_audit(folder / "defended", 0.2, level=0.2, noise_seed=1)
    made_up_audit(folder / "again", 2.0, noise_seed=2)
    made_up_audit(folder / "elsewhere", 2.0, design_seed=5, noise_seed=3)
    return folder


@pytest.fixture(scope="module")
def helped(audits: Path, tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return compared(audits, tmp_path_factory.mktemp("compared") / "out", "leaky", "defended")


def compared(audits: Path, out: Path, *names: str) -> Comparison:
    return compare([audits / name for name in names], out)


def only(found: Comparison) -> dict[str, Any]:
    (one,) = found.results["comparisons"]
    return dict(one)


def row(found: dict[str, Any], name: str) -> dict[str, Any]:
    (one,) = (r for r in found["leakage"] if figure_name(r) == name)
    return dict(one)


def test_a_defence_that_helps_and_what_it_costs(helped: Comparison) -> None:
    one = only(helped)
    assert one["outcome"] == "helped" and not helped.is_regression
    assert row(one, "AUC (lira)")["outcome"] == "lower"
    assert row(one, "bits about one membership")["outcome"] == "lower"
    cost = one["accuracy"]["nonmembers"]
    assert cost["high"] < 0 and cost["difference"] == pytest.approx(cost["other"] - cost["baseline"])
    assert one["records"]["exposed_other"] < one["records"]["exposed_baseline"]
    assert one["differs"] == ["gap is 2.0 there, 0.2 here", "level is 1.0 there, 0.2 here"]
    words = " ".join(helped.words())
    assert "defended gives away less than leaky" in words and "It costs accuracy" in words


def test_the_other_way_round_it_is_a_regression(audits: Path, tmp_path: Path) -> None:
    found = compared(audits, tmp_path / "out", "defended", "leaky")
    assert found.is_regression and only(found)["outcome"] == "worse"
    assert "GIVES AWAY MORE" in found.words()[0]
    assert any(line.startswith("Regression: ") for line in found.words())
    assert "Accuracy is better" in " ".join(found.words())


@pytest.mark.parametrize("other", ["again", "elsewhere"])
def test_other_randomness_alone_is_no_difference(audits: Path, tmp_path: Path, other: str) -> None:
    found = compared(audits, tmp_path / "out", "leaky", other)
    one = only(found)
    assert one["outcome"] == "no difference" and not found.is_regression
    assert one["is_paired"] == (other == "again")
    assert "No cost in accuracy shows" in " ".join(found.words())
    assert one["records"]["more_exposed"] + one["records"]["less_exposed"] <= 0.05 * N_RECORDS


def test_a_copy_of_a_run_differs_by_exactly_nothing(audits: Path, tmp_path: Path) -> None:
    made_up_audit(tmp_path / "copy", 2.0)
    one = only(compare([audits / "leaky", tmp_path / "copy"], tmp_path / "out"))
    jackknifed = [r for r in one["leakage"] if r["measure"] != "bits"]
    assert {(r["difference"], r["low"], r["high"]) for r in jackknifed} == {(0.0, 0.0, 0.0)}
    assert (one["records"]["more_exposed"], one["records"]["less_exposed"]) == (0, 0)


def test_the_interval_is_that_of_models_left_out_in_pairs(audits: Path, helped: Comparison) -> None:
    """A naive reference: score both banks again without each model, and take the t interval."""

    def lira_auc(bank: Bank, models: np.ndarray) -> float:
        signals, design = bank.signals().take(models), bank.design().take(models)
        scores = resolve("lira")(signals, design).values
        return float(np.mean([auc(*row) for row in zip(scores, design.in_mask, strict=True)]))

    everyone = np.arange(N_MODELS)
    banks = [Bank.open(audits / name) for name in ("leaky", "defended")]
    without = np.array(
        [
            lira_auc(banks[1], np.delete(everyone, m)) - lira_auc(banks[0], np.delete(everyone, m))
            for m in everyone
        ]
    )
    value = lira_auc(banks[1], everyone) - lira_auc(banks[0], everyone)
    half_width = stats.t.ppf(0.975, 15) * np.sqrt(15 / 16 * ((without - without.mean()) ** 2).sum())
    found = row(only(helped), "AUC (lira)")
    assert found["difference"] == pytest.approx(value)
    assert (found["low"], found["high"]) == pytest.approx((value - half_width, value + half_width))
    assert found["simultaneous_low"] < found["low"] and found["simultaneous_high"] > found["high"]


def test_the_figures_are_those_of_the_audits(audits: Path, helped: Comparison) -> None:
    one = only(helped)
    for side, name in (("baseline", "leaky"), ("other", "defended")):
        results = json.loads((audits / name / "results.json").read_text())
        for found in one["leakage"]:
            attack = results["attacks"].get(found["attack"], {})
            if found["measure"] in ("auc", "advantage"):
                assert found[side] == pytest.approx(attack[found["measure"]]["value"])
            elif found["measure"] == "tpr":
                (point,) = (p for p in attack["tpr_at_fpr"] if p["fpr"] == found["fpr"])
                assert found[side] == pytest.approx(point["value"])
        assert one["accuracy"]["nonmembers"][side] == pytest.approx(
            results["accuracy"]["nonmembers"]["value"]
        )
        for group, expected in zip(
            one["groups"]["town"], results["attacks"]["lira"]["groups"]["town"], strict=True
        ):
            assert group["group"] == expected["group"]
            assert group[side] == pytest.approx(expected["auc"]["value"])
        assert one["records"][f"exposed_{side}"] == results["exposed"]["records"]


def test_several_runs_share_one_family_of_intervals(audits: Path, helped: Comparison, tmp_path: Path) -> None:
    pair = helped.results["intervals"]
    found = compared(audits, tmp_path / "all", "leaky", "defended", "again", "elsewhere")
    assert found.results["intervals"]["leakage_figures"] == 3 * pair["leakage_figures"]
    level = found.results["intervals"]["simultaneous_level"]
    assert level == pytest.approx(1 - 0.05 / (3 * pair["leakage_figures"]))
    assert [c["outcome"] for c in found.results["comparisons"]] == [
        "helped",
        "no difference",
        "no difference",
    ]


def test_a_comparison_can_be_verified_and_moved(audits: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(audits, tmp_path / "runs")
    compare([tmp_path / "runs" / name for name in ("leaky", "again")], tmp_path / "runs" / "out")
    moved = (tmp_path / "runs").rename(tmp_path / "archive")
    assert verify_run(moved / "out").problems == []
    results = json.loads((moved / "out" / "results.json").read_text())
    results["comparisons"][0]["leakage"][0]["difference"] += 0.01
    (moved / "out" / "results.json").write_text(json.dumps(results))
    assert "leakage[0].difference" in verify_run(moved / "out").problems[0]


def test_single_records_pair_by_id(audits: Path, helped: Comparison) -> None:
    table = pl.read_parquet(helped.folder / "records.parquet")
    baseline = pl.read_parquet(audits / "leaky" / "records.parquet")
    assert table["id"].to_list() == [f"r{i}" for i in range(N_RECORDS)]
    assert table["advantage_baseline"].to_list() == baseline["advantage"].to_list()


def test_what_some_run_lacks_is_left_out_and_named(audits: Path, tmp_path: Path) -> None:
    made_up_audit(tmp_path / "less", 2.0, attacks=("loss",), fpr_budgets=(0.1, 0.001), towns=())
    results = compare([audits / "leaky", tmp_path / "less"], tmp_path / "out").results
    assert results["left_out"] == {
        "attacks": ["correctness", "lira"], "fpr_budgets": [0.001, 0.05], "groups": ["town"], "parts": []
    }  # fmt: skip
    (one,) = results["comparisons"]
    assert {r["fpr"] for r in one["leakage"] if r["measure"] == "tpr"} == {0.1}
    assert list(one["groups"]) == ["label"]


def test_a_model_lost_in_one_run_counts_in_neither(audits: Path, tmp_path: Path) -> None:
    made_up_audit(tmp_path / "lost", 2.0, lost=(3,))
    found = compare([audits / "leaky", tmp_path / "lost"], tmp_path / "out")
    one = only(found)
    assert one["is_paired"]
    jackknifed = [r for r in one["leakage"] if r["measure"] not in ("bits",)]
    assert {r["difference"] for r in jackknifed} == {0.0}  # the same fifteen models
    assert "1 models of lost diverged" in found.words()[-1]


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"records": "cd"}, "records_sha256 is abababababab"), ({"models": 6}, "models is 16 there, 6 here")],
)
def test_other_records_or_fewer_models_are_refused(
    audits: Path, tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    made_up_audit(tmp_path / "other", 2.0, **changes)
    with pytest.raises(InputError, match="cannot be compared") as refused:
        compare([audits / "leaky", tmp_path / "other"], tmp_path / "out")
    assert said in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_runs_without_a_common_attack_or_named_twice_are_refused(audits: Path, tmp_path: Path) -> None:
    made_up_audit(tmp_path / "loss", 2.0, attacks=("loss",))
    made_up_audit(tmp_path / "lira", 2.0, attacks=("lira",))
    with pytest.raises(InputError, match="share no attack"):
        compare([tmp_path / "loss", tmp_path / "lira"], tmp_path / "out")
    with pytest.raises(InputError, match="named twice"):
        compared(audits, tmp_path / "out", "leaky", "leaky")
    with pytest.raises(InputError, match="at least two run folders"):
        compared(audits, tmp_path / "out", "leaky")


def test_another_comparisons_folder_is_refused(audits: Path, tmp_path: Path) -> None:
    compared(audits, tmp_path / "out", "leaky", "again")
    with pytest.raises(BankMismatchError, match="different run"):
        compared(audits, tmp_path / "out", "leaky", "defended")


def test_one_models_answers_are_compared_over_records(tmp_path: Path) -> None:
    for name, leak in (("before", 3.0), ("after", 0.0)):
        leakscope.audit_predictions(saved(leak=leak), tmp_path / name, fpr_budgets=(0.1,))
    one = only(compare([tmp_path / "before", tmp_path / "after"], tmp_path / "out"))
    found = row(one, "AUC (loss)")
    assert one["outcome"] == "helped" and found["outcome"] == "lower"
    assert found["method"] == "DeLong, paired by record"
    assert one["records"] is None
    assert "bits" not in {r["measure"] for r in one["leakage"]}
    assert one["accuracy"]["nonmembers"]["low"] <= 0 <= one["accuracy"]["nonmembers"]["high"]
    back = compare([tmp_path / "after", tmp_path / "before"], tmp_path / "back")
    assert back.is_regression


def test_a_model_against_itself_shows_nothing(tmp_path: Path) -> None:
    given = saved()
    for name in ("a", "b"):
        leakscope.audit_predictions(replace(given, name="saved"), tmp_path / name, fpr_budgets=(0.1,))
    one = only(compare([tmp_path / "a", tmp_path / "b"], tmp_path / "out"))
    assert one["outcome"] == "no difference"
    assert {r["difference"] for r in one["leakage"]} == {0.0}


def test_a_failed_check_of_a_run_is_said_first(audits: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(audits, tmp_path / "runs")
    path = tmp_path / "runs" / "again" / "results.json"
    results = json.loads(path.read_text())
    results["hygiene"][0] |= {"status": "failed", "sentence": "Half of them are copies."}
    path.write_text(json.dumps(results))
    found = compare([tmp_path / "runs" / name for name in ("leaky", "again")], tmp_path / "out")
    assert found.words()[0] == "DO NOT TRUST THIS COMPARISON (again): Half of them are copies."


def test_too_few_models_are_no_evidence_of_no_difference(tmp_path: Path) -> None:
    for name, gap in (("a", 3.0), ("b", 0.0)):
        made_up_audit(tmp_path / name, gap, models=2, attacks=("loss",))
    found = compare([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    assert found.words()[0] == "Nothing can be told of b and a: too few models for an interval."
    assert not found.is_regression


def test_outcomes() -> None:
    rows = {name: {"outcome": name} for name in ("higher", "lower", "unresolved")}
    assert outcome_of([rows["lower"], rows["unresolved"]]) == "helped"
    assert outcome_of([rows["higher"], rows["unresolved"]]) == "worse"
    assert outcome_of([rows["higher"], rows["lower"]]) == "mixed"
    assert outcome_of([rows["unresolved"]]) == "no difference"


def test_the_share_interval_covers_as_it_says() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        only_first, only_second = rng.multinomial(80, (0.1, 0.2, 0.7))[:2]
        low, high = paired_share_interval(int(only_first), int(only_second), 80)
        covered += low <= 0.1 <= high
    assert 0.92 <= covered / 400 <= 0.99


def test_a_t_interval_over_targets_would_be_too_narrow_and_the_jackknife_is_not() -> None:
    """Targets share their references: LiRA's mean AUC scatters more between populations than they say."""
    asked = Asked(("lira",), (), with_records=False, with_accuracy=False, grouped_attack="lira")
    means, over_targets, over_groups = [], [], []
    difficulty = np.random.default_rng(0).normal(size=N_RECORDS)
    for seed in range(60):
        design = make_design("balanced", 8, N_RECORDS, seed)
        noise = np.random.default_rng([seed, 1]).normal(size=design.in_mask.shape)
        log_odds = difficulty + design.in_mask + noise
        signals = Signals({"log_odds": log_odds[:, None]}, (1,), np.zeros(N_RECORDS, dtype=np.int64))
        scores = resolve("lira")(signals, design).values
        by_target = np.array([auc(*row) for row in zip(scores, design.in_mask, strict=True)])
        found = population_of(signals, design, asked, {}, np.arange(8)).figures
        means.append(found.figures[0])
        over_targets.append(by_target.var(ddof=1) / 8)
        over_groups.append(found.variance[0])
    spread = np.std(means, ddof=1)
    assert found.figures[0] == pytest.approx(by_target.mean())
    assert spread > 1.15 * np.sqrt(np.mean(over_targets))
    assert spread < 1.05 * np.sqrt(np.mean(over_groups))


@pytest.mark.slow
def test_alike_populations_are_rarely_called_different(tmp_path: Path) -> None:
    """Twelve pairs of populations, designs of their own: at most one false alarm."""
    alarms = 0
    for k in range(12):
        for side in (0, 1):
            seed = 2 * k + side
            made_up_audit(
                tmp_path / f"{seed}", 1.0, design_seed=seed, noise_seed=seed, attacks=("loss", "lira")
            )
        found = compare([tmp_path / f"{2 * k}", tmp_path / f"{2 * k + 1}"], tmp_path / f"out-{k}")
        alarms += only(found)["outcome"] != "no difference"
    assert alarms <= 1
