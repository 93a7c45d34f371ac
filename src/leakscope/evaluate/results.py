"""The results of an audit: everything results.json holds, typed.

Conventions: rates are shares from 0 to 1. A figure that is undefined is None, and a reason is stored beside
it. Intervals are 95% intervals unless a field says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from leakscope.dp.verdict import ClaimFigures
from leakscope.evaluate.config import EvaluationConfig
from leakscope.evaluate.gate import GateResult
from leakscope.evaluate.hygiene.outcome import Outcome
from leakscope.evaluate.rating_results import Rating
from leakscope.evaluate.text_results import TextFigures
from leakscope.leakage.checkpoints import LeakageFigures
from leakscope.privacy.settings import PrivacySpent
from leakscope.stats.estimate import Estimate
from leakscope.types import Prose


@dataclass(frozen=True)
class Figure(Estimate):
    """A figure of the targets: the mean over them, or the value of the only one.

    `low` and `high` are for *records like these*: another sample of records, and models trained on it. For
    one given model they are for other records queried on the same model.

    Attributes:
        sd: standard deviation over targets; None for one target.
        these_low: lower end for *these records*: other models trained on random halves of the same records;
            None for one target.
        these_high: upper end for these records; None for one target.
        high_99: for gates, upper end of the 99% interval for records like these; the higher one of both
            directions of the scores where neither is certain; None: there is no interval.
        these_high_99: the same for these records; None for one target.
    """

    sd: float | None
    these_low: float | None = None
    these_high: float | None = None
    high_99: float | None = None
    these_high_99: float | None = None


@dataclass(frozen=True)
class Precision(Estimate):
    """Precision of "member" at one share of members; the ends belong to the ends of the TPR's interval.

    Attributes:
        prior: share of members among the records an attacker considers.
    """

    prior: float


@dataclass(frozen=True)
class TprFigure(Figure):
    """True positive rate at a false positive rate; the threshold is chosen on the target itself.

    Attributes:
        fpr: the expected false positive rate.
    """

    fpr: float = field(kw_only=True)


@dataclass(frozen=True)
class TprAtFpr(TprFigure):
    """True positive rate within a false positive rate, and what it means where members are few.

    Attributes:
        reason: why the rate cannot be measured; None where it can.
        precision: one entry per prior.
    """

    reason: Prose | None = field(kw_only=True)
    precision: tuple[Precision, ...] = field(kw_only=True)


@dataclass(frozen=True)
class CalibratedRate:
    """Rates at a threshold that comes from the other models, as an attacker's must.

    Attributes:
        fpr_budget: share of the other models' non-members that may reach the threshold.
        tpr: true positive rate reached.
        fpr: false positive rate reached.
        reason: why the rates cannot be measured; None where they can.
    """

    fpr_budget: float
    tpr: Figure
    fpr: Figure
    reason: Prose | None


@dataclass(frozen=True)
class EpsilonFigure:
    """A lower bound on epsilon.

    Attributes:
        value: the bound; None: undefined.
        reason: why it is undefined; None where it is not.
        delta: delta of (epsilon, delta).
        confidence: confidence with which the bound holds.
        method: how it was computed.
    """

    value: float | None
    reason: Prose | None
    delta: float
    confidence: float
    method: Prose


@dataclass(frozen=True)
class EpsilonFigures:
    """Two lower bounds on epsilon.

    Attributes:
        general: holds without assumptions on the trade-off curve.
        gaussian: holds where the trade-off curve is Gaussian.
    """

    general: EpsilonFigure
    gaussian: EpsilonFigure


@dataclass(frozen=True)
class GroupFigures:
    """One attack within one group of records.

    Attributes:
        group: name of the group.
        records: number of records in it.
        auc: area under the ROC curve.
        advantage: TPR - FPR on each half of the records, at the threshold that is best on the other half.
        tpr_at_fpr: one entry per FPR budget; the threshold is the group's own.
    """

    group: str
    records: int
    auc: Figure
    advantage: Figure
    tpr_at_fpr: tuple[TprFigure, ...]


@dataclass(frozen=True)
class SetTpr(TprFigure):
    """True positive rate at a false positive rate within a set of records, all targets pooled.

    Attributes:
        reason: why the rate cannot be measured; None where it can.
    """

    reason: Prose | None = field(kw_only=True)


@dataclass(frozen=True)
class SetFigures:
    """What an attack achieves within a set of records, all targets pooled.

    Members and non-members, and so every rate, are those of the set. `sd` is None: a target has too few
    records of the set for figures of its own.

    Attributes:
        attack: label of the attack; where several were compared, of the strongest within the set.
        records: number of records per target.
        auc: area under the ROC curve.
        advantage: TPR - FPR on each half of the records, at the threshold that is best on the other half.
        tpr_at_fpr: one entry per FPR budget.
        reason: why nothing was measured; None where it was.
    """

    attack: str
    records: int
    auc: Figure
    advantage: Figure
    tpr_at_fpr: tuple[SetTpr, ...]
    reason: Prose | None


@dataclass(frozen=True)
class AttackFigures:
    """What one attack achieves.

    Attributes:
        auc: area under the ROC curve.
        advantage: TPR - FPR on each half of the records, at the threshold that is best on the other half.
        balanced_accuracy: (1 + advantage) / 2.
        tpr_at_fpr: one entry per FPR; thresholds are chosen on the target.
        calibrated: one entry per FPR budget; thresholds come from the other models. Empty for one target.
        epsilon: lower bounds on epsilon.
        groups: column -> figures of its groups.
        targets: number of targets.
        most_exposed: figures of the 1% of records that are most exposed, chosen for each target on the other
            models.
        canaries: figures of the canaries; None where there are none.
        inverted: whether the scores count with the opposite sign, because members have lower ones.
    """

    auc: Figure
    advantage: Figure
    balanced_accuracy: Figure
    tpr_at_fpr: tuple[TprAtFpr, ...]
    calibrated: tuple[CalibratedRate, ...]
    epsilon: EpsilonFigures
    groups: Mapping[str, tuple[GroupFigures, ...]]
    targets: int
    most_exposed: SetFigures
    canaries: SetFigures | None = None
    inverted: bool = False


@dataclass(frozen=True)
class Headline:
    """What the strongest attack achieves.

    The attack that is strongest on one half of the records and one half of the models is measured on the
    other halves, so the choice among several attacks does not raise the figure. Each set of records has a
    strongest attack of its own, chosen in the same way.

    Attributes:
        attack: label of the strongest attack.
        auc: area under the ROC curve within halves of the records.
        most_exposed: figures of the strongest attack on the most exposed 1% of the records.
        canaries: figures of the strongest attack on the canaries; None where there are none.
    """

    attack: str
    auc: Figure
    most_exposed: SetFigures
    canaries: SetFigures | None = None


@dataclass(frozen=True)
class PopulationFigures:
    """The models, and the records they were queried about.

    Attributes:
        models: number of models that converged.
        targets: number of models that were attacked.
        records: number of records, or of units where members are units; canaries do not count.
        rows: number of records of all units; null: every record is a unit.
        canaries: number of canaries.
        members: members per target, on average.
        diverged_models: index of each model that diverged -> the epoch in which it did.
        seed: seed that all randomness derives from; one per part where runs were merged or extended.
        recipe: how one model was trained.
        privacy: the guarantee that training gives each record; null: models were trained without
            differential privacy, or elsewhere.
        records_sha256: sha256 of the records.
    """

    models: int
    targets: int
    records: int
    rows: int | None
    canaries: int
    members: int
    diverged_models: Mapping[str, int]
    seed: int | tuple[int, ...]
    recipe: Mapping[str, Any]
    privacy: PrivacySpent | None
    records_sha256: str


@dataclass(frozen=True)
class AccuracyFigures:
    """Share of correct predictions.

    Attributes:
        members: on the records a target was trained on.
        nonmembers: on the other records.
    """

    members: Figure
    nonmembers: Figure


@dataclass(frozen=True)
class CheckpointFit:
    """How well the targets fit the records at one checkpoint; means over targets.

    Attributes:
        epoch: epoch of the checkpoint.
        members: accuracy on the records a target was trained on.
        nonmembers: accuracy on the other records.
        confidence: probability that the targets give to the class they predict, on non-members: at least
            this; None where the bank does not store it.
    """

    epoch: int
    members: float
    nonmembers: float
    confidence: float | None


@dataclass(frozen=True)
class ErrorFigures:
    """Root mean squared error of a regression's predictions, in the unit of the labels.

    Attributes:
        members: on the records a target was trained on.
        nonmembers: on the other records.
    """

    members: Figure
    nonmembers: Figure


@dataclass(frozen=True)
class ExposedRecords:
    """Records that are individually exposed: their membership is detectable across models.

    Attributes:
        records: how many; None where none was detected and the models are too few to detect a single one.
        share: share of all records; None where `records` is. It is no upper bound: more models detect more.
        at_most: the largest share, with 99% confidence, of records about which the attack is right for at
            least four of five models.
        false_discovery_rate: the expected share of false alarms among them is at most this.
        decision: when a record counts as recognized by a model.
        tested: number of records with targets trained on them and without them.
        fewest_detectable: fewer exposed records than this cannot be detected with so many targets.
        reason: what the targets are too few to detect; None where they can detect a single exposed record.
    """

    records: int | None
    share: float | None
    at_most: float
    false_discovery_rate: float
    decision: Prose
    tested: int
    fewest_detectable: int
    reason: Prose | None


@dataclass(frozen=True)
class AuditResults:
    """What models reveal about who was in their training sets.

    Attributes:
        experiment: kind of results.
        config: what was measured.
        rating: how much leaks, in one word.
        population: models and records.
        accuracy: accuracy of the targets; None where the task has none.
        error: error of the targets' predictions; None for classifiers.
        fit: accuracy and confidence of the targets at each checkpoint; empty where the task has no accuracy.
        headline: what the strongest attack achieves.
        attacks: label of each attack -> what it achieves.
        groups_left_out: column -> why its groups were not evaluated.
        leakage: bits of membership information in the outputs.
        hygiene: checks of the audit itself; empty where nothing is known of the records.
        exposed: records that are individually exposed; None where single records cannot be evaluated.
        gate: outcome of the gate; None: no gate was set.
        claim: outcome of the claim of differential privacy; None: nothing was claimed, or a check failed.
        text: planted secrets and extracted documents; None: the models are no language models.
    """

    experiment: Literal["audit"]
    config: EvaluationConfig
    rating: Rating
    population: PopulationFigures
    accuracy: AccuracyFigures | None
    error: ErrorFigures | None
    fit: tuple[CheckpointFit, ...]
    headline: Headline
    attacks: Mapping[str, AttackFigures]
    groups_left_out: Mapping[str, Prose]
    leakage: LeakageFigures
    hygiene: tuple[Outcome, ...]
    exposed: ExposedRecords | None
    gate: GateResult | None
    claim: ClaimFigures | None
    text: TextFigures | None

    @property
    def strongest_attack(self) -> str:
        """Label of the attack with the highest AUC."""
        return self.headline.attack

    @property
    def inverted_attacks(self) -> tuple[str, ...]:
        """Labels of the attacks whose scores count with the opposite sign."""
        return tuple(label for label, figures in self.attacks.items() if figures.inverted)

    @property
    def is_of_one_model(self) -> bool:
        """True for an audit of one given model, false for one of a whole population."""
        return self.config.targets is not None

    @property
    def is_rounded(self) -> bool:
        """True where figures and counts of members are rounded; see `leakscope.evaluate.coarse`."""
        return False
