"""The results of an attack on one given model: everything results.json holds, typed.

Conventions: rates are shares from 0 to 1, and a figure that is undefined is None, with a reason beside it.
Intervals are 95% intervals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from leakscope.data.predictions import Kind
from leakscope.errors import InputError
from leakscope.stats.estimate import Estimate
from leakscope.types import Prose

READINGS = {
    "entropy": ("modified", "adjusted"),
    "gradient": ("norm", "true_logit"),
    "confidence": ("log_odds", "probability"),
}
"""Field of `Readings` -> its values."""
BEST = "best"
"""Instead of an attacker's name: fit all of them and choose by validation AUC."""


@dataclass(frozen=True)
class Readings:
    """How to read what the publication of the attack leaves open.

    Attributes:
        entropy: "modified": the modified entropy of Song and Mittal (2021); "adjusted": the entropy times the
            probability of all wrong classes.
        gradient: "norm": the norm of the loss gradient at the logits; "true_logit": the absolute derivative
            of the loss with respect to the true logit, which is one minus the true-class probability.
        confidence: whose densities the global likelihood ratio compares: "log_odds": the logit-scaled
            true-class probability; "probability": the true-class probability itself.
    """

    entropy: Literal["modified", "adjusted"] = "modified"
    gradient: Literal["norm", "true_logit"] = "norm"
    confidence: Literal["log_odds", "probability"] = "log_odds"


@dataclass(frozen=True)
class AttackSettings:
    """How the attackers are fitted and chosen.

    Attributes:
        attacker: "forest", "lightgbm" or "mlp"; "best": all three, and the one with the highest validation
            AUC is chosen.
        validation_share: share of the public records that the attackers are evaluated on, not fitted on.
        seed: of all randomness.
        entropy: "modified" or "adjusted"; see `Readings`, as for the next two.
        gradient: "norm" or "true_logit".
        confidence: "log_odds" or "probability".
    """

    attacker: str = BEST
    validation_share: float = 0.25
    seed: int = 0
    entropy: Literal["modified", "adjusted"] = "modified"
    gradient: Literal["norm", "true_logit"] = "norm"
    confidence: Literal["log_odds", "probability"] = "log_odds"

    @property
    def readings(self) -> Readings:
        """The features as these settings read them.

        Raises:
            InputError: there is no such reading.
        """
        chosen = {name: getattr(self, name) for name in READINGS}
        wrong = [
            f"{name}={value!r}: choose {' or '.join(READINGS[name])}"
            for name, value in chosen.items()
            if value not in READINGS[name]
        ]
        if wrong:
            raise InputError("; ".join(wrong))
        return Readings(**chosen)


@dataclass(frozen=True, kw_only=True)
class AttackConfig(AttackSettings):
    """The settings of an attack and the outputs it is run on.

    Attributes:
        public_sha256: of the outputs, labels, ids and membership of the public records.
        private_sha256: of the outputs, labels and ids of the private records.
    """

    public_sha256: str
    private_sha256: str


@dataclass(frozen=True)
class PublicRecords:
    """The records of known membership.

    Attributes:
        records: number of records.
        members: number of members among them.
        kind: what the model returns: logits or probabilities.
    """

    records: int
    members: int
    kind: Kind


@dataclass(frozen=True)
class PrivateRecords:
    """The records to score.

    Attributes:
        records: number of records.
    """

    records: int


@dataclass(frozen=True)
class SplitSizes:
    """How the public records are split.

    Attributes:
        training: number of records the attackers are fitted on.
        validation: number of records they are evaluated on.
    """

    training: int
    validation: int


@dataclass(frozen=True)
class AucFigure:
    """The area under the ROC curve: how often a member's score is above a non-member's, ties counting half.

    Attributes:
        value: the area.
        low: lower end of the interval.
        high: upper end of the interval.
        interval: method of the interval.
    """

    value: float
    low: float
    high: float
    interval: Prose


@dataclass(frozen=True)
class TprFigure(Estimate):
    """The true positive rate within a false positive rate.

    Attributes:
        fpr: the false positive rate allowed.
        interval: method of the interval.
        fpr_reached: false positive rate at the threshold.
        threshold: the lowest score that is called a member; None where no record is.
        reason: why the rate is undefined; empty where it is defined.
    """

    fpr: float
    interval: Prose
    fpr_reached: float | None
    threshold: float | None
    reason: Prose


@dataclass(frozen=True)
class Figures:
    """How well scores separate members from non-members.

    Attributes:
        auc: area under the ROC curve.
        tpr_at_fpr: true positive rate at a false positive rate of 5%.
        members: number of members evaluated on.
        nonmembers: number of non-members evaluated on.
    """

    auc: AucFigure
    tpr_at_fpr: TprFigure
    members: int
    nonmembers: int


@dataclass(frozen=True)
class ScoreSpread:
    """How an attacker's scores of the private records are spread.

    Attributes:
        low: lowest score.
        high: highest score.
        mean: mean score.
        sd: standard deviation of the scores.
    """

    low: float
    high: float
    mean: float
    sd: float


Setting = int | float | tuple[int, ...]


@dataclass(frozen=True)
class AttackerResults(Figures):
    """One attacker, evaluated on the validation records.

    Attributes:
        with_ties: the same figures of the calibrated scores, whose ties are not broken.
        distinct_scores: number of distinct scores.
        distinct_calibrated: number of distinct calibrated scores.
        settings: hyperparameters of the classifier.
        stopped_early: whether it reached its iteration limit before it converged.
        private: its scores of the private records.
    """

    with_ties: Figures
    distinct_scores: int
    distinct_calibrated: int
    settings: Mapping[str, Setting]
    stopped_early: bool
    private: ScoreSpread


@dataclass(frozen=True)
class AttackFindings:
    """What an attack finds, whether or not the truth about the private records is known.

    Attributes:
        public: the records of known membership.
        private: the records to score.
        split: how the public records are split.
        attackers: attacker -> its results.
        chosen: the attacker with the highest validation AUC.
        submission_sha256: attacker -> sha256 of its submission_ATTACKER.csv.
    """

    public: PublicRecords
    private: PrivateRecords
    split: SplitSizes
    attackers: Mapping[str, AttackerResults]
    chosen: str
    submission_sha256: Mapping[str, str]


@dataclass(frozen=True)
class AttackResults(AttackFindings):
    """The results of `leakscope attack`.

    Attributes:
        config: settings and inputs.
        model: what identifies the model: kind, file, sha256; empty where only its outputs were given.
    """

    config: AttackConfig
    model: Mapping[str, str]
