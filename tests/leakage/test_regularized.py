"""Ridge regression against leakage: the coefficients are those of its weight, which leaks less."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from leakscope.defences.registry import resolve_defence
from leakscope.errors import InputError
from leakscope.leakage.gaussian import fit, symmetric_kl
from leakscope.leakage.regularized import MOST_FEATURES, LeakageRidge
from leakscope.recipe import EstimatorRecipe
from leakscope.types import Records


def people(n=60, n_features=3, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, n_features)) * np.array([1.0, 5.0, 0.2])[:n_features]
    return x, 3 + x.sum(axis=1) + rng.normal(0, 2.0, n)


def by_hand(x, y, alpha):
    """Ridge regression of standardized features, by scikit-learn."""
    return make_pipeline(StandardScaler(), Ridge(alpha)).fit(x, y).predict(x)


@pytest.mark.parametrize("strength", [0.0, 1.0])
def test_the_coefficients_are_those_of_the_chosen_weight(strength):
    x, y = people()
    model = LeakageRidge(strength=strength, random_state=0).fit(x, y)
    np.testing.assert_allclose(model.predict(x), by_hand(x, y, model.alpha_), rtol=1e-8, atol=1e-8)
    assert model.score(x, y) > 0.5


def test_units_make_no_difference():
    x, y = people()
    plain = LeakageRidge(random_state=0).fit(x, y)
    other = LeakageRidge(random_state=0).fit(1000 * x + 7, 10 * y - 3)
    np.testing.assert_allclose(other.predict(1000 * x + 7), 10 * plain.predict(x) - 3, rtol=1e-5)


def test_the_same_seed_gives_the_same_model():
    x, y = people()
    first, again = (LeakageRidge(random_state=0).fit(x, y).predict(x) for _ in range(2))
    np.testing.assert_array_equal(first, again)


def leakage(x, y, weight, n_trainings=150):
    """Mean over records of the divergence between regressions trained with and without them, in nats."""
    rng, divergences = np.random.default_rng(5), []
    z = np.column_stack([np.ones(len(y)), x])
    penalty = len(y) // 2 * np.diag([0.0, *weight * x.std(axis=0) ** 2])
    for record in range(0, len(y), 3):
        others = np.delete(np.arange(len(y)), record)
        outside = np.array([rng.permutation(others)[: len(y) // 2] for _ in range(n_trainings)])
        inside = np.column_stack([np.full(n_trainings, record), outside[:, 1:]])
        sides = []
        for members in (inside, outside):
            rows, labels = z[members], y[members]
            gram, right = rows.transpose(0, 2, 1) @ rows + penalty, np.einsum("mrp,mr->mp", rows, labels)
            sides.append(fit(np.linalg.solve(gram, right[..., None])[..., 0]))
        divergences.append(symmetric_kl(*sides))
    return float(np.mean(divergences))


def test_a_stronger_penalty_leaks_less_by_other_trainings_than_those_it_is_chosen_on():
    x, y = (values[:75] for values in load_diabetes(return_X_y=True))
    alphas = [LeakageRidge(0.0, s, random_state=0).fit(x, y).alpha_ for s in (0.0, 0.1, 10.0)]
    assert alphas == sorted(alphas) and alphas[0] < alphas[-1]
    assert leakage(x, y, alphas[-1] / len(y)) < leakage(x, y, alphas[0] / len(y))


def test_no_weaker_penalty_is_chosen_than_the_user_has():
    x, y = people()
    assert LeakageRidge(alpha=1e5, strength=0.0, random_state=0).fit(x, y).alpha_ == pytest.approx(1e5)


def test_a_constant_feature_and_constant_labels_are_fitted():
    x, y = people()
    model = LeakageRidge(random_state=0).fit(np.column_stack([x, np.ones(len(y))]), y)
    assert np.isfinite(model.coef_).all()
    flat = LeakageRidge(random_state=0).fit(x, np.full(len(y), 2.0))
    np.testing.assert_allclose(flat.predict(x), 2.0)


@pytest.mark.parametrize(
    ("options", "shape", "message"),
    [
        ({"strength": -1.0}, (60, 3), "strength=-1.0: must be 0 or more"),
        ({"alpha": float("nan")}, (60, 3), "alpha=nan"),
        ({}, (100, MOST_FEATURES + 1), "it takes at most 30"),
        ({}, (12, 2), "it takes at least 20"),
    ],
)
def test_what_cannot_be_fitted_is_refused(options, shape, message):
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match=message):
        LeakageRidge(**options).fit(rng.normal(size=shape), rng.normal(size=shape[0]))


class TestDefence:
    def why_not(self, estimator, n_features=3):
        x, y = np.random.default_rng(0).normal(size=(60, n_features)), np.arange(60.0)
        records = Records(x.astype(np.float32), y.astype(np.float32), np.arange(60).astype(str), "numbers")
        return resolve_defence("leakage_penalty").why_not(EstimatorRecipe(estimator), records)

    def test_it_takes_the_place_of_linear_regressions_alone(self):
        from sklearn.linear_model import Lasso, LinearRegression

        assert self.why_not(LinearRegression()) is None and self.why_not(Ridge(alpha=3.0)) is None
        assert self.why_not(Lasso()) == "it acts on LinearRegression and Ridge, not on Lasso"

    def test_a_parameter_that_would_be_lost_is_named(self):
        from sklearn.linear_model import LinearRegression

        assert self.why_not(LinearRegression(positive=True)) == (
            "the regression that takes its place has no parameter positive"
        )

    def test_many_features_are_too_many(self):
        assert self.why_not(Ridge(), 31) == "it takes at most 30 features, and there are 31"
