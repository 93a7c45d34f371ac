"""Shadow models in the manner of Shokri et al. (2017): a classifier learns what membership looks like.

Any scikit-learn classifier is trained on the outputs of models whose membership is known, then
asked about the target's outputs. Features are the class probabilities as they come, as in the
study of model size this reproduces; the label is not among them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.attacks.base import Attack
from leakscope.types import Design, Signals


def logistic_regression() -> Any:
    """The published study's attack classifier."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=1000)


@dataclass(frozen=True)
class Shokri(Attack):
    """Every model but the target is a shadow; the score is the classifier's probability of "member"."""

    classifier: Any = field(default_factory=logistic_regression)

    name = "shokri"
    needs = ("logits",)
    references = "both"
    source = "Shokri et al. 2017"

    def run(self, signals: Signals, design: Design, targets: IntArray, scores: FloatArray) -> None:
        """The classifier's probability. It learns from all shadows' answers at once, in memory."""
        probability = softmax(signals.last("logits"))
        for row, target in enumerate(targets.tolist()):
            shadows = np.delete(np.arange(design.n_models), target)
            fitted = fit_membership(self.classifier, probability[shadows], design.in_mask[shadows])
            scores[row] = fitted.predict_proba(probability[target])[:, 1]


def fit_membership(classifier: Any, probability: AnyArray, in_mask: BoolArray) -> Any:
    """A clone of `classifier` fitted on shadows; probability (shadows, columns, classes)."""
    from sklearn.base import clone

    return clone(classifier).fit(probability.reshape(-1, probability.shape[-1]), in_mask.reshape(-1))


def softmax(logits: AnyArray) -> FloatArray:
    """Class probabilities in float64; (..., classes)."""
    z = logits.astype(np.float64)
    z = np.exp(z - z.max(axis=-1, keepdims=True))
    probability: FloatArray = z / z.sum(axis=-1, keepdims=True)
    return probability
