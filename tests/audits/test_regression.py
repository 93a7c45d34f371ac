"""Numeric labels: every source of an audit, by default and by name, with the same verdict as for classes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

import leakscope
from leakscope import EstimatorRecipe, FittedEstimator, FunctionRecipe, GivenTarget, PredictFunction, Recipe
from leakscope.array_types import AnyArray, BoolArray
from leakscope.attacks.registry import attack_classes
from leakscope.audits.finished import FinishedRun
from leakscope.audits.planning.plan import plan_audit
from leakscope.audits.settings import AuditSettings
from leakscope.bank.bank import Bank
from leakscope.compare.compare import compare
from leakscope.data.predictions import read_predictions
from leakscope.errors import InputError
from leakscope.evaluate.hygiene.outcome import undermining
from leakscope.evaluate.verdict import Verdict
from leakscope.models.registry import build
from leakscope.runs.verification import verify_run
from leakscope.signals.registry import REGRESSION
from leakscope.types import Records
from tests.cli.command import run_command

N, N_FEATURES, MODELS = 160, 40, 8
RIDGE = EstimatorRecipe(Ridge(alpha=0.1), processes=1)
NET = Recipe(net="mlp", net_options=(("width", 32),), lr=0.01, epochs=6, batch_size=16)
DEFAULTS = ["loss", "lira", "eb_lira"]
ALL = sorted(name for name, cls in attack_classes().items() if cls().reads(REGRESSION))
QUICK = [name for name in ALL if name != "quantile"]  # which fits dozens of boosted trees


def people(seed: int = 0) -> Records:
    """As many features as half of the members: a linear model knows its members by heart to a good part."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(N, N_FEATURES)).astype(np.float32)
    labels = features @ rng.normal(size=N_FEATURES) / np.sqrt(N_FEATURES) + rng.normal(size=N)
    return Records(
        features,
        labels.astype(np.float32),
        np.array([f"p{i}" for i in range(N)]),
        name="people",
        groups={"town": np.array(["a", "b"])[np.arange(N) % 2]},
    )


def moved(records: Records) -> Records:
    """The same labels in another unit."""
    return replace(records, labels=1000 * records.labels + 7)


def train(records: Records, members: AnyArray, seed: int) -> Any:
    return Ridge(alpha=0.1).fit(records.features[members], records.labels[members]).predict


def run(out: Path, records: Records | None = None, recipe: Any = RIDGE, **settings: Any) -> Verdict:
    given = {"models": MODELS, "device": "cpu", **settings}
    return leakscope.audit(people() if records is None else records, recipe, out=out, **given)


def aucs(verdict: Verdict) -> dict[str, float]:
    return {label: float(figures.auc.value) for label, figures in verdict.results.attacks.items()}


def assert_errors_of_the_bank(verdict: Verdict, bank: Bank) -> None:
    """Root mean squared errors in the unit of the labels, each in its intervals."""
    error, loss, in_mask = verdict.results.error, bank.signals().last("loss"), bank.design().in_mask
    assert error is not None and verdict.results.accuracy is None
    for figure, side in ((error.members, in_mask), (error.nonmembers, ~in_mask)):
        mean = np.mean([squares[own].mean() for squares, own in zip(loss, side, strict=True)])
        assert figure.value == pytest.approx(np.sqrt(mean), rel=1e-5)
        assert figure.low <= figure.these_low < figure.value < figure.these_high <= figure.high
    assert error.members.high < error.nonmembers.low
    sentence = f"error: {error.members.value:.3g} on members, {error.nonmembers.value:.3g} on non-members."
    assert sentence in str(verdict)


@pytest.mark.slow
@pytest.mark.parametrize(
    "recipe", [RIDGE, FunctionRecipe(train), NET], ids=["estimator", "training function", "network"]
)
def test_a_population_has_the_same_verdict_as_one_of_classifiers(tmp_path: Path, recipe: Any) -> None:
    gate = leakscope.Gate(max_auc=0.999)
    verdict = run(tmp_path / "run", recipe=recipe, gate=gate)
    assert list(verdict.results.attacks) == DEFAULTS
    assert aucs(verdict)["eb_lira"] > 0.6
    assert verdict.outcome == "passed"
    assert "ranks a random member above a random non-member" in str(verdict)
    assert "bits about a record's membership on average" in str(verdict)
    assert verdict.results.leakage.signal == "scaled_residual"
    assert [group.group for group in verdict.results.attacks["loss"].groups["town"]] == ["a", "b"]
    table = pl.read_parquet(tmp_path / "run" / "records.parquet")
    assert {"id", "label", "town", "advantage", "exposed", "bits"} <= set(table.columns)
    assert table["label"].dtype.is_numeric()
    assert_errors_of_the_bank(verdict, Bank.open(tmp_path / "run"))
    assert not undermining(verdict.results.hygiene)
    assert {"accuracy", "members"} <= {check.name for check in verdict.results.hygiene}
    assert "None" not in str(verdict) and "nan" not in str(verdict)
    assert verify_run(tmp_path / "run").problems == []


@pytest.mark.slow
def test_every_attack_is_the_same_in_another_unit(tmp_path: Path) -> None:
    one = run(tmp_path / "one", attacks=ALL)
    other = run(tmp_path / "other", moved(people()), attacks=ALL)
    assert aucs(other) == pytest.approx(aucs(one), abs=1e-3)  # float32 may swap neighbors
    bits = [verdict.results.leakage.checkpoints[-1].bits.value for verdict in (one, other)]
    assert bits[1] == pytest.approx(bits[0], abs=1e-4)
    assert min(aucs(one).values()) > 0.55


@pytest.mark.slow
def test_networks_do_not_depend_on_the_unit_either(tmp_path: Path) -> None:
    one, other = (run(tmp_path / name, given, NET) for name, given in
                  (("one", people()), ("other", moved(people()))))  # fmt: skip
    assert aucs(other) == pytest.approx(aucs(one), abs=0.01)  # training amplifies float32's rounding


def of_others(records: Records, members: AnyArray, seed: int) -> Any:
    """A model of other people: whoever is in `members`, it has never seen them."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(N // 2, N_FEATURES))
    labels = features @ np.ones(N_FEATURES) / np.sqrt(N_FEATURES) + rng.normal(size=N // 2)
    return Ridge(alpha=0.1).fit(features, labels).predict


@pytest.mark.slow
def test_models_of_other_records_leak_nothing(tmp_path: Path) -> None:
    """The mean over 8 populations of 16 models; their standard deviation is about .01 for every attack."""
    found = [
        aucs(run(tmp_path / str(seed), people(seed), FunctionRecipe(of_others), models=16, seed=seed,
                 attacks=[*QUICK, "lira(online=false)", "rmia(online=false)"]))
        for seed in range(8)
    ]  # fmt: skip
    for label in found[0]:
        values = np.array([auc[label] for auc in found])
        assert abs(values.mean() - 0.5) < 4 * max(values.std(ddof=1), 0.008) / np.sqrt(len(values)), label


@pytest.mark.slow
def test_exact_and_constant_labels_are_handled(tmp_path: Path) -> None:
    tree = EstimatorRecipe(DecisionTreeRegressor(), processes=1)
    exact = run(tmp_path / "exact", recipe=tree, attacks=QUICK)
    assert min(aucs(exact)[name] for name in ("loss", "lira", "eb_lira")) > 0.99  # members' residuals are 0
    assert exact.results.leakage.checkpoints[-1].bits.value > 0.85
    constant = replace(people(), labels=np.full(N, 3.0, dtype=np.float32))
    verdict = run(tmp_path / "constant", constant, attacks=QUICK)
    assert all(auc == pytest.approx(0.5, abs=0.1) for auc in aucs(verdict).values())


@pytest.mark.slow
def test_one_wrong_label_does_not_hide_the_others(tmp_path: Path) -> None:
    tree, wrong = EstimatorRecipe(DecisionTreeRegressor(max_leaf_nodes=20), processes=1), people()
    usual = aucs(run(tmp_path / "usual", recipe=tree, attacks=["eb_lira", "rmia", "reference"]))
    wrong.labels[3] = 1e6
    found = aucs(run(tmp_path / "wrong", wrong, tree, attacks=["eb_lira", "rmia", "reference"]))
    assert all(found[label] > usual[label] - 0.1 for label in usual)


@pytest.mark.parametrize("name", ["correctness", "shokri"])
def test_attacks_on_classifiers_are_refused_in_one_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError) as error:
        run(tmp_path / "run", attacks=[name])
    choices = ", ".join(ALL)
    assert str(error.value) == (
        f"attacks=['{name}']: not for regression models, and the labels are numbers; choose from {choices}"
    )
    assert not (tmp_path / "run").exists()


def test_labels_that_are_not_numbers_are_counted() -> None:
    labels = people().labels.copy()
    labels[[2, 5]] = np.nan, np.inf
    with pytest.raises(InputError, match="2 records have NaN or infinite labels"):
        replace(people(), labels=labels)


@pytest.mark.slow
def test_plan_knows_regressions() -> None:
    source = leakscope.TrainedPopulation(people(), RIDGE)
    planned = plan_audit(AuditSettings(models=MODELS, device="cpu"), source)
    assert planned.cost is not None and planned.cost.time.total.expected > 0
    with pytest.raises(InputError, match="not for regression models"):
        plan_audit(AuditSettings(models=MODELS, attacks=["shokri"]), source)


def given_target(**changes: Any) -> GivenTarget:
    records, is_member = people(), np.arange(N) % 2 == 0
    fitted = Ridge(alpha=0.1).fit(records.features[is_member], records.labels[is_member])
    given = {"model": FittedEstimator(fitted), "recipe": RIDGE, "is_member": is_member, **changes}
    return GivenTarget(records, **given)


def audit_target(out: Path, **changes: Any) -> Verdict:
    return leakscope.audit(given_target(**changes), out=out, models=16, device="cpu")


def predictions_of(is_member: BoolArray) -> Any:
    return train(people(), np.flatnonzero(is_member), 0)


@pytest.mark.slow
def test_a_given_regressor_is_judged_by_references(tmp_path: Path) -> None:
    verdict = audit_target(tmp_path / "run")
    assert {"loss", "population", "lira", "eb_lira"} == set(verdict.results.attacks)
    assert aucs(verdict)["eb_lira"] > 0.6
    assert verdict.outcome != "inconclusive"
    function = PredictFunction(predictions_of(np.arange(N) % 2 == 0))
    again = audit_target(tmp_path / "function", model=function)
    assert aucs(again) == pytest.approx(aucs(verdict))
    assert verify_run(tmp_path / "run").problems == []


def test_given_weights_of_a_regression(tmp_path: Path) -> None:
    records, options = people(), {"width": 8}
    net = build(Recipe(net="mlp", net_options=tuple(options.items())), (N_FEATURES,), 1)
    torch.save(net.state_dict(), tmp_path / "net.pt")
    model = leakscope.NetWeights(tmp_path / "net.pt", "mlp", options, device="cpu")
    outputs = model.outputs(records.features, records.class_names)
    assert outputs.logits.shape == (N, 1) and outputs.kind == "outputs"


def test_columns_in_another_order_are_noticed(tmp_path: Path) -> None:
    own = predictions_of(np.arange(N) % 2 == 0)
    verdict = audit_target(tmp_path, model=PredictFunction(lambda features: own(features[:, ::-1])))
    failed = {check.name for check in verdict.results.hygiene if check.status == "failed"}
    assert {"accuracy", "confidence"} <= failed
    assert "DO NOT TRUST" in str(verdict)


def test_a_given_model_of_the_other_kind_is_refused(tmp_path: Path) -> None:
    from sklearn.linear_model import LogisticRegression

    records = people()
    classifier = LogisticRegression().fit(records.features, records.labels > 0)
    with pytest.raises(InputError, match="LogisticRegression predicts classes, but the labels are numbers"):
        audit_target(tmp_path / "run", model=FittedEstimator(classifier))
    with pytest.raises(InputError, match="which is not fitted"):
        audit_target(tmp_path / "run", model=FittedEstimator(Ridge()))
    with pytest.raises(InputError, match=r"expected \(160, 1\): one row per record, one number each"):
        audit_target(tmp_path / "run", model=PredictFunction(lambda x: np.zeros((len(x), 2))))


def saved(path: Path, n_references: int) -> Path:
    """Predictions of a linear model, and of others trained on random halves."""
    records, rng = people(), np.random.default_rng(1)
    in_mask = rng.random((1 + n_references, N)) < 0.5
    outputs = np.stack([predictions_of(members)(records.features) for members in in_mask])
    if path.suffix == ".npz":
        more = {"reference_outputs": outputs[1:], "reference_members": in_mask[1:]} if n_references else {}
        np.savez(
            path, outputs=outputs[0], labels=records.labels, is_member=in_mask[0], ids=records.ids, **more
        )
        return path
    columns: dict[str, AnyArray] = {"id": records.ids, "label": records.labels, "output": outputs[0]}
    columns["is_member"] = in_mask[0]
    for number in range(n_references):
        columns[f"reference_{number}_output"] = outputs[1 + number]
        columns[f"reference_{number}_member"] = in_mask[1 + number]
    pl.DataFrame(columns).write_csv(path)
    return path


@pytest.mark.parametrize("suffix", ["npz", "csv"])
def test_saved_predictions_of_a_regression(tmp_path: Path, suffix: str) -> None:
    alone = leakscope.audit(
        leakscope.SavedPredictions(saved(tmp_path / f"alone.{suffix}", 0)), out=tmp_path / "a"
    )
    assert list(alone.results.attacks) == ["loss", "population"]
    assert alone.results.config.source.facts["outputs"] == "saved outputs of one model"
    file = saved(tmp_path / f"with.{suffix}", 12)
    found = leakscope.audit(leakscope.SavedPredictions(file), out=tmp_path / "b")
    assert {"loss", "population", "lira", "eb_lira"} == set(found.results.attacks)
    assert aucs(found)["eb_lira"] > 0.6
    assert verify_run(tmp_path / "b").problems == []


def test_predictions_by_command_line_with_a_gate(tmp_path: Path) -> None:
    file = saved(tmp_path / "one.csv", 0)
    result = run_command("audit", "--predictions", str(file), "--out", str(tmp_path / "run"), "--quiet")
    assert result.exit_code == 0, result.output
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert list(results["attacks"]) == ["loss", "population"]


REFUSED_PREDICTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "two columns": ({"outputs": np.zeros((N, 2))}, r"outputs have shape \(160, 2\), expected \(records,\)"),
    "text labels": ({"labels": np.full(N, "a")}, "labels must be numbers beside outputs"),
    "NaN labels": ({"labels": np.full(N, np.nan)}, "'labels' is NaN, infinite or too large in 160 rows"),
    "both": ({"logits": np.zeros((N, 2))}, "has both logits and outputs"),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), REFUSED_PREDICTIONS.values(), ids=REFUSED_PREDICTIONS)
def test_wrong_predictions_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    arrays = {"outputs": np.zeros(N), "labels": people().labels, "is_member": np.arange(N) % 2}
    np.savez(tmp_path / "p.npz", **{**arrays, **changes})
    with pytest.raises(InputError, match=message):
        read_predictions(tmp_path / "p.npz")


@pytest.mark.slow
def test_finished_regressions_are_judged_again_and_compared(tmp_path: Path) -> None:
    run(tmp_path / "weak", recipe=EstimatorRecipe(Ridge(alpha=100.0), processes=1))
    run(tmp_path / "strong")
    again = leakscope.audit(FinishedRun(tmp_path / "strong"), out=tmp_path / "strong",
                            attacks=["rmia", "calibrated"])  # fmt: skip
    assert {"rmia", "calibrated"} <= set(again.results.attacks)
    with pytest.raises(InputError, match="not for regression models"):
        leakscope.audit(FinishedRun(tmp_path / "strong"), out=tmp_path / "strong", attacks=["correctness"])
    comparison = compare([tmp_path / "weak", tmp_path / "strong"], out=tmp_path / "compared")
    assert comparison.is_regression  # the second run leaks more
