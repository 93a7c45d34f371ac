"""The results of the ensemble study: those of the attack, and the truth about the private records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leakscope.single_model.results import AttackFindings, Figures
from leakscope.studies.ensemble.config import EnsembleConfig


@dataclass(frozen=True)
class TargetAccuracy:
    """How often the target predicts the right class.

    Attributes:
        members: accuracy on the records it was trained on.
        nonmembers: accuracy on the other records.
        gap: the difference.
    """

    members: float
    nonmembers: float
    gap: float


@dataclass(frozen=True)
class PublishedRates:
    """Figures of the publication on one set of records.

    Attributes:
        auc: area under the ROC curve.
        tpr_at_fpr: true positive rate at a false positive rate of 5%.
    """

    auc: float
    tpr_at_fpr: float


@dataclass(frozen=True)
class PublishedFigures:
    """What the publication reports of one attacker, on its own, undisclosed data.

    Attributes:
        validation: on its validation records.
        leaderboard: on its private records, as the leaderboard scored them.
    """

    validation: PublishedRates
    leaderboard: PublishedRates


@dataclass(frozen=True)
class EnsembleResults(AttackFindings):
    """The results of `leakscope study ensemble`.

    Attributes:
        config: what was run.
        target: accuracy of the target.
        private_truth: attacker -> figures of its scores for the private records.
        published: attacker -> figures of the publication.
    """

    config: EnsembleConfig
    target: TargetAccuracy
    private_truth: Mapping[str, Figures]
    published: Mapping[str, PublishedFigures]


PUBLISHED: Mapping[str, PublishedFigures] = {
    "forest": PublishedFigures(PublishedRates(0.6715, 0.1454), PublishedRates(0.6343, 0.0917)),
    "lightgbm": PublishedFigures(PublishedRates(0.6660, 0.1639), PublishedRates(0.6222, 0.0890)),
    "mlp": PublishedFigures(PublishedRates(0.6591, 0.1514), PublishedRates(0.6549, 0.1450)),
}
