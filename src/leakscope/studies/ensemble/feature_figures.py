"""How well each feature alone separates members from non-members, in the direction the publication states."""

from __future__ import annotations

import numpy as np

from leakscope.array_types import FloatArray
from leakscope.single_model.results import AucFigure, Readings
from leakscope.studies.ensemble.outputs import TargetOutputs

_LOWER_FOR_MEMBERS = ("loss", "entropy", "modified_entropy", "adjusted_entropy", "gradient_proxy")


def feature_figures(outputs: TargetOutputs, readings: Readings) -> dict[str, AucFigure]:
    """Feature -> AUC with its interval, on all records; an AUC below 0.5 contradicts the publication.

    The class probabilities are represented by the largest of them.
    """
    from leakscope.single_model.ensemble.features import GlobalLira, confidence, features
    from leakscope.single_model.ensemble.holdout import figures

    known, whole = outputs.public(), outputs.whole()
    assert known.is_member is not None and whole.is_member is not None
    columns = features(whole.logits, whole.labels, readings)
    probabilities = [columns.pop(f"prob_{c}") for c in range(whole.n_classes)]
    scores: dict[str, FloatArray] = {"max_prob": np.max(probabilities, axis=0)}
    scores |= {name: -column if name in _LOWER_FOR_MEMBERS else column for name, column in columns.items()}
    lira = GlobalLira.fit(confidence(known.logits, known.labels, readings), known.is_member)
    scores["global_lira"] = lira.score(confidence(whole.logits, whole.labels, readings))
    return {name: figures(score, whole.is_member).auc for name, score in scores.items()}
