"""Members are people with several records: planted leakage is found, none is invented, nobody is split."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.neighbors import KNeighborsClassifier

import leakscope
from leakscope.array_types import AnyArray, BoolArray, IntArray
from leakscope.audits.merged import merge_runs
from leakscope.audits.population import TrainedPopulation
from leakscope.audits.run import prepare
from leakscope.audits.settings import AuditSettings
from leakscope.audits.units import repeated_ids
from leakscope.data.frame_records import FrameRoles, frame_records
from leakscope.errors import BankMismatchError, InputError
from leakscope.evaluate.hygiene.shift import check_shift, search_for_shift
from leakscope.evaluate.verdict import Verdict
from leakscope.recipe import EstimatorRecipe, FunctionRecipe
from leakscope.runs.run import open_run
from leakscope.runs.verification import verify_run
from leakscope.types import Records
from tests.cli.command import run_command
from tests.quick_audits import short_trials

N_PATIENTS = 60
NEIGHBOURS = EstimatorRecipe(KNeighborsClassifier(3), processes=1)


def visits() -> pl.DataFrame:
    """Visits of one patient are alike and share the diagnosis, which features do not predict."""
    rng = np.random.default_rng(0)
    patient = rng.permutation(np.repeat(np.arange(N_PATIENTS), rng.integers(8, 14, N_PATIENTS)))
    body, is_ill = rng.normal(size=(N_PATIENTS, 4)), rng.random(N_PATIENTS) < 0.5
    columns = body[patient] + 0.1 * rng.normal(size=(len(patient), 4))
    table = pl.DataFrame(columns, schema=["height", "pulse", "iron", "age"])
    return table.with_columns(
        pl.Series("patient_id", [f"P{p:02d}" for p in patient]),
        pl.Series("site", np.where(patient % 2, "north", "south")),
        pl.Series("day", (np.arange(len(patient)) % 3).astype(str)),
        pl.Series("diagnosis", np.where(is_ill[patient], "ill", "well")),
    )


def records_of(unit: str | None = "patient_id") -> Records:
    own = visits()
    roles = FrameRoles("diagnosis", groups=own.select("site", "day"), unit=unit)
    dropped = ["site", "day"] if unit else ["site", "day", "patient_id"]
    return frame_records(own.drop(dropped), roles)


def audited(out: Path, unit: str | None = "patient_id", **changes: Any) -> Verdict:
    given: dict[str, Any] = {"recipe": NEIGHBOURS, "models": 8, "attacks": ["eb_lira", "loss"], "fpr": [0.1]}
    given |= {"device": "cpu", **({} if unit is None else {"unit": unit}), **changes}
    return leakscope.audit(given.pop("records", records_of(unit)), given.pop("recipe"), out, **given)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("units") / "run"
    audited(folder)
    return folder


def ignore_the_records(records: Records, _members: IntArray, seed: int) -> Any:
    weights = np.random.default_rng(seed).normal(size=(records.features.shape[1], 2))

    def predict(features: AnyArray) -> AnyArray:
        logits = features @ weights
        return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)

    return predict


def test_leakage_about_patients_is_found_where_an_audit_of_records_misses_it(
    run: Path, tmp_path: Path
) -> None:
    by_patient = open_run(run).results
    by_record = audited(tmp_path / "records", unit=None).results
    assert by_patient.headline.auc.low is not None and by_patient.headline.auc.low > 0.75
    assert by_record.headline.auc.value is not None and by_record.headline.auc.value < 0.6
    assert by_patient.population.records == N_PATIENTS
    assert by_patient.population.rows == by_record.population.records == len(visits())


@pytest.mark.slow
def test_models_that_ignore_the_records_reveal_nothing_about_patients(tmp_path: Path) -> None:
    verdict = audited(tmp_path / "null", recipe=FunctionRecipe(ignore_the_records), models=16)
    auc = verdict.results.headline.auc
    assert auc.low is not None and auc.high is not None and auc.low < 0.5 < auc.high
    assert verdict.rating in ("none found", "inconclusive")
    assert [check.name for check in verdict.results.hygiene if check.status == "failed"] == []


def test_every_record_of_a_patient_shares_its_membership_and_models_have_equally_many_patients(
    run: Path,
) -> None:
    design = open_run(run).design
    assert design.units is not None
    np.testing.assert_array_equal(design.in_mask, design.of_units.in_mask[:, design.units])
    assert np.ptp(design.of_units.in_mask.sum(axis=1)) <= 1
    assert np.ptp(design.in_mask.sum(axis=1)) > 1
    assert "records per model" in open_run(run).results.config.source.facts


def test_verdict_and_reports_speak_of_patients(run: Path) -> None:
    text = str(open_run(run).verdict)
    assert f"trained on a random half of {N_PATIENTS} patients ({len(visits())} records" in text
    assert "ranks a random patient of the training set above a random other patient" in text
    assert "for patients like these" in text and "records like these" not in text
    for page in ("report.html", "report.md"):
        report = (run / page).read_text()
        assert "patients like these" in report and "records like these" not in report
    assert ">patient</th>" in (run / "report.html").read_text()


def test_the_tables_have_a_row_for_each_patient_and_for_each_record(run: Path) -> None:
    patients, rows = pl.read_parquet(run / "records.parquet"), pl.read_parquet(run / "rows.parquet")
    assert sorted(patients["id"]) == sorted(set(visits()["patient_id"]))
    assert patients["records"].sum() == len(rows) == len(visits())
    assert {"advantage", "advantage_low", "exposed", "bits", "label", "site"} <= set(patients.columns)
    assert rows["patient_id"].to_list() == visits()["patient_id"].to_list()
    assert "exposed" not in rows.columns and "advantage" in rows.columns
    sizes = dict(visits().group_by("patient_id").len().iter_rows())
    assert dict(patients.select("id", "records").iter_rows()) == sizes


def test_groups_are_of_patients_and_what_varies_within_one_has_none(run: Path) -> None:
    results = open_run(run).results
    groups = results.attacks["loss"].groups
    assert {g.group: g.records for g in groups["site"]} == {"north": 30, "south": 30}
    assert set(groups) == {"site", "label"}
    assert results.groups_left_out == {"day": "it varies within patients"}


def test_a_run_of_units_is_verified_and_judged_again(run: Path) -> None:
    assert not verify_run(run).problems
    again = open_run(run).judge("lira").results
    assert again.attacks["lira"].auc.value is not None and again.attacks["lira"].auc.value > 0.75
    scores = open_run(run).scores("lira")
    assert scores.values.shape == scores.is_member.shape == (8, N_PATIENTS)
    assert len(scores.ids) == N_PATIENTS


def test_a_bank_of_another_unit_is_refused(run: Path) -> None:
    before = (run / "results.json").read_bytes()
    with pytest.raises(BankMismatchError, match=r"design\.units is 60 there, None now"):
        audited(run, unit=None, records=records_of())
    with pytest.raises(BankMismatchError, match="design"):
        audited(run, unit="day")
    assert (run / "results.json").read_bytes() == before


@pytest.mark.slow
def test_a_run_of_units_is_extended_and_merged(run: Path, tmp_path: Path) -> None:
    audited(tmp_path / "more", models=4)
    extended = audited(tmp_path / "more", models=8)
    assert extended.results.population.models == 8
    assert not verify_run(tmp_path / "more").problems
    audited(tmp_path / "other", seed=5)
    merged = merge_runs([run, tmp_path / "other"], tmp_path / "merged").verdict
    assert merged is not None and merged.results.population.records == N_PATIENTS
    assert not verify_run(tmp_path / "merged").problems
    audited(tmp_path / "by_record", unit=None, seed=6, records=records_of())
    with pytest.raises((InputError, BankMismatchError), match="memberships are drawn for"):
        merge_runs([run, tmp_path / "by_record"], tmp_path / "mixed")


@pytest.mark.slow
def test_audits_of_units_are_compared_and_not_with_audits_of_records(run: Path, tmp_path: Path) -> None:
    audited(tmp_path / "null", recipe=FunctionRecipe(ignore_the_records))
    done = run_command("compare", run, tmp_path / "null", "--out", tmp_path / "compared", "--json")
    assert done.exit_code == 0, done.err
    audited(tmp_path / "records", unit=None, records=records_of())
    refused = run_command("compare", run, tmp_path / "records", "--out", tmp_path / "refused")
    assert refused.exit_code == 2 and "unit" in refused.err


def test_a_given_model_is_audited_by_patient(tmp_path: Path) -> None:
    records = records_of()
    names = records.groups["patient_id"]
    is_member = np.isin(names, np.unique(names)[::2])
    fitted = KNeighborsClassifier(3).fit(records.features[is_member], records.labels[is_member])

    def audit_given(members: BoolArray, out: Path) -> Verdict:
        model = leakscope.PredictFunction(fitted.predict_proba)
        source = leakscope.GivenTarget(records, model, members, NEIGHBOURS)
        return leakscope.audit(source, out=out, models=8, unit="patient_id", device="cpu")

    results = audit_given(is_member, tmp_path / "given").results
    assert results.population.records == N_PATIENTS and results.population.members == N_PATIENTS // 2
    assert results.headline.auc.low is not None and results.headline.auc.low > 0.5
    split = is_member.copy()
    split[np.flatnonzero(is_member)[0]] = False
    with pytest.raises(InputError, match="of 1 patients some records are members"):
        audit_given(split, tmp_path / "split")


@pytest.mark.slow
def test_a_config_file_and_the_command_line_name_the_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short_trials(monkeypatch)
    visits().write_csv(tmp_path / "visits.csv")
    lines = [
        '[data]\nfile = "visits.csv"\nlabel = "diagnosis"\ngroups = ["site"]',
        'features = ["height", "pulse", "iron", "age"]',
        '[model]\nestimator = "sklearn.neighbors:KNeighborsClassifier"\noptions = { n_neighbors = 3 }',
        "[population]\nmodels = 8",
    ]
    config = tmp_path / "visits.toml"
    config.write_text("\n".join([*lines, 'unit = "patient_id"']))
    done = run_command("audit", config, "--out", tmp_path / "run", "--attacks", "eb_lira")
    assert done.exit_code == 0 and f"random half of {N_PATIENTS} patients" in done.out
    config.write_text("\n".join(lines))
    planned = run_command("plan", config, "--unit", "patient_id")
    assert f"random halves of {N_PATIENTS} patients" in planned.out, planned
    again = run_command(
        "audit", config, "--unit", "patient_id", "--out", tmp_path / "run", "--attacks", "lira"
    )
    assert again.exit_code == 0, again.err


@pytest.mark.slow
def test_canaries_are_units_of_their_own(tmp_path: Path) -> None:
    verdict = audited(tmp_path / "run", canaries=leakscope.Canaries(number=20), models=8)
    results = verdict.results
    assert results.population.canaries == 20 and results.population.records <= N_PATIENTS
    assert results.headline.canaries is not None and results.headline.canaries.records == 20
    assert not verify_run(tmp_path / "run").problems


@pytest.mark.parametrize(
    ("unit", "says"),
    [
        ("patient", "did you mean 'patient_id'"),
        ("one", "all records belong to"),
        ("some", "2 records have no"),
    ],
)
def test_columns_that_cannot_be_units_are_refused(unit: str, says: str, tmp_path: Path) -> None:
    records = records_of()
    n = len(records)
    some = np.where(np.arange(n) < 2, "(missing)", np.arange(n).astype(str))
    groups = {**records.groups, "one": np.full(n, "all"), "some": some}
    with pytest.raises(InputError, match=says):
        leakscope.audit(replace(records, groups=groups), NEIGHBOURS, tmp_path / "run", models=4, unit=unit)
    assert not (tmp_path / "run").exists()


def test_a_claim_is_about_one_record(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a claim is about one record"):
        audited(tmp_path / "run", claim=leakscope.dp.Claim(epsilon=1))


def test_repeated_ids_are_noticed_where_records_are_units() -> None:
    wanted = "understates the risk of persons: set unit = 'patient_id'"
    own = frame_records(visits().drop("site", "day"), FrameRoles("diagnosis"))
    (warning,) = repeated_ids(own, None)
    assert warning.endswith(wanted)
    source = TrainedPopulation(records_of(), NEIGHBOURS)
    prepared = [prepare(AuditSettings(models=4, unit=unit), source) for unit in (None, "patient_id")]
    assert [any(wanted in line for line in one.columns) for one in prepared] == [True, False]
    assert repeated_ids(records_of(unit=None), None) == []


def test_audit_warns_of_repeated_ids(tmp_path: Path) -> None:
    numbered = visits().with_columns(pl.col("patient_id").str.slice(1).cast(pl.Int64)).drop("site", "day")
    recipe = leakscope.Recipe(epochs=1)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        leakscope.audit(X=numbered, y="diagnosis", recipe=recipe, models=2, out=tmp_path / "run")
    assert any("understates the risk of persons" in str(warning.message) for warning in warned)


def test_alike_records_of_one_patient_are_no_shift_between_members_and_others(whole_audits: None) -> None:
    """A forest that sees some visits of a patient recognizes the others, whatever the two sets are."""
    records = records_of()
    names, units = np.unique(records.groups["patient_id"], return_inverse=True)
    is_member = (np.random.default_rng(1).permutation(len(names)) < len(names) // 2)[units]
    features = records.features.__getitem__
    split = check_shift(search_for_shift(features, is_member).scores(), is_member)
    whole = check_shift(search_for_shift(features, is_member, units=units).scores(), is_member, units)
    assert split.status == "failed" and whole.status == "ok"


def test_init_asks_whose_record_a_row_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    visits().drop("day").write_csv(tmp_path / "visits.csv")
    monkeypatch.chdir(tmp_path)
    done = run_command("init", "visits.csv", "--yes")
    assert done.exit_code == 0, done.err
    assert 'unit = "patient_id"' in (tmp_path / "visits.toml").read_text()
    assert "Unit: 'patient_id'" in done.out
