import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import leakscope
from leakscope.design import make_design
from leakscope.errors import InputError, TrainingError
from leakscope.randomness import Purpose, seed_integer
from leakscope.recipe import EstimatorRecipe
from leakscope.signals.probabilities import log_probabilities
from leakscope.train.black_box import fit_block
from leakscope.types import Design

from .problems import EVERY_SIGNAL, class_records, image_records, real_records

# Some BLAS builds read past short float32 rows and raise a floating-point flag for what they then discard.
pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in matmul:RuntimeWarning")

FOREST = RandomForestClassifier(n_estimators=5, max_depth=3, random_state=0)


def answers_of(records, design, estimator, models=None, seed=3, kept=EVERY_SIGNAL, processes=1, **more):
    models = np.arange(design.n_models) if models is None else np.asarray(models)
    return fit_block(records, design, EstimatorRecipe(estimator, processes), models, seed, kept, **more)


def test_classifiers_answer_with_their_log_probabilities():
    records = class_records()
    design = make_design("balanced", 4, len(records), seed=0)
    found = answers_of(records, design, LogisticRegression())
    assert found.trainer == "estimators"
    assert found.diverged_at.tolist() == [0, 0, 0, 0]
    for m in range(4):
        members = design.members(m)
        fitted = LogisticRegression().fit(records.features[members], records.labels[members])
        log_p = fitted.predict_log_proba(records.features)
        np.testing.assert_allclose(found.signals["logits"][m, 0], log_p, rtol=1e-4, atol=1e-5)
        own = log_p[np.arange(len(records)), records.labels]
        np.testing.assert_allclose(found.signals["loss"][m, 0], -own, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(
            found.signals["correct"][m, 0], fitted.predict(records.features) == records.labels
        )


def test_a_forest_is_seeded_for_each_model_whatever_its_own_random_state():
    records = class_records()
    design = Design(np.ones((2, 40), dtype=bool))
    found = answers_of(records, design, FOREST).signals["logits"]
    own = RandomForestClassifier(
        n_estimators=5, max_depth=3, random_state=seed_integer(3, 1, Purpose.ESTIMATOR, bits=31)
    ).fit(records.features, records.labels)
    wanted = log_probabilities(own.predict_proba(records.features))
    np.testing.assert_allclose(found[1, 0], wanted, rtol=1e-5)
    assert (found[0] != found[1]).any(), "the same members, yet another forest"
    other = answers_of(records, design, RandomForestClassifier(n_estimators=5, max_depth=3)).signals["logits"]
    np.testing.assert_array_equal(found, other)
    assert (answers_of(records, design, FOREST, seed=4).signals["logits"] != found).any()


def test_a_step_s_random_state_is_set_too():
    records, design = class_records(), Design(np.ones((2, 40), dtype=bool))
    found = answers_of(records, design, make_pipeline(StandardScaler(), FOREST)).signals["logits"]
    assert (found[0] != found[1]).any()


def test_models_do_not_depend_on_those_fitted_with_them():
    records = class_records()
    design = make_design("balanced", 4, len(records), seed=0)
    parts = []
    three = answers_of(records, design, FOREST, models=[3, 0, 2], progress=parts.append)
    everybody = answers_of(records, design, FOREST)
    assert sum(parts) == 3
    for name in EVERY_SIGNAL:
        np.testing.assert_array_equal(three.signals[name], everybody.signals[name][[3, 0, 2]])


def test_certainty_is_floored_so_that_every_signal_is_finite():
    records = class_records()
    grown = RandomForestClassifier(n_estimators=3, bootstrap=False)
    found = answers_of(records, Design(np.ones((2, 40), dtype=bool)), grown).signals
    assert found["logits"].min() == pytest.approx(
        np.log(0.01 / 2)
    )  # the largest floor, over two other classes
    assert all(np.isfinite(found[name]).all() for name in EVERY_SIGNAL)


def test_a_class_that_a_model_never_saw_gets_the_floor():
    records = class_records()
    in_mask = np.stack([records.labels != 1, np.arange(40) < 20])
    found = answers_of(records, Design(in_mask), LogisticRegression()).signals
    floor = found["logits"][0, 0, :, 1]
    assert len(np.unique(floor)) == 1
    assert np.log(1e-6 / 2) - 1e-5 <= floor[0] < found["logits"][0, 0][:, [0, 2]].min()
    assert not found["correct"][0, 0, records.labels == 1].any()
    without = LogisticRegression().fit(records.features[in_mask[0]], records.labels[in_mask[0]])
    log_p = without.predict_log_proba(records.features)
    np.testing.assert_allclose(found["logits"][0, 0][:, [0, 2]], log_p, rtol=1e-4, atol=1e-5)


def test_without_probabilities_the_prediction_counts_as_certain():
    records = class_records()
    design = make_design("balanced", 2, len(records), seed=0)
    found = answers_of(records, design, RidgeClassifier()).signals
    members = design.members(0)
    predicted = (
        RidgeClassifier().fit(records.features[members], records.labels[members]).predict(records.features)
    )
    np.testing.assert_array_equal(found["logits"][0, 0].argmax(axis=1), predicted)
    assert set(np.unique(found["logits"]).round(4)) == {0.0, np.log(0.01 / 2).astype("f4").round(4)}


def test_images_are_flattened():
    records = image_records()
    design = make_design("balanced", 2, len(records), seed=0)
    assert answers_of(records, design, FOREST).signals["logits"].shape == (2, 1, 24, 3)


@pytest.mark.parametrize("estimator", [Ridge(), RandomForestRegressor(n_estimators=3, max_depth=2)])
def test_regressors_answer_with_residuals_in_spreads_of_the_labels(estimator):
    records = real_records()
    design = make_design("bernoulli", 3, len(records), seed=0)
    found = answers_of(records, design, estimator, kept=("scaled_residual", "loss")).signals
    if isinstance(estimator, Ridge):
        for m in range(3):
            members = design.members(m)
            fitted = Ridge().fit(records.features[members], records.labels[members])
            squared = (fitted.predict(records.features) - records.labels) ** 2
            np.testing.assert_allclose(found["loss"][m, 0], squared, rtol=1e-3, atol=1e-5)
    low, high = np.quantile(records.labels, (0.25, 0.75))
    wanted = np.arcsinh(np.sqrt(found["loss"]) / (3 * (high - low) / 1.349))
    np.testing.assert_allclose(np.abs(found["scaled_residual"]), wanted, rtol=1e-4, atol=1e-5)
    assert (found["scaled_residual"] < 0).any() and (found["scaled_residual"] > 0).any()


def test_a_regressor_that_fits_its_members_exactly_has_finite_answers():
    records = real_records(6)
    found = answers_of(
        records,
        Design(np.arange(6) < np.array([[3], [2]])),
        KNeighborsRegressor(1),
        kept=("scaled_residual",),
    )
    assert np.isfinite(found.signals["scaled_residual"]).all()
    assert found.diverged_at.tolist() == [0, 0]


def test_models_with_their_own_columns_are_asked_about_those():
    records = class_records()
    columns = np.stack([np.arange(5, 25), np.arange(39, 19, -1)])
    in_mask = np.arange(20) % 2 == np.array([[0], [1]])
    found = answers_of(records, Design(in_mask, columns), LogisticRegression(), models=[1, 0]).signals
    for at, m in enumerate((1, 0)):
        members = columns[m, in_mask[m]]
        fitted = LogisticRegression().fit(records.features[members], records.labels[members])
        asked = columns[m]
        log_p = fitted.predict_log_proba(records.features[asked])
        np.testing.assert_allclose(found["logits"][at, 0], log_p, rtol=1e-4, atol=1e-5)
        own = log_p[np.arange(20), records.labels[asked]]
        np.testing.assert_allclose(found["loss"][at, 0], -own, rtol=1e-4, atol=1e-5)


class Unlicensed(LogisticRegression):
    def fit(self, features, labels):
        raise OSError("no licence")


class Blank(LogisticRegression):
    def predict_proba(self, features):
        return np.full((len(features), len(self.classes_)), np.nan)


def test_a_failure_that_may_pass_is_told_from_one_that_lasts(tmp_path):
    records = class_records()
    with pytest.raises(TrainingError, match="no licence") as passing:
        answers_of(records, Design(np.ones((1, 40), dtype=bool)), Unlicensed())
    assert passing.value.exit_code == 3
    with pytest.raises(TrainingError, match="every Blank predicted NaN or infinity; scale the") as lasting:
        leakscope.audit(records, EstimatorRecipe(Blank(), processes=1), tmp_path, models=2)
    assert lasting.value.exit_code == 2


@pytest.mark.parametrize("processes", [1, 2])
def test_a_fit_that_fails_names_the_model(processes):
    records = class_records()
    in_mask = np.stack([np.ones(40, dtype=bool), records.labels == 2])
    with pytest.raises(TrainingError, match=r"model 1: LogisticRegression failed to fit: .*class"):
        answers_of(records, Design(in_mask), LogisticRegression(), processes=processes)


@pytest.mark.parametrize(
    ("estimator", "records", "problem"),
    [
        (Ridge(), class_records(), "estimator=Ridge: .* are class indices; give a classifier"),
        (DummyClassifier(), real_records(), "estimator=DummyClassifier: .* real numbers; give a regressor"),
    ],
)
def test_an_estimator_for_the_other_task_is_refused(estimator, records, problem):
    with pytest.raises(InputError, match=problem):
        answers_of(records, make_design("balanced", 2, 40, seed=0), estimator)


def test_the_given_estimator_is_left_as_it_was():
    records, estimator = class_records(), RandomForestClassifier(n_estimators=2, random_state=5)
    answers_of(records, make_design("balanced", 2, 40, seed=0), estimator)
    assert estimator.random_state == 5
    assert not hasattr(estimator, "classes_")


def test_a_model_with_undefined_answers_is_lost():
    class Broken(Ridge):
        def predict(self, x):
            return np.full(len(x), np.nan) if self.n_trained == 3 else super().predict(x)

        def fit(self, x, y):
            self.n_trained = len(x)
            return super().fit(x, y)

    records = real_records(8)
    design = Design(np.arange(8) < np.array([[4], [3]]))
    found = answers_of(records, design, Broken(), kept=("loss",))
    assert found.diverged_at.tolist() == [0, 1]


def test_records_are_not_changed():
    records = class_records()
    before = records.features.copy()
    answers_of(records, make_design("balanced", 2, 40, seed=0), LogisticRegression())
    np.testing.assert_array_equal(records.features, before)


def test_a_frozen_part_keeps_its_seed_and_what_it_learned():
    frozen = pytest.importorskip("sklearn.frozen", reason="this scikit-learn freezes no estimators")
    records = class_records()
    design = make_design("balanced", 2, len(records), seed=0)
    x, y = records.features, records.labels
    forest = RandomForestClassifier(3, max_depth=2, random_state=7).fit(x, y)
    found = answers_of(records, design, frozen.FrozenEstimator(forest)).signals["logits"]
    wanted = log_probabilities(forest.predict_proba(x))
    np.testing.assert_allclose(found[:, 0], [wanted, wanted], rtol=1e-5)
    chosen = SelectFromModel(frozen.FrozenEstimator(forest), prefit=True)
    answers_of(records, design, make_pipeline(chosen, LogisticRegression()))
    assert forest.random_state == 7


class Unseedable(LogisticRegression):
    def set_params(self, **params):
        raise ValueError("ask the maker")


def test_an_estimator_that_cannot_be_seeded_is_refused_before_training(tmp_path):
    refused = r"estimator=Unseedable: random_state cannot be set \(ask the maker\)"
    with pytest.raises(InputError, match=refused):
        leakscope.audit(class_records(), EstimatorRecipe(Unseedable()), tmp_path / "run", models=4)
    assert not (tmp_path / "run" / "identity.json").exists()
