"""The main path from records to a verdict: planted leakage is found, none is not, every file is right."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KNeighborsClassifier

from leakscope.attacks.registry import attack_classes, default_attacks
from leakscope.audits.run import audit
from leakscope.bank.results import read_results, results_json
from leakscope.errors import BankMismatchError, InputError
from leakscope.evaluate.gate import Gate, TprLimit
from leakscope.evaluate.results import AuditResults
from leakscope.evaluate.verdict import Verdict
from leakscope.recipe import EstimatorRecipe, Recipe
from leakscope.runs.verification import verify_run
from leakscope.signals.registry import CLASSIFICATION
from leakscope.types import Records
from tests.cli.command import files_under
from tests.engine.small_population import N_RECORDS, RECIPE, noise, records, regression_records

FRAGILE = "tests.engine.nets:fragile"
DEFAULT_ATTACKS = tuple(attack.name for attack in default_attacks("population", CLASSIFICATION))


def small_audit(out: Path, **changes: Any) -> Verdict:
    given: dict[str, Any] = {"records": records(), "recipe": RECIPE, "models": 8, "device": "cpu", **changes}
    return audit(given.pop("records"), out=out, **given)


def test_planted_leakage_is_found_by_every_attack(tmp_path: Path) -> None:
    """A nearest neighbour knows its members and nobody else."""
    recipe = EstimatorRecipe(KNeighborsClassifier(1), processes=1)
    verdict = small_audit(tmp_path, records=noise(), recipe=recipe, models=16)
    for name in DEFAULT_ATTACKS:
        figures = verdict.results.attacks[name]
        assert figures.auc.low > 0.65
        assert figures.advantage.value > 0.35
    assert verdict.results.accuracy.members.value == 1.0
    assert verdict.results.accuracy.nonmembers.value < 0.65
    assert verdict.results.exposed.share > 0.2
    assert verdict.results.leakage.checkpoints[-1].bits.low > 0.2


def test_where_nothing_leaks_nothing_is_found(tmp_path: Path) -> None:
    """A model that ignores its members: intervals hold one half, nobody is exposed."""
    recipe = EstimatorRecipe(DummyClassifier(strategy="constant", constant=1), processes=1)
    verdict = small_audit(tmp_path, records=noise(), recipe=recipe, models=16)
    for name in DEFAULT_ATTACKS:
        auc = verdict.results.attacks[name].auc
        assert auc.low <= 0.5 <= auc.high
        assert abs(auc.value - 0.5) < 0.05
    assert verdict.results.exposed.records == 0
    bits = verdict.results.leakage.checkpoints[-1].bits
    assert bits.low <= 0 <= bits.high


def test_figures_are_means_over_targets(tmp_path: Path) -> None:
    verdict = small_audit(tmp_path, fpr=(0.25, 0.01))
    loss = np.load(tmp_path / "signals" / "loss.npy")[:, -1]
    in_mask = np.load(tmp_path / "design.npy")
    aucs = [roc_auc_score(members, -row) for row, members in zip(loss, in_mask, strict=True)]
    figures = verdict.results.attacks["loss"]
    assert figures.auc.value == pytest.approx(np.mean(aucs))
    assert figures.auc.sd == pytest.approx(np.std(aucs, ddof=1))
    assert figures.auc.low < figures.auc.value < figures.auc.high
    assert figures.targets == 8
    quarter, hundredth = figures.tpr_at_fpr
    n_out = N_RECORDS // 2
    # The k-th of 12 non-members has an expected FPR of k / 13; a quarter is between the third and the fourth.
    best = [
        0.75 * _tpr_above(-row, members, 3) + 0.25 * _tpr_above(-row, members, 4)
        for row, members in zip(loss, in_mask, strict=True)
    ]
    assert (n_out, quarter.value) == (12, pytest.approx(np.mean(best)))
    assert quarter.reason is None
    assert hundredth.value is None
    assert "1/12" in hundredth.reason


@pytest.mark.slow
@pytest.mark.usefixtures("whole_audits")
def test_every_file_of_a_run(tmp_path: Path) -> None:
    people = noise(60)
    verdict = small_audit(tmp_path / "run", records=people, recipe=RECIPE)
    assert read_results(tmp_path / "run", AuditResults) == verdict.results
    table = pl.read_parquet(tmp_path / "run" / "records.parquet")
    assert table["id"].to_list() == people.ids.tolist()
    assert table["label"].to_list() == [people.class_names[label] for label in people.labels]
    assert table["town"].to_list() == people.groups["town"].tolist()
    assert table["exposed"].sum() == (verdict.results.exposed.records or 0)
    assert {"p_value", "bits", "rho_kl", "total_variation"} < set(table.columns)
    assert table["bits"].mean() == pytest.approx(verdict.results.leakage.checkpoints[-1].bits.value)
    text = (tmp_path / "run" / "report.md").read_text()
    for line in verdict.summary():
        assert line in text
    for name, figures in verdict.results.attacks.items():
        assert re.search(rf"\| {name} \| {figures.auc.value:.3f}", text)
    assert "nan" not in text.lower()
    assert (tmp_path / "run" / "figures" / "roc.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "run" / "run.json").read_text())["kind"] == "audit"


def test_a_printed_verdict_states_the_numbers(tmp_path: Path) -> None:
    verdict = small_audit(tmp_path)
    text = str(verdict)
    assert text.splitlines() == verdict.summary()
    strongest = verdict.results.headline.auc
    assert "8 models were each trained on a random half of 24 records (three classes)." in text
    assert f"{strongest.value:.1%}" in text
    assert f"{strongest.low:.1%} to {strongest.high:.1%}" in text
    assert f"{verdict.results.accuracy.members.value:.1%} on members" in text


def test_a_rate_that_rests_on_a_few_records_is_marked(tmp_path: Path) -> None:
    """Of 60 non-members, a tenth is six, a twentieth three."""
    report = (small_audit(tmp_path, records=noise(), fpr=(0.1, 0.05)).folder / "report.md").read_text()
    assert (
        "The TPR at 5% FPR, at thresholds from this model or from the others, rests on about 3 non-members "
        "per target"
    ) in report
    assert "The TPR at 10% FPR rests" not in report


def test_bits_are_stated_and_stored_for_every_checkpoint(tmp_path: Path) -> None:
    verdict = small_audit(tmp_path, recipe=replace(RECIPE, epochs=4, checkpoints=(1, 4)))
    leakage = verdict.results.leakage
    assert leakage.signal == "log_odds"
    assert [at.epoch for at in leakage.checkpoints] == [1, 4]
    last = leakage.checkpoints[-1]
    mean = max(last.bits.value, 0)
    assert f"An output reveals {mean:.3f} bits about a record's membership on average" in str(verdict)
    assert "exposed 1% reveal is not measurable: 1 record is too few to measure; it takes at" in str(verdict)
    assert "## Bits\n" in (tmp_path / "report.md").read_text()
    assert verify_run(tmp_path).problems == []


def test_where_bits_are_undefined_the_report_says_why(tmp_path: Path) -> None:
    verdict = small_audit(tmp_path / "two", models=2)
    assert "no record has two models" in verdict.results.leakage.reason
    assert "Undefined: no record has two models" in (tmp_path / "two" / "report.md").read_text()
    assert "bits" not in pl.read_parquet(tmp_path / "two" / "records.parquet").columns
    assert "bits about a record's membership" not in str(verdict)
    losses = small_audit(tmp_path / "loss", attacks=("loss",), records=regression_records())
    assert losses.results.leakage.signal is None
    assert losses.results.leakage.reason == "the bank stores neither log_odds nor scaled_residual"


def test_copied_records_are_reported_first_and_loudly(tmp_path: Path) -> None:
    people = noise(60)
    twice = Records(
        np.concatenate([people.features, people.features]),
        np.concatenate([people.labels, people.labels]),
        np.arange(120).astype(str),
        name="twice",
        class_names=people.class_names,
    )
    verdict = small_audit(tmp_path, records=twice)
    first, second = verdict.summary()[:2]
    assert first == "Inconclusive: a check of the audit failed, so its figures prove nothing."
    assert second.startswith("DO NOT TRUST THESE FIGURES (duplicates): 120 records have an exact copy")
    checks = {check.name: check.status for check in verdict.results.hygiene}
    assert list(checks) == ["duplicates", "balance", "models", "accuracy", "members", "shift"]
    assert checks["duplicates"] == "failed"
    text = (tmp_path / "report.md").read_text()
    assert all(f"| {name} | {status} |" in text for name, status in checks.items())


def test_groups_and_classes_are_judged_and_too_many_are_not(tmp_path: Path) -> None:
    verdict = small_audit(tmp_path, records=noise(), attacks=("loss",))
    columns = verdict.results.attacks["loss"].groups
    assert {column: [figures.group for figures in groups] for column, groups in columns.items()} == {
        "town": ["a", "b", "c"],
        "label": ["no", "yes"],
    }
    people = noise()
    many = Records(
        people.features, people.labels, people.ids, class_names=people.class_names, groups={"own": people.ids}
    )
    crowded = small_audit(tmp_path / "many", records=many, attacks=("loss",))
    assert list(crowded.results.attacks["loss"].groups) == ["label"]
    assert crowded.results.groups_left_out == {"own": "120 groups; at most 50 are evaluated"}


@pytest.mark.slow
def test_a_gate_is_part_of_the_verdict(tmp_path: Path) -> None:
    gate = Gate(max_auc=0.1, max_tpr=(TprLimit(0.25, 1.0),))
    verdict = small_audit(tmp_path, fpr=(0.5,), gate=gate)
    assert verdict.outcome == "failed"
    assert verdict.results.config.fpr_budgets == (0.5, 0.25)
    assert any(line.startswith("Gate failed: the AUC is at least") for line in verdict.summary())
    assert verify_run(tmp_path).problems == []
    assert small_audit(tmp_path).outcome is None


@pytest.mark.slow
@pytest.mark.usefixtures("whole_audits")
def test_the_same_audit_twice_writes_the_same_bytes(tmp_path: Path) -> None:
    small_audit(tmp_path / "first")
    small_audit(tmp_path / "second")
    first, second = files_under(tmp_path / "first"), files_under(tmp_path / "second")
    assert first.keys() == second.keys()
    dated = (
        "manifest.json",
        "report.html",
        "sha256.json",
    )  # they say when the run was finished, or hash that
    assert [n for n in first if first[n] != second[n] and n not in dated] == []


@pytest.mark.slow
def test_a_rerun_trains_nothing_and_keeps_the_attacks_of_earlier_runs(tmp_path: Path) -> None:
    small_audit(tmp_path)
    before = files_under(tmp_path)
    done: list[float] = []
    small_audit(tmp_path, progress=done.append)
    assert done == [8]
    assert files_under(tmp_path) == before
    fewer = small_audit(tmp_path, attacks=("loss",), progress=done.append)
    assert done == [8, 8]
    assert list(fewer.results.attacks) == list(DEFAULT_ATTACKS)
    assert files_under(tmp_path) == before


def test_another_audit_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    small_audit(tmp_path)
    before = files_under(tmp_path)
    with pytest.raises(BankMismatchError, match="seed is 0 there, 1 now"):
        small_audit(tmp_path, seed=1)
    assert files_under(tmp_path) == before


@pytest.mark.usefixtures("whole_audits")
@pytest.mark.parametrize(
    ("models", "design"),
    [
        *((2, design) for design in ("balanced", "bernoulli", "pairs")),
        *(pytest.param(4, design, marks=pytest.mark.slow) for design in ("balanced", "bernoulli", "pairs")),
    ],
)
def test_few_models_of_any_design_are_judged(tmp_path: Path, design: str, models: int) -> None:
    attacks = [name for name, attack in attack_classes().items() if attack().reads(CLASSIFICATION)]
    verdict = small_audit(tmp_path, design=design, models=models, attacks=attacks)
    assert verdict.results.population.models == models
    json.dumps(results_json(verdict.results), allow_nan=False)
    assert len(verdict.summary()) >= 4


@pytest.mark.slow
@pytest.mark.usefixtures("whole_audits")
def test_diverged_models_are_left_out_and_reported(tmp_path: Path) -> None:
    verdict = small_audit(tmp_path, recipe=Recipe(net=FRAGILE, epochs=2), models=16)
    diverged = verdict.results.population.diverged_models
    assert 2 <= len(diverged) <= 14
    assert verdict.results.population.models == 16 - len(diverged)
    assert f"Left out because training diverged: {len(diverged)} models" in str(verdict)
    assert all(np.isnan(np.load(tmp_path / "signals" / "loss.npy")[int(m)]).all() for m in diverged)
    json.dumps(results_json(verdict.results), allow_nan=False)


@pytest.mark.usefixtures("whole_audits")
def test_a_single_survivor_is_judged_by_its_records_alone(tmp_path: Path) -> None:
    """With this share of broken nets exactly one of the eight models converges."""
    recipe = Recipe(net=FRAGILE, net_options=(("share", _share_that_leaves_one(8)),), epochs=2)
    verdict = small_audit(tmp_path, recipe=recipe, attacks=("correctness", "loss"))
    assert verdict.results.population.models == 1
    auc = verdict.results.attacks["loss"].auc
    assert auc.low < auc.value < auc.high  # DeLong: there is no spread over targets
    assert auc.sd is None
    assert verdict.results.exposed is None
    assert "None" not in str(verdict)


def test_images_go_from_start_to_end(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    images = Records(
        rng.integers(0, 256, size=(20, 1, 8, 8), dtype=np.uint8),
        np.arange(20) % 2,
        np.array([f"i{i}" for i in range(20)]),
        class_names=("a", "b"),
    )
    recipe = Recipe(net="cnn", epochs=1, batch_size=8)
    verdict = small_audit(tmp_path, records=images, recipe=recipe, models=4)
    assert verdict.results.population.records == 20


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "unknown attack": (
        {"attacks": ("guess",)},
        f"attack='guess' is unknown; choose from {', '.join(sorted(attack_classes()))}",
    ),
    "no attack": ({"attacks": ()}, "attacks=[]: choose from"),
    "odd models": ({"models": 7}, "models=7"),
    "unknown design": ({"design": "random"}, "design='random': choose one of balanced, bernoulli, pairs"),
    "negative seed": ({"seed": -1}, "seed=-1: must be 0 or more"),
    "unknown signal": ({"signals": ("gossip",)}, "signals='gossip'"),
    "unknown device": ({"device": "tpu"}, "device='tpu'"),
    "unknown net": ({"recipe": Recipe(net="nope")}, "net='nope'"),
    "impossible budget": ({"fpr": (2.0,)}, "fpr=[2.0]: must be rates above 0"),
    "correctness of a regression": (
        {"records": regression_records(), "attacks": ("correctness",)},
        "attacks=['correctness']: not for regression models, and the labels are numbers; choose from base, ",
    ),
}


@pytest.mark.parametrize(("changes", "named"), REFUSED.values(), ids=REFUSED)
def test_a_bad_request_is_refused_before_anything_is_written(
    tmp_path: Path, changes: dict[str, Any], named: str
) -> None:
    with pytest.raises(InputError) as error:
        small_audit(tmp_path / "run", **changes)
    assert named in str(error.value)
    assert not (tmp_path / "run").exists()


def _tpr_above(scores: Any, members: Any, rank: int) -> float:
    """Share of members above the non-member of this rank from the top."""
    barrier = np.sort(scores[~members])[-rank]
    return float((scores[members] > barrier).mean())


def _share_that_leaves_one(n_models: int) -> float:
    """Between the largest and the second largest of the uniform numbers the nets draw at birth."""
    import torch
    from torch import nn

    from leakscope.randomness import Purpose, seed_integer

    drawn = []
    with torch.random.fork_rng(devices=[]):
        for model in range(n_models):
            torch.manual_seed(seed_integer(0, model, Purpose.INITIALISATION))
            nn.Linear(4, 3)
            drawn.append(float(torch.rand(())))
    largest = sorted(drawn)[-2:]
    return sum(largest) / 2
