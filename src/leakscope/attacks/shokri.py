"""Shadow models in the manner of Shokri et al. (2017): a classifier learns to recognize members' outputs.

Any scikit-learn classifier is fitted to the outputs of models whose training sets are known, then applied
to the target's outputs. Features are the class probabilities in the order of the classes; the label is not
among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.attacks.base import Attack
from leakscope.attacks.blocks import Blocks
from leakscope.code_identity.origin import origin_of
from leakscope.errors import InputError
from leakscope.types import Design, Signals
from leakscope.user_code import import_object, is_named_by_a_run


def logistic_regression() -> Any:
    """The usual attack classifier."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=1000)


def random_forest() -> Any:
    """A forest of 100 trees; leaves of at least 5 records, or its probabilities are nearly 0 and 1."""
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(100, min_samples_leaf=5, random_state=0, n_jobs=1)


def perceptron() -> Any:
    """A perceptron with one hidden layer of 64 units."""
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier((64,), early_stopping=True, random_state=0)


def classifier_from(setting: str, path: str) -> Any:
    """The classifier that the class or factory at "package.module:name" makes; `setting` is for errors."""
    classifier = maker_of_classifier(setting, path)()
    if not (hasattr(classifier, "fit") and hasattr(classifier, "predict_proba")):
        raise InputError(f"{setting}={path!r} has no fit and predict_proba; name a classifier")
    return classifier


def maker_of_classifier(setting: str, path: str) -> Any:
    """What is called for a classifier. Where a run names it, it is no function of an installed package.

    Calling such a function may do anything: `pytest:main` runs the tests in the current folder.
    """
    make = import_object(setting, path, "sklearn.tree:DecisionTreeClassifier")
    if is_named_by_a_run() and make not in (logistic_regression, random_forest, perceptron):
        origin = origin_of(path.partition(":")[0])
        is_classifier = isinstance(make, type) and hasattr(make, "fit") and hasattr(make, "predict_proba")
        if not is_classifier and (origin is None or origin.package is not None):
            raise InputError(f"{setting}={path!r} is no class of a classifier; it was not called")
    return make


@dataclass(frozen=True)
class Shokri(Attack):
    """Every model but the target is a shadow model; the score is the classifier's probability of "member".

    Attributes:
        classifier: "package.module:name" of a scikit-learn classifier's class, or of a function that returns
            a classifier with options of your choice.
    """

    classifier: str = "leakscope.attacks.shokri:logistic_regression"

    name = "shokri"
    needs = ("logits",)
    references = "both"
    in_memory = True
    source = "Shokri et al. 2017"

    def run(self, signals: Signals, design: Design, targets: IntArray, scores: FloatArray) -> None:
        """The classifier's probability."""
        probability = softmax(signals.last("logits"))
        block = Blocks(signals, design, targets, self.needs).whole()
        setting = f"attack={self.name!r}: classifier"
        for row, target in enumerate(targets.tolist()):
            is_shadow = block.is_reference(row)
            fitted = classifier_from(setting, self.classifier).fit(
                probability[is_shadow], design.in_mask[is_shadow]
            )
            scores[row] = fitted.predict_proba(probability[target])[:, 1]


def fit_membership(classifier: Any, probability: AnyArray, in_mask: BoolArray) -> Any:
    """`classifier`, fitted to the shadow models' outputs; probability (shadows, records, classes)."""
    return classifier.fit(probability.reshape(-1, probability.shape[-1]), in_mask.reshape(-1))


def softmax(logits: AnyArray) -> FloatArray:
    """Class probabilities in float64; (..., classes)."""
    z = logits.astype(np.float64)
    z = np.exp(z - z.max(axis=-1, keepdims=True))
    probability: FloatArray = z / z.sum(axis=-1, keepdims=True)
    return probability
