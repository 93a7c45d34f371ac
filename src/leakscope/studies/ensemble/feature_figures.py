"""How well each feature alone separates members from non-members, and how alike the features are."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np

from leakscope.array_types import BoolArray, FloatArray
from leakscope.single_model.results import AucFigure, Readings
from leakscope.stats.correlation import spearman
from leakscope.studies.ensemble.outputs import TargetOutputs

_LOWER_FOR_MEMBERS = ("loss", "entropy", "modified_entropy", "adjusted_entropy", "gradient_proxy")


LIKELIHOOD_RATIO = "global_lira"
"""The eleventh predictor, which the publication counts apart from its ten features."""


def feature_scores(outputs: TargetOutputs, readings: Readings) -> dict[str, FloatArray]:
    """Feature -> its value for every record; members are higher, if the publication is right.

    The class probabilities are represented by the largest of them.
    """
    from leakscope.single_model.ensemble.features import GlobalLira, confidence, features

    known, whole = outputs.public(), outputs.whole()
    assert known.is_member is not None
    columns = features(whole.logits, whole.labels, readings)
    probabilities = [columns.pop(f"prob_{c}") for c in range(whole.n_classes)]
    scores: dict[str, FloatArray] = {"max_prob": np.max(probabilities, axis=0)}
    scores |= {name: -column if name in _LOWER_FOR_MEMBERS else column for name, column in columns.items()}
    lira = GlobalLira.fit(confidence(known.logits, known.labels, readings), known.is_member)
    scores[LIKELIHOOD_RATIO] = lira.score(confidence(whole.logits, whole.labels, readings))
    return scores


def feature_figures(scores: Mapping[str, FloatArray], is_member: BoolArray) -> dict[str, AucFigure]:
    """Feature -> AUC with its interval, on all records; an AUC below 0.5 contradicts the publication."""
    from leakscope.single_model.ensemble.holdout import figures

    return {name: figures(score, is_member).auc for name, score in scores.items()}


def feature_correlation(scores: Mapping[str, FloatArray]) -> float | None:
    """Median absolute rank correlation between two of the ten features; None if all of them are constant."""
    ten = [score for name, score in scores.items() if name != LIKELIHOOD_RATIO]
    found = [spearman(first, second) for first, second in combinations(ten, 2)]
    defined = [abs(one.r) for one in found if not one.reason]  # undefined where one of the two is constant
    return float(np.median(defined)) if defined else None
