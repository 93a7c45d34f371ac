import numpy as np
import pytest
from scipy.special import softmax as scipy_softmax
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from leakscope.attacks.shokri import Shokri, fit_membership, softmax

from .banks import made_up_bank


def by_hand(signals, design, target, classifier):
    """Rows of every shadow one after the other, then the target's."""
    logits = signals.arrays["logits"][:, -1].astype(np.float64)
    rows, is_member = [], []
    for shadow in range(design.n_models):
        if shadow == target:
            continue
        for i in range(design.n_records):
            rows.append(np.exp(logits[shadow, i]) / np.exp(logits[shadow, i]).sum())
            is_member.append(design.in_mask[shadow, i])
    classifier.fit(rows, is_member)
    asked = np.exp(logits[target]) / np.exp(logits[target]).sum(axis=1, keepdims=True)
    return classifier.predict_proba(asked)[:, list(classifier.classes_).index(True)]


@pytest.mark.parametrize(
    "classifier",
    [LogisticRegression(tol=1e-10, max_iter=1000), DecisionTreeClassifier(max_depth=3, random_state=0)],
)
def test_scores_are_those_of_a_fit_by_hand(classifier):
    signals, design = made_up_bank(gap=2.0, n_models=4, n_records=60)
    found = Shokri(classifier)(signals, design).values
    for target in range(4):
        np.testing.assert_allclose(found[target], by_hand(signals, design, target, classifier), rtol=1e-6)


def test_logistic_regression_is_the_default():
    signals, design = made_up_bank(gap=2.0, n_models=3, n_records=40)
    wanted = Shokri(LogisticRegression(max_iter=1000))(signals, design).values
    np.testing.assert_array_equal(Shokri()(signals, design).values, wanted)


def test_the_given_classifier_is_not_fitted_itself():
    classifier = LogisticRegression()
    Shokri(classifier)(*made_up_bank(gap=2.0, n_models=3, n_records=40))
    assert not hasattr(classifier, "coef_")


def test_fit_membership_pools_shadows_and_records():
    probability = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.8, 0.2], [0.1, 0.9]]])
    in_mask = np.array([[True, False], [True, False]])
    fitted = fit_membership(LogisticRegression(), probability, in_mask)
    assert fitted.predict([[0.85, 0.15], [0.15, 0.85]]).tolist() == [True, False]


def test_softmax_is_exact_at_any_magnitude():
    z = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    np.testing.assert_allclose(softmax(z), scipy_softmax(z.astype(np.float64), axis=-1), rtol=1e-12)
    np.testing.assert_allclose(softmax(np.array([1e4, -1e4, 1e4])), [0.5, 0, 0.5])
    assert softmax(z).dtype == np.float64
