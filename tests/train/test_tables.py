"""Estimators get the user's table as it is, from libraries as they are."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest
import scipy.sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

from leakscope.data.files import read_table
from leakscope.design import make_design
from leakscope.engine.request import TrainingRequest, check_request
from leakscope.errors import InputError, TrainingError
from leakscope.recipe import EstimatorRecipe, FunctionRecipe, Recipe
from leakscope.signals.output_filter import OutputFilter
from leakscope.train.black_box import fit_block
from leakscope.types import Design, Records

N = 40
Y = np.where(np.arange(N) % 3 == 0, "yes", "no")


class Spy(ClassifierMixin, BaseEstimator):
    """Remembers what it is given, and answers with the share of each class; may spoil what it is given."""

    given: ClassVar[list[Any]] = []

    def __init__(self, spoils: bool = False) -> None:
        self.spoils = spoils

    def fit(self, X: Any, y: Any) -> Spy:
        Spy.given.append(X.copy() if hasattr(X, "copy") else X.clone())
        self.classes_, counts = np.unique(y, return_counts=True)
        self.share_ = counts / counts.sum()
        self._spoil(X)
        return self

    def predict_proba(self, X: Any) -> Any:
        Spy.given.append(X.copy() if hasattr(X, "copy") else X.clone())
        self._spoil(X)
        return np.tile(self.share_, (X.shape[0], 1))

    def _spoil(self, X: Any) -> None:
        if self.spoils:
            X["age"] = 0.0
            X.loc[:, "word"] = "spoiled"


@pytest.fixture(autouse=True)
def _forget() -> None:
    Spy.given.clear()


def pandas_table(**columns: Any) -> Any:
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    rng = np.random.default_rng(0)
    age = rng.integers(18, 90, N).astype(np.float64)
    age[::7] = np.nan
    city = pd.Categorical(rng.choice(["Rome", "Oslo", "Paris"], N))
    words = pd.array(rng.choice(["a", "b"], N), dtype="string")
    return pd.DataFrame({"age": age, "city": city, "word": words, **columns}, index=rng.permutation(N) + 5)


def signals_of(records: Records, estimator: Any, models: int = 2, seed: int = 3) -> dict[str, Any]:
    design = make_design("balanced", models, len(records), seed=0)
    recipe = EstimatorRecipe(estimator)
    return fit_block(records, design, recipe, np.arange(models), seed, ("logits", "loss")).signals


def encoder(**options: Any) -> Any:
    return make_column_transformer((OneHotEncoder(**options), ["city"]), (SimpleImputer(), ["age"]))


def test_pandas_arrives_with_its_columns_and_types() -> None:
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    table = pandas_table()
    table["when"] = pd.date_range("2024-01-01", periods=N, tz="UTC")
    table["maybe"] = pd.array([True, None] * (N // 2), dtype="boolean")
    table["count"] = pd.array([1, None] * (N // 2), dtype="Int64")
    signals_of(read_table(table, Y), Spy())
    members = make_design("balanced", 2, N, seed=0).members(0)
    wanted = table.iloc[members].reset_index(drop=True)
    pd.testing.assert_frame_equal(Spy.given[0], wanted)
    pd.testing.assert_frame_equal(Spy.given[1], table.reset_index(drop=True))


@pytest.mark.parametrize(
    "table",
    [
        pl.DataFrame(
            {"a": pl.Series(range(N), dtype=pl.Int8), "b": pl.Series(["x", None] * 20, dtype=pl.Categorical)}
        ),
        np.random.default_rng(0).normal(size=(N, 3)),
        np.array([["x", 1], ["y", None]] * 20, dtype=object),
        scipy.sparse.random(N, 5, 0.5, format="csr", random_state=0),
    ],
)
def test_other_tables_arrive_as_they_are(table: Any) -> None:
    signals_of(read_table(table, Y), Spy())
    members = make_design("balanced", 2, N, seed=0).members(0)
    assert type(Spy.given[0]) is type(table)
    if isinstance(table, pl.DataFrame):
        assert Spy.given[0].equals(table[members.tolist()]) and Spy.given[0].schema == table.schema
    else:
        dense = [x.toarray() if scipy.sparse.issparse(x) else x for x in (Spy.given[0], table[members])]
        assert dense[0].dtype == table.dtype
        np.testing.assert_array_equal(*dense)


def test_an_array_keeps_the_digits_that_float32_loses() -> None:
    values = 1 + np.arange(N)[:, None] * 1e-9
    signals_of(read_table(values, Y), Spy())
    assert len(np.unique(Spy.given[1])) == N > len(np.unique(values.astype(np.float32)))


def test_an_estimator_that_spoils_its_input_spoils_nothing_else() -> None:
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    table = pandas_table()
    before, records = table.copy(), read_table(table, Y)
    signals_of(records, Spy(spoils=True), models=2)
    pd.testing.assert_frame_equal(table, before)
    for given in Spy.given:
        assert given["age"].max() > 0 and "spoiled" not in set(given["word"])
    assert records.digest == read_table(before, Y).digest


def test_the_index_does_not_matter_and_the_order_of_columns_belongs_to_the_table() -> None:
    table = pandas_table()
    pipe = make_pipeline(encoder(handle_unknown="ignore"), LogisticRegression())
    first, numbered = read_table(table, Y), read_table(table.reset_index(drop=True), Y)
    assert first.digest == numbered.digest
    np.testing.assert_array_equal(signals_of(first, pipe)["logits"], signals_of(numbered, pipe)["logits"])
    turned = read_table(table[["word", "city", "age"]], Y)
    assert turned.digest != first.digest
    np.testing.assert_array_equal(signals_of(turned, pipe)["logits"], signals_of(first, pipe)["logits"])


def test_a_pipeline_gives_what_it_gives_without_leakscope() -> None:
    table = pandas_table()
    pipe = make_pipeline(encoder(handle_unknown="ignore"), LogisticRegression())
    logits = signals_of(read_table(table, Y), pipe)["logits"]
    members = make_design("balanced", 2, N, seed=0).members(1)
    wanted = pipe.fit(table.iloc[members], Y[members]).predict_log_proba(table)
    np.testing.assert_allclose(logits[1, 0], wanted, rtol=1e-4, atol=1e-5)


def test_a_category_that_a_half_lacks_is_explained() -> None:
    table = pandas_table(word=["rare", *["common"] * (N - 1)])
    encode = make_column_transformer((OneHotEncoder(), ["word"]))
    with pytest.raises(TrainingError, match=r"failed to predict: .*unknown categor.*handle_unknown='ignore'"):
        signals_of(read_table(table, Y), make_pipeline(encode, LogisticRegression()))


def test_missing_values_and_texts_that_an_estimator_refuses_are_explained() -> None:
    pandas_table()
    with pytest.raises(TrainingError, match=r"LogisticRegression failed to fit: .*contains NaN.*impute"):
        signals_of(read_table(np.where(np.eye(N) == 1, np.nan, 0), Y), LogisticRegression())
    texts = np.array([["x"], ["y"]] * 20, dtype=object)
    with pytest.raises(
        TrainingError, match=r"could not convert string to float.*encode text columns"
    ) as error:
        signals_of(read_table(texts, Y), LogisticRegression())
    assert error.value.exit_code == 2  # the columns are the same next time


def test_a_column_of_texts_is_a_table() -> None:
    texts = [f"{'good' if label == 'yes' else 'bad'} word {k}" for k, label in enumerate(Y)]
    for column in (texts, np.array(texts), pl.Series("review", texts), pandas_table(review=texts)["review"]):
        records = read_table(column, Y)
        signals = signals_of(records, make_pipeline(TfidfVectorizer(), LogisticRegression()))
        assert signals["loss"].mean() < 0.6, "log(2) is a guess"


def test_an_estimator_without_probabilities_answers_with_its_label() -> None:
    pipe = make_pipeline(encoder(handle_unknown="ignore"), RidgeClassifier())
    logits = signals_of(read_table(pandas_table(), Y), pipe)["logits"]
    assert len(np.unique(logits)) == 2


def test_a_class_that_a_half_lacks_has_the_smallest_probability() -> None:
    labels = np.array(["a", "b", "c"] * 13 + ["rare"])
    records = read_table(np.random.default_rng(0).normal(size=(N, 2)), labels)
    design = Design(np.arange(N)[None] < N - 1)
    recipe = EstimatorRecipe(DecisionTreeClassifier())
    logits = fit_block(records, design, recipe, np.arange(1), 0, ("logits",)).signals["logits"][0, 0]
    assert records.class_names == ("a", "b", "c", "rare")
    assert (logits[:, 3] == logits.min()).all() and (logits[:-1].argmax(1) == records.labels[:-1]).all()


def test_labels_of_changed_rows_measure_how_firmly_a_model_holds_on() -> None:
    records = read_table(pandas_table(), Y)
    design, names = make_design("balanced", 2, N, seed=0), ("label_robustness",)
    pipe = make_pipeline(encoder(handle_unknown="ignore"), DecisionTreeClassifier())
    shares = {}
    for name, estimator in (("tree", pipe), ("same for all", Spy())):
        recipe = EstimatorRecipe(estimator)
        shares[name] = fit_block(records, design, recipe, np.arange(2), 0, names).signals[names[0]][:, 0]
    np.testing.assert_array_equal(shares["same for all"], np.tile(Y == "no", (2, 1)))
    members = design.in_mask
    assert ((shares["tree"] >= 0) & (shares["tree"] <= 1)).all() and len(np.unique(shares["tree"])) > 5
    assert shares["tree"][members].mean() > shares["tree"][~members].mean()


def refused(records: Records, recipe: Any, message: str, **options: Any) -> None:
    design = make_design("balanced", 2, len(records), seed=0)
    with pytest.raises(InputError, match=message) as caught:
        check_request(TrainingRequest(records, design, recipe, 0, device="cpu", **options))
    assert "\n" not in str(caught.value)


class CannotBeCloned(ClassifierMixin, BaseEstimator):
    def __init__(self, depth: int = 3) -> None:
        self.depth = depth + 1


class Bare:
    def fit(self, X: Any, y: Any) -> Bare:
        return self


def test_what_cannot_be_trained_is_refused_before_anything_is_written() -> None:
    numbers = read_table(np.random.default_rng(0).normal(size=(N, 2)), Y)
    refused(
        numbers, EstimatorRecipe(CannotBeCloned()), "estimator=CannotBeCloned cannot be cloned .*__init__"
    )
    refused(numbers, EstimatorRecipe(Bare()), "estimator=Bare cannot be cloned .*get_params")
    refused(numbers, EstimatorRecipe(LinearRegression()), "labels of table are class indices; give a classif")
    tree = EstimatorRecipe(DecisionTreeClassifier())
    refused(numbers, tree, "random_values draws features", outputs=OutputFilter(random_values=True))


def test_networks_and_functions_name_every_column_they_cannot_use() -> None:
    notes = [f"words {k}" for k in range(300)]
    table = pl.DataFrame({"note": notes, "size": [1.0, float("inf")] * 150, "age": [1, None, 3] * 100})
    records = read_table(table, np.arange(300) % 2)
    for recipe in (Recipe(), FunctionRecipe(lambda *_: None)):
        refused(
            records, recipe, "table: feature 'note' has 300 different text .*; feature 'size' is infinite"
        )


def test_a_network_gets_numbers_without_gaps() -> None:
    records = read_table(pandas_table(), Y)
    assert records.feature_names[:3] == ("age", "age=missing", "city=Oslo")
    design = make_design("balanced", 2, N, seed=0)
    check_request(TrainingRequest(records, design, Recipe(epochs=1), 0, device="cpu"))
    assert np.isfinite(records.features).all()


def booster(library: str) -> Any:
    module = pytest.importorskip(library, reason=f"{library} is not installed")
    if library == "xgboost":
        return module.XGBClassifier(n_estimators=3, max_depth=2, enable_categorical=True, subsample=0.5)
    if library == "lightgbm":
        options = {"bagging_fraction": 0.5, "bagging_freq": 1, "min_child_samples": 2}
        return module.LGBMClassifier(n_estimators=3, verbose=-1, **options)
    options = {"bootstrap_type": "Bernoulli", "subsample": 0.5, "allow_writing_files": False}
    return module.CatBoostClassifier(iterations=3, cat_features=["city"], verbose=False, **options)


SLOW_TO_IMPORT = [pytest.param(name, marks=pytest.mark.slow) for name in ("lightgbm", "catboost")]


@pytest.mark.parametrize("library", ["xgboost", *SLOW_TO_IMPORT])
def test_boosters_take_missing_values_and_categories_as_they_are(library: str) -> None:
    estimator = booster(library)
    table = pandas_table().drop(columns="word")
    if library == "catboost":
        table["city"] = table["city"].astype(str)
    records = read_table(table, Y)
    signals = signals_of(records, estimator)
    assert np.isfinite(signals["loss"]).all() and signals["loss"].std() > 0
    np.testing.assert_array_equal(signals["logits"], signals_of(records, estimator)["logits"])
    everybody, recipe = Design(np.ones((2, N), dtype=bool)), EstimatorRecipe(estimator)
    logits = fit_block(records, everybody, recipe, np.arange(2), 0, ("logits",)).signals["logits"]
    assert (logits[0] != logits[1]).any(), "the same members, yet another seed"


def test_xgboost_takes_a_half_that_lacks_a_class() -> None:
    estimator = booster("xgboost")
    labels = np.array(["a", "rare"] + ["b", "c"] * 19)
    records = read_table(np.random.default_rng(0).normal(size=(N, 2)), labels)
    design = Design(np.arange(N)[None] != 1)
    logits = fit_block(records, design, EstimatorRecipe(estimator), np.arange(1), 0, ("logits",)).signals[
        "logits"
    ]
    assert (logits[0, 0, :, 3] == logits.min()).all()


def test_a_selector_of_columns_by_type() -> None:
    by_type = make_column_transformer(
        (SimpleImputer(), make_column_selector(dtype_include="number")),
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_include="category")),
    )
    signals = signals_of(read_table(pandas_table(), Y), make_pipeline(by_type, LogisticRegression()))
    assert np.isfinite(signals["loss"]).all()
