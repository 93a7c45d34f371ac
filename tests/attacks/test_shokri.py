import numpy as np
import pytest
from scipy.special import softmax as scipy_softmax
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from leakscope.attacks.shokri import Shokri, fit_membership, softmax
from leakscope.errors import InputError
from leakscope.testing import planted_bank


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


def precise_regression():
    return LogisticRegression(tol=1e-10, max_iter=1000)


def shallow_tree():
    return DecisionTreeClassifier(max_depth=3, random_state=0)


@pytest.mark.parametrize("classifier", [precise_regression, shallow_tree])
def test_scores_are_those_of_a_fit_by_hand(classifier):
    signals, design = planted_bank(gap=2.0, n_models=4, n_records=60)
    scores = Shokri(f"{__name__}:{classifier.__name__}")(signals, design).values
    for target in range(4):
        np.testing.assert_allclose(scores[target], by_hand(signals, design, target, classifier()), rtol=1e-6)


def plain_regression():
    return LogisticRegression(max_iter=1000)


def test_logistic_regression_is_the_default():
    signals, design = planted_bank(gap=2.0, n_models=3, n_records=40)
    expected = Shokri(f"{__name__}:plain_regression")(signals, design).values
    np.testing.assert_array_equal(Shokri()(signals, design).values, expected)


def test_a_class_of_scikit_learn_is_a_classifier_too():
    scores = Shokri("sklearn.tree:DecisionTreeClassifier")(*planted_bank(gap=2.0, n_models=3, n_records=40))
    assert set(np.unique(scores.values)) <= {0.0, 1.0}


@pytest.mark.parametrize("classifier", ["sklearn.tree:NoSuchTree", "sklearn.preprocessing:StandardScaler"])
def test_what_is_no_classifier_is_refused(classifier):
    with pytest.raises(InputError, match=f"attack='shokri': classifier='{classifier}'"):
        Shokri(classifier)(*planted_bank(gap=2.0, n_models=3, n_records=40))


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
