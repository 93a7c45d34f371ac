"""The results of the ensemble study: those of the attack, and the truth about the private records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leakscope.single_model.results import AttackFindings, AucFigure, Figures, ScoreSpread, TprFigure
from leakscope.stats.estimate import Estimate
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
        scores: how its scores of the private records are spread.
    """

    validation: PublishedRates
    leaderboard: PublishedRates
    scores: ScoreSpread


@dataclass(frozen=True)
class CalibrationRates:
    """The random forest's true positive rate within one false positive rate, by calibration.

    The scores are those of the private records as they are calibrated; ties are not broken.

    Attributes:
        isotonic: with isotonic calibration, as published.
        sigmoid: with sigmoid calibration.
        difference: isotonic minus sigmoid; the interval resamples records (percentile bootstrap).
    """

    isotonic: TprFigure
    sigmoid: TprFigure
    difference: Estimate


@dataclass(frozen=True)
class EnsembleResults(AttackFindings):
    """The results of `leakscope study ensemble`.

    Attributes:
        config: what was run.
        target: accuracy of the target.
        private_truth: attacker -> figures of its scores for the private records.
        features: feature -> AUC of this feature alone on all records, in the direction that the publication
            states; `global_lira` is fitted on the public records.
        feature_correlation: median absolute rank correlation between two of the ten features, on all records;
            None where all are constant.
        calibrations: isotonic beside sigmoid calibration, one entry per false positive rate; empty where the
            forest did not attack.
        published: attacker -> figures of the publication.
    """

    config: EnsembleConfig
    target: TargetAccuracy
    private_truth: Mapping[str, Figures]
    features: Mapping[str, AucFigure]
    feature_correlation: float | None
    calibrations: tuple[CalibrationRates, ...]
    published: Mapping[str, PublishedFigures]


PUBLISHED: Mapping[str, PublishedFigures] = {
    "forest": PublishedFigures(
        PublishedRates(0.6715, 0.1454),
        PublishedRates(0.6343, 0.0917),
        ScoreSpread(0.0073, 0.6209, 0.4450, 0.1227),
    ),
    "lightgbm": PublishedFigures(
        PublishedRates(0.6660, 0.1639),
        PublishedRates(0.6222, 0.0890),
        ScoreSpread(0.0007, 0.8410, 0.3095, 0.1406),
    ),
    "mlp": PublishedFigures(
        PublishedRates(0.6591, 0.1514),
        PublishedRates(0.6549, 0.1450),
        ScoreSpread(0.0000, 0.9997, 0.5090, 0.1849),
    ),
}
