"""A table and an estimator in one call: what is refused, resumed, reported; files go the same way."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import leakscope
from leakscope.audits import run
from leakscope.bank.bank import Bank
from leakscope.design import make_design
from leakscope.engine.processes import ProcessPool
from leakscope.engine.request import TrainingRequest
from leakscope.engine.worker import Unit, Worker
from leakscope.errors import BankMismatchError, InputError
from tests.cli.command import run_command
from tests.quick_audits import short_trials

N = 40
TREE = DecisionTreeClassifier()


def people(n: int = N, **columns: Any) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "person": [f"p{k}" for k in rng.permutation(n)],
            "age": rng.normal(50, 10, n),
            "town": rng.choice(["Rome", "Oslo"], n),
            "outcome": rng.permutation(np.array(["no", "yes"] * (n // 2))),
            **columns,
        }
    )
    known = np.arange(n) % 5 > 0
    return frame.with_columns(age=pl.when(pl.Series(known)).then("age"))


def pipeline() -> Any:
    columns = make_column_transformer(
        (SimpleImputer(), ["age"]), (OneHotEncoder(handle_unknown="ignore"), ["town"])
    )
    return make_pipeline(columns, LogisticRegression())


def small_audit(out: Path, **changes: Any) -> leakscope.Verdict:
    given = {"X": people(), "y": "outcome", "ids": "person", "groups": "town", "estimator": pipeline()}
    return leakscope.audit(out=out, **{"models": 4, "device": "cpu", **given, **changes})


def test_a_table_with_missing_values_and_a_pipeline(tmp_path: Path) -> None:
    verdict = small_audit(tmp_path / "run")
    facts = verdict.results.config.source.facts
    assert facts["columns"] == "2 features: age number, 8 missing; town text, 2 values"
    assert "columns to check" not in facts
    report = (tmp_path / "run" / "report.html").read_text()
    assert "2 features: age number, 8 missing; town text, 2 values" in report
    table = pl.read_parquet(tmp_path / "run" / "records.parquet")
    assert table["id"].sort().to_list() == people()["person"].sort().to_list() and "town" in table.columns


@pytest.mark.slow
def test_a_run_resumes_only_with_the_same_table_and_the_same_estimator(tmp_path: Path) -> None:
    small_audit(tmp_path)
    before = Bank.open(tmp_path).manifest
    small_audit(tmp_path, X=people())
    assert Bank.open(tmp_path).manifest == before, "nothing was trained"
    shifted = people().with_columns(pl.col("age") + 1e-9)
    other = pipeline().set_params(logisticregression__C=2.0)
    turned = people().select("outcome", "town", "age", "person")
    changes = [{"X": table} for table in (shifted, turned, people().cast({"age": pl.Float32}))]
    for change in (*changes, {"estimator": other}):
        with pytest.raises(BankMismatchError, match=r"different bank|other code"):
            small_audit(tmp_path, **change)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": None, "source": None}, "y, ids, groups would do nothing without X"),
        ({"source": leakscope.load("digits")}, "give either X or source"),
        ({"recipe": "outcome"}, "give either recipe or estimator; a table is given as X=.*labels as y="),
        ({"gate": "release"}, r"gate='release': write for example .* or leakscope\.Gate\(preset='release'\)"),
        ({"X": "people.csv"}, r"X='people\.csv': give a table, or leakscope\.read_table"),
        ({"recipe": leakscope.Recipe()}, "give either recipe or estimator"),
        ({"estimator": LogisticRegression}, r"estimator is LogisticRegression: .* LogisticRegression\(\)"),
        ({"estimator": "sklearn.svm:SVC"}, r"estimator is str: .* for example RandomForestClassifier\(\)"),
        ({"estimator": None}, "recipe is missing: records need one"),
        ({"estimator": None, "recipe": TREE}, "recipe is DecisionTreeClassifier: give .*wrap an estimator"),
        ({"y": "outcom"}, "y column 'outcom' does not exist; did you mean 'outcome'"),
        ({"y": None}, "y is missing; give one of person, age, town, outcome, or values"),
        ({"ids": "town"}, "id column 'town' is not unique.* says whose record it is.* is the unit"),
        ({"groups": ["sex"]}, "group column 'sex' does not exist"),
        ({"model": 8}, "model is not a setting of an audit; did you mean 'models'"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        small_audit(tmp_path / "run", **changes)
    assert "\n" not in str(caught.value) and not (tmp_path / "run").exists()


def test_a_table_as_the_source_is_explained() -> None:
    with pytest.raises(InputError, match=r"source is DataFrame: give a table as X=..., with y=..."):
        leakscope.audit(people(), estimator=TREE)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="there is nothing to audit: pass a table"):
        leakscope.audit()


@pytest.fixture
def only_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    """An audit ends once everything is checked."""
    monkeypatch.setattr(run, "run_audit", lambda settings, source, *_: run.prepare(settings, source))


@pytest.mark.usefixtures("only_prepared")
def test_likely_mistakes_are_warnings_and_in_the_report(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="X: 'row' counts the rows"):
        prepared: Any = small_audit(tmp_path, X=people(row=np.arange(N)))
    assert prepared.config.source.facts["columns to check"].startswith("Check: 'row' counts the rows")


@pytest.mark.usefixtures("only_prepared")
def test_a_part_that_is_fitted_before_the_audit_is_named() -> None:
    frozen = pytest.importorskip("sklearn.frozen", reason="this scikit-learn freezes no estimators")
    x = np.random.default_rng(0).normal(size=(N, 2))
    fitted = frozen.FrozenEstimator(StandardScaler().fit(x))
    with pytest.warns(UserWarning, match="FrozenEstimator, which is the same in every model"):
        leakscope.audit(X=x, y=np.arange(N) % 2, estimator=make_pipeline(fitted, TREE), models=4)


@pytest.mark.usefixtures("only_prepared")
def test_an_estimator_decides_whether_whole_numbers_are_classes() -> None:
    x, y = np.random.default_rng(0).normal(size=(N, 2)), np.arange(N) % 10
    for estimator, dtype in ((LinearRegression(), np.float32), (TREE, np.int64)):
        prepared: Any = leakscope.audit(X=x, y=y, estimator=estimator, models=4)
        assert prepared.request.records.labels.dtype == dtype


@pytest.mark.usefixtures("only_prepared")
def test_a_network_gets_the_same_table_by_rules(tmp_path: Path) -> None:
    recipe = leakscope.Recipe(epochs=1, net_options=(("width", 4),))
    prepared: Any = small_audit(tmp_path, estimator=None, recipe=recipe)
    assert prepared.config.source.facts["columns"] == (
        "2 features: age number, mean and a column for missing ones, 8 missing; town text, 2 values, one-hot"
    )
    features = prepared.request.records.features
    np.testing.assert_allclose(features.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(features.std(axis=0), 1, atol=1e-6)
    notes = [f"note {k} {'and more ' * (k % 11)}" for k in range(300)]
    table = people(300, note=notes, size=[float("inf"), *range(299)])
    with pytest.raises(InputError, match=r"table: feature 'note' has 300 .*; feature 'size' is infinite"):
        small_audit(tmp_path, X=table, estimator=None, recipe=recipe)


@pytest.mark.usefixtures("only_prepared")
def test_canaries_in_a_table_are_mislabelled_or_refused(tmp_path: Path) -> None:
    prepared: Any = small_audit(tmp_path, canaries=leakscope.Canaries(number=2))
    assert prepared.config.source.facts["canaries"] == "2 of 40 records, mislabelled"
    with pytest.raises(InputError, match="canaries: kind='out_of_distribution' changes features"):
        small_audit(tmp_path, canaries=leakscope.Canaries("out_of_distribution", number=2))


def test_a_fitted_pipeline_is_queried_with_the_table(tmp_path: Path) -> None:
    table, is_member = people(), np.arange(N) % 2 == 0
    members = table.filter(pl.Series(is_member))
    fitted = leakscope.FittedEstimator(pipeline().fit(members, members["outcome"]))
    records = leakscope.read_table(table, "outcome", "person")
    target = leakscope.GivenTarget(records, fitted, is_member, leakscope.EstimatorRecipe(pipeline()))
    verdict = leakscope.audit(target, out=tmp_path, models=4, device="cpu")
    logits = fitted.fitted.predict_log_proba(table)
    own = logits[np.arange(N), (table["outcome"] == "yes").cast(pl.Int64).to_numpy()]
    np.testing.assert_allclose(Bank.open(tmp_path).signals().arrays["loss"][0, 0], -own, rtol=1e-4)
    assert verdict.results.config.source.facts["columns"].startswith("2 features: age number, 8 missing")


@pytest.mark.slow
def test_a_csv_with_missing_values_goes_to_an_estimator_and_its_columns_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short_trials(monkeypatch)
    people(row=np.arange(N)).write_csv(tmp_path / "people.csv")
    (tmp_path / "people.toml").write_text(
        '[data]\nfile = "people.csv"\nlabel = "outcome"\nid = "person"\nstandardise = true\n'
        '[population]\nmodels = 4\n[model]\nestimator = "sklearn.tree:DecisionTreeClassifier"\n'
    )
    audited = run_command("audit", tmp_path / "people.toml", "--out", tmp_path / "run")
    planned = run_command("plan", tmp_path / "people.toml")
    for done in (audited, planned):
        first, second = done.out.splitlines()[:2]
        assert first == (
            "3 features: age number, mean and a column for missing ones, 8 missing; town text, 2 values, "
            "one-hot; row number"
        )
        assert second.startswith("Check: 'row' counts the rows; as a feature")
    assert run_command("audit", tmp_path / "people.toml", "--out", tmp_path / "quiet", "--quiet").out == ""


@pytest.mark.slow
def test_a_config_names_a_pipeline_that_selects_columns_of_a_csv(tmp_path: Path) -> None:
    people().write_csv(tmp_path / "people.csv")
    text = (
        '[data]\nfile = "people.csv"\nlabel = "outcome"\nid = "person"\n[population]\nmodels = 4\n[model]\n'
        'estimator = "tests.audits.test_tables:pipeline"\n'
    )
    (tmp_path / "people.toml").write_text(text)
    done = run_command("audit", tmp_path / "people.toml", "--out", tmp_path / "run")
    assert done.out.startswith("2 features: age number, 8 missing; town text, 2 values\n"), done.err
    assert (tmp_path / "run" / "report.html").exists()
    bare = text.replace("tests.audits.test_tables:pipeline", "sklearn.tree:DecisionTreeClassifier")
    (tmp_path / "people.toml").write_text(bare)
    refused = run_command("audit", tmp_path / "people.toml", "--out", tmp_path / "bare")
    assert refused.exit_code == 2 and "standardise = true in the [data]" in refused.err


class Counted:
    """Counts how often it is pickled."""

    times = 0

    def __reduce__(self) -> tuple[Any, ...]:
        Counted.times += 1
        return str, ("counted",)


@pytest.mark.slow
def test_processes_share_one_pickle_of_the_table_and_train_the_same_models() -> None:
    x = np.array([[age, Counted()] for age in np.random.default_rng(0).normal(size=N)], dtype=object)
    records = leakscope.read_table(x, people()["outcome"])
    recipe = leakscope.EstimatorRecipe(make_pipeline(make_column_transformer(("passthrough", [0])), TREE))
    request = TrainingRequest(records, make_design("balanced", 4, N, 0), recipe, 0, device="cpu")
    with ProcessPool(request, ["cpu", "cpu"], 1, None) as pool:
        for model in range(2):
            pool.submit(Unit(0, (model,)))
        ended = []
        while len(ended) < 2:
            ended += pool.completed(60)
    assert Counted.times == N
    alone = Worker(request, "cpu").train(np.arange(2)).signals
    for outcome in ended:
        (model,) = outcome.unit.models
        assert outcome.trained is not None
        for name, values in outcome.trained.signals.items():
            np.testing.assert_array_equal(values[0], alone[name][model])


def test_a_table_that_cannot_be_sent_is_refused_with_a_remedy() -> None:
    x = np.array([[age, threading.Lock()] for age in range(N)], dtype=object)
    records = leakscope.read_table(x, people()["outcome"])
    design, recipe = make_design("balanced", 4, N, 0), leakscope.EstimatorRecipe(TREE)
    request = TrainingRequest(records, design, recipe, 0, device="cpu")
    with pytest.raises(InputError, match=r"table cannot be sent to other processes .*pickle.*processes=1"):
        ProcessPool(request, ["cpu"], 1, None)
