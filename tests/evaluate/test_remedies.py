"""What to do: each finding has its remedy, and without a finding there is no advice."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from leakscope.evaluate.config import SourceKind
from leakscope.evaluate.gate import Gate
from leakscope.evaluate.hygiene.duplicates import check_duplicates
from leakscope.evaluate.hygiene.outcome import Outcome
from leakscope.evaluate.levels import auc_of, tpr_of
from leakscope.evaluate.limits import judge_gate
from leakscope.evaluate.rating_results import Level, Rating, RatingPart
from leakscope.evaluate.remedies import Remedy, remedies
from leakscope.evaluate.results import AuditResults, CheckpointFit, Figure
from leakscope.evaluate.suggested_gate import suggested_gate
from leakscope.leakage.checkpoints import CheckpointLeakage
from leakscope.stats.estimate import TwoEstimates
from tests.made_up_audits import made_up_audit, quick_single_records

NETWORK = {"net": "mlp", "weight_decay": 0.0, "schedule": "constant"}
TOML = (
    '[data]\nfile = "people.csv"\nlabel = "y"\n\n[training]\nepochs = 40\nlr = 0.01\ncheckpoints = [5, 40]\n'
)


@pytest.fixture(scope="module")
def audits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, AuditResults]:
    folder = tmp_path_factory.mktemp("remedied")
    with quick_single_records():
        quiet = made_up_audit(folder / "quiet", 0.0, fpr_budgets=(0.1,)).results
        leaky = made_up_audit(folder / "leaky", 3.0, fpr_budgets=(0.1,)).results
    return {"quiet": without_findings(quiet), "leaky": leaky}


def _within_a_hundredth(bits: float) -> TwoEstimates:
    return TwoEstimates(bits, bits - 0.02, bits + 0.02, bits - 0.01, bits + 0.01)


def without_findings(results: AuditResults) -> AuditResults:
    """Enough models, accuracy equal on both sides, honest outputs, no group that differs."""
    assert results.exposed is not None
    flat = figure(0.8, 0.02)
    return replace(
        results,
        exposed=replace(results.exposed, records=0, share=0.0, fewest_detectable=1, reason=None),
        accuracy=replace(results.accuracy, members=flat, nonmembers=flat),  # type: ignore[type-var]
        fit=(CheckpointFit(40, 0.8, 0.8, 0.81),),
        attacks={label: replace(figures, groups={}) for label, figures in results.attacks.items()},
        config=replace(results.config, source=replace(results.config.source, toml=TOML)),
        population=replace(results.population, recipe=NETWORK),
    )


def figure(value: float, half_width: float) -> Figure:
    return Figure(value, value - half_width, value + half_width, 0.01)


def only(results: AuditResults) -> Remedy:
    (remedy,) = remedies(results)
    return remedy


def table(remedy: Remedy) -> dict[str, Any]:
    return tomllib.loads(remedy.code)


def with_checkpoints(
    results: AuditResults, bits: dict[int, float], accuracy: dict[int, float]
) -> AuditResults:
    last = results.leakage.checkpoints[-1]
    checkpoints: list[CheckpointLeakage] = [
        replace(
            last,
            epoch=epoch,
            bits=TwoEstimates(value, value - 0.02, value + 0.02, value - 0.01, value + 0.01),
        )
        for epoch, value in bits.items()
    ]
    fits = tuple(CheckpointFit(epoch, value, value, None) for epoch, value in accuracy.items())
    return replace(results, leakage=replace(results.leakage, checkpoints=tuple(checkpoints)), fit=fits)


def with_groups(
    results: AuditResults, aucs: dict[str, tuple[float, float]], records: int = 40
) -> AuditResults:
    label = results.strongest_attack
    own = results.attacks[label]
    base = figure(0.5, 0.02)
    from leakscope.evaluate.results import GroupFigures

    groups = tuple(GroupFigures(name, records, figure(*auc), base, ()) for name, auc in aucs.items())
    attacks = {**results.attacks, label: replace(own, auc=base, groups={"town": groups})}
    return replace(results, attacks=attacks)


def test_without_a_finding_there_is_no_advice(audits: dict[str, AuditResults]) -> None:
    assert remedies(audits["quiet"]) == ()


@pytest.mark.parametrize(("level", "has_advice"), [("low", False), ("moderate", True), ("severe", True)])
def test_a_leak_calls_for_advice(audits: dict[str, AuditResults], level: Level, has_advice: bool) -> None:
    results = audits["quiet"]
    worst = RatingPart("worst", "bits of the most exposed 1% of records", level, level, 0.8, 0.8, 0.9, None)
    leaky = replace(results, rating=Rating(level, level, (worst,), None))
    assert [remedy.finding for remedy in remedies(leaky)] == ["leakage"] * has_advice
    for remedy in remedies(leaky):  # not the AUC, which is 0.5 here
        assert remedy.found.startswith(f"Rating: {level}. The most exposed 1% of records reveal at least 0.8")
    source = replace(results.config.source, kind="predictions")
    saved = replace(leaky, config=replace(leaky.config, source=source))
    assert remedies(saved) == ()  # nothing can be trained again


def test_exposed_records_that_were_detected_need_no_more_models(audits: dict[str, AuditResults]) -> None:
    results = audits["quiet"]
    assert results.exposed is not None
    exposed = replace(results.exposed, records=70, share=0.5, fewest_detectable=3, reason="not resolvable")
    assert remedies(replace(results, exposed=exposed)) == ()


def test_duplicates_are_to_be_removed(audits: dict[str, AuditResults]) -> None:
    in_mask = np.array([[True, True, False, False]])
    check = check_duplicates(np.array([0, 0, 2, 3]), in_mask)
    remedy = only(replace(audits["quiet"], hygiene=(check,)))
    assert remedy.finding == "duplicates" and remedy.found.startswith("2 records have an exact copy")


def test_the_line_that_removes_duplicates_works() -> None:
    import numpy

    from leakscope.types import Records

    features = np.array([[1.0], [1.0], [2.0]], dtype=np.float32)
    records = Records(features, np.array([0, 0, 1]), np.array(["a", "b", "c"]), "x", {}, ("n", "y"))
    scope = {"records": records, "numpy": numpy}
    exec("records = records.take(numpy.unique(records.duplicate_of))", scope)
    assert scope["records"].ids.tolist() == ["a", "c"]  # type: ignore[attr-defined]


def test_training_stops_where_only_leakage_still_grows(audits: dict[str, AuditResults]) -> None:
    results = with_checkpoints(audits["quiet"], {5: 0.02, 20: 0.1, 40: 0.3}, {5: 0.7, 20: 0.8, 40: 0.803})
    remedy = only(results)
    assert remedy.finding == "late epochs" and "epoch 20" in remedy.advice
    assert table(remedy)["training"] == {"epochs": 20, "lr": 0.01}
    assert "-0.3 points" in remedy.cost and "50% of the time" in remedy.cost


@pytest.mark.parametrize(
    ("bits", "accuracy"),
    [
        ({5: 0.295, 40: 0.3}, {5: 0.8, 40: 0.8}),  # leakage grows within its intervals
        ({5: 0.1, 40: 0.3}, {5: 0.7, 40: 0.8}),  # so does accuracy
        ({40: 0.3}, {40: 0.8}),  # one checkpoint
    ],
)
def test_training_that_still_learns_goes_on(
    audits: dict[str, AuditResults], bits: dict[int, float], accuracy: dict[int, float]
) -> None:
    assert remedies(with_checkpoints(audits["quiet"], bits, accuracy)) == ()


def test_another_schedule_is_a_caution(audits: dict[str, AuditResults]) -> None:
    results = with_checkpoints(audits["quiet"], {20: 0.1, 40: 0.3}, {20: 0.8, 40: 0.8})
    recipe = {**NETWORK, "schedule": "cosine"}
    remedy = only(replace(results, population=replace(results.population, recipe=recipe)))
    assert "cosine schedule" in remedy.advice


@pytest.mark.parametrize(
    ("recipe", "section", "expected"),
    [
        (NETWORK, "training", {"weight_decay": 0.01}),
        ({**NETWORK, "weight_decay": 0.02}, "training", {"weight_decay": 0.06}),
        (
            {"estimator": "a:Forest", "parameters": {"min_samples_leaf": 5}},
            "model",
            {"options": {"min_samples_leaf": 10}},
        ),
        ({"estimator": "a:Linear", "parameters": {"C": "1.0"}}, "model", {"options": {"C": 0.1}}),
    ],
)
def test_a_large_gap_calls_for_regularization(
    audits: dict[str, AuditResults], recipe: dict[str, Any], section: str, expected: dict[str, Any]
) -> None:
    results = audits["quiet"]
    accuracy = replace(results.accuracy, members=figure(0.95, 0.02))  # type: ignore[type-var]
    population = replace(results.population, recipe=recipe)
    remedy = only(replace(results, accuracy=accuracy, population=population))
    assert remedy.finding == "overfitting" and "15.0 points" in remedy.found
    assert expected.items() <= table(remedy)[section].items()


def test_a_gap_within_the_intervals_is_no_finding(audits: dict[str, AuditResults]) -> None:
    results = audits["quiet"]
    accuracy = replace(results.accuracy, members=figure(0.86, 0.02))  # type: ignore[type-var]
    assert remedies(replace(results, accuracy=accuracy)) == ()


def test_outputs_that_are_surer_than_right_are_overconfident(audits: dict[str, AuditResults]) -> None:
    remedy = only(replace(audits["quiet"], fit=(CheckpointFit(40, 0.8, 0.8, 0.9),)))
    assert remedy.finding == "overconfidence" and "90.0%" in remedy.found and "80.0%" in remedy.found
    assert table(remedy)["training"]["weight_decay"] == 0.01


def test_a_tree_is_not_advised_weight_decay(audits: dict[str, AuditResults]) -> None:
    recipe = {"estimator": "a:Tree", "parameters": {"min_samples_leaf": 1}}
    population = replace(audits["quiet"].population, recipe=recipe)
    overconfident = replace(audits["quiet"], fit=(CheckpointFit(40, 0.8, 0.8, 0.9),), population=population)
    remedy = only(overconfident)
    assert "decay" not in remedy.advice and "more records in every leaf" in remedy.advice
    assert table(remedy)["model"]["options"] == {"min_samples_leaf": 5}


@pytest.mark.parametrize(("kind", "toml", "command"), [
    ("population", TOML, "leakscope advise"),
    ("population", None, "leakscope.advise"),
    ("predictions", None, None),
    ("given model", TOML, None),
])  # fmt: skip
def test_no_advice_names_a_command_that_refuses(
    audits: dict[str, AuditResults], kind: SourceKind, toml: str | None, command: str | None
) -> None:
    """`leakscope advise` tries defences on models that leakscope trains, and needs their config file."""
    source = replace(audits["leaky"].config.source, kind=kind, toml=toml)
    results = replace(audits["leaky"], config=replace(audits["leaky"].config, source=source))
    advised = " ".join(f"{remedy.advice} {remedy.code}" for remedy in remedies(results))
    assert advised
    assert {name for name in ("leakscope advise", "leakscope.advise") if name in advised} == (
        set() if command is None else {command}
    )
    assert ("CONFIG.toml" in advised) == (command == "leakscope advise")


def test_a_group_above_all_records_is_named(audits: dict[str, AuditResults]) -> None:
    results = with_groups(audits["quiet"], {"north": (0.7, 0.05), "south": (0.5, 0.05)})
    remedy = only(results)
    assert remedy.finding == "groups" and "'north'" in remedy.found and "south" not in remedy.found


@pytest.mark.parametrize(
    ("aucs", "records"),
    [
        ({"north": (0.7, 0.05)}, 5),  # a group so small that it would point at people
        ({f"town {k}": (0.575, 0.05) for k in range(50)}, 40),  # one of 50 intervals is off by chance
    ],
)
def test_chance_and_small_groups_are_no_finding(
    audits: dict[str, AuditResults], aucs: dict[str, tuple[float, float]], records: int
) -> None:
    assert remedies(with_groups(audits["quiet"], aucs, records)) == ()


def test_too_few_models_are_to_be_extended(audits: dict[str, AuditResults]) -> None:
    results = audits["quiet"]
    assert results.exposed is not None
    blind = {"records": None, "share": None, "reason": "not resolvable"}
    exposed = replace(results.exposed, tested=100_000, fewest_detectable=156, **blind)
    remedy = only(replace(results, exposed=exposed))
    assert remedy.code == "leakscope audit CONFIG.toml --models 24" and "8 more models" in remedy.cost


def test_after_a_failed_check_no_figure_is_acted_on(audits: dict[str, AuditResults]) -> None:
    assert remedies(audits["leaky"])
    failed = Outcome("accuracy", "failed", "Wrong references.")
    exposed = audits["quiet"].exposed
    assert remedies(replace(audits["leaky"], hygiene=(failed,), exposed=exposed)) == ()


def test_a_quiet_model_gets_the_tightest_gate_and_passes_it(audits: dict[str, AuditResults]) -> None:
    results = audits["quiet"]
    suggested = suggested_gate(results)
    assert suggested.below == "moderate" and suggested.outcome == "passed"
    assert suggested.gate.max_auc == pytest.approx(auc_of("moderate"), abs=1e-4)
    assert suggested.gate.max_tpr[0].tpr <= tpr_of("moderate", suggested.gate.max_tpr[0].fpr)
    assert judge_gate(suggested.gate, results.attacks, results.exposed).outcome == "passed"


def test_a_leaky_model_does_not_set_the_standard(audits: dict[str, AuditResults]) -> None:
    suggested = suggested_gate(audits["leaky"])
    assert suggested.below == "high" and suggested.outcome == "failed"
    assert "The audited model fails these limits." in suggested.reasons


def test_the_table_of_the_gate_reads_back(audits: dict[str, AuditResults]) -> None:
    suggested = suggested_gate(audits["quiet"])
    read = tomllib.loads(suggested.toml)["gate"]
    from leakscope.evaluate.gate import TprLimit

    limits = tuple(TprLimit(**limit) for limit in read.pop("max_tpr"))
    assert Gate(max_tpr=limits, **read) == suggested.gate
