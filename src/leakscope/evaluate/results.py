"""The results of an audit: everything results.json holds, typed.

Conventions: rates are shares from 0 to 1. A figure that is undefined is None, and a reason stands beside it.
Intervals are 95% intervals unless a field says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from leakscope.evaluate.gate import Gate, GateResult
from leakscope.evaluate.hygiene.outcome import Outcome

SourceKind = Literal["population", "given model", "predictions", "merged"]


@dataclass(frozen=True)
class Source:
    """What was audited, as a reader of the report needs to know it.

    Attributes:
        kind: a trained population, a given model with trained references, saved predictions, or merged runs.
        facts: what identifies it: files, sha256 of weights and member list, what was trained.
        toml: the config file that repeats the audit; None where no config file can.
    """

    kind: SourceKind
    facts: Mapping[str, str] = field(default_factory=dict)
    toml: str | None = None


@dataclass(frozen=True)
class EvaluationConfig:
    """What was asked of the models' outputs.

    Attributes:
        records: name of the records.
        attacks: attacks as text, see `leakscope.attacks.spec`.
        fpr_budgets: false positive rates at which the true positive rate is reported.
        targets: indices of the models that were judged; None: every model in turn.
        delta: of epsilon.
        confidence: of epsilon.
        gate: limits; None: no gate was set.
        source: what was audited.
    """

    records: str
    attacks: tuple[str, ...]
    fpr_budgets: tuple[float, ...]
    targets: tuple[int, ...] | None = None
    delta: float = 1e-5
    confidence: float = 0.95
    gate: Gate | None = None
    source: Source = field(default_factory=lambda: Source("population"))


@dataclass(frozen=True)
class Figure:
    """A value with its interval.

    Attributes:
        value: the mean over targets, or the value of the one target; None: undefined.
        low: lower end of the interval.
        high: upper end of the interval.
        sd: standard deviation over targets; None for one target.
    """

    value: float | None
    low: float | None
    high: float | None
    sd: float | None = None


@dataclass(frozen=True)
class Precision:
    """Precision of "member" where the share of members is known.

    Attributes:
        prior: share of members among all records an attacker considers.
        value: the precision.
        low: at the lower end of the TPR's interval.
        high: at the upper end of the TPR's interval.
    """

    prior: float
    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class TprAtFpr:
    """True positive rate within a false positive rate; the threshold is chosen on the target itself.

    Attributes:
        fpr: the budget.
        value: the rate; None where it is not resolvable.
        low: lower end of the interval.
        high: upper end of the interval.
        sd: standard deviation over targets; None for one target.
        reason: why it is not resolvable; None where it is.
        precision: at several priors.
    """

    fpr: float
    value: float | None
    low: float | None
    high: float | None
    sd: float | None
    reason: str | None
    precision: tuple[Precision, ...]


@dataclass(frozen=True)
class CalibratedRate:
    """Rates at a threshold that the other models set, as an attacker must.

    Attributes:
        fpr_budget: share of the other models' non-members that may reach the threshold.
        tpr: true positive rate reached.
        fpr: false positive rate reached.
        reason: why it is not resolvable; None where it is.
    """

    fpr_budget: float
    tpr: Figure
    fpr: Figure
    reason: str | None


@dataclass(frozen=True)
class EpsilonFigure:
    """A lower bound of epsilon.

    Attributes:
        value: the bound; None: undefined.
        reason: why it is undefined; None where it is not.
        delta: of (epsilon, delta).
        confidence: with which the bound holds.
        method: how it was computed.
    """

    value: float | None
    reason: str | None
    delta: float
    confidence: float
    method: str


@dataclass(frozen=True)
class EpsilonFigures:
    """Two lower bounds of epsilon.

    Attributes:
        general: free of assumptions.
        gaussian: where the trade-off curve is Gaussian.
    """

    general: EpsilonFigure
    gaussian: EpsilonFigure


@dataclass(frozen=True)
class GroupRate:
    """True positive rate of a group within a false positive rate.

    Attributes:
        fpr: the budget.
        value: the rate; None where it is not resolvable.
        low: lower end of the interval.
        high: upper end of the interval.
        sd: standard deviation over targets; None for one target.
    """

    fpr: float
    value: float | None
    low: float | None
    high: float | None
    sd: float | None


@dataclass(frozen=True)
class GroupFigures:
    """One group of records under one attack.

    Attributes:
        group: its name.
        records: number of records in it.
        auc: area under the ROC curve.
        advantage: the largest TPR - FPR.
        tpr_at_fpr: one entry per budget.
    """

    group: str
    records: int
    auc: Figure
    advantage: Figure
    tpr_at_fpr: tuple[GroupRate, ...]


@dataclass(frozen=True)
class AttackFigures:
    """What one attack achieves.

    Attributes:
        auc: area under the ROC curve.
        advantage: the largest TPR - FPR.
        balanced_accuracy: (1 + advantage) / 2.
        tpr_at_fpr: one entry per budget; thresholds are chosen on the target.
        calibrated: one entry per budget; thresholds come from the other models. Empty for one target.
        epsilon: lower bounds.
        groups: column -> figures of its groups.
        targets: number of targets.
    """

    auc: Figure
    advantage: Figure
    balanced_accuracy: Figure
    tpr_at_fpr: tuple[TprAtFpr, ...]
    calibrated: tuple[CalibratedRate, ...]
    epsilon: EpsilonFigures
    groups: Mapping[str, tuple[GroupFigures, ...]]
    targets: int


@dataclass(frozen=True)
class PopulationFigures:
    """The models and the records they were queried about.

    Attributes:
        models: number of models that converged.
        targets: number of targets.
        records: number of records.
        members: members per target, on average.
        diverged_models: index of each model that diverged -> the epoch it diverged in.
        seed: all randomness derives from it.
        recipe: how one model was trained.
        records_sha256: sha256 of the records.
    """

    models: int
    targets: int
    records: int
    members: int
    diverged_models: Mapping[str, int]
    seed: int
    recipe: Mapping[str, Any]
    records_sha256: str


@dataclass(frozen=True)
class AccuracyFigures:
    """Share of correct predictions.

    Attributes:
        members: on the records a target was trained on.
        nonmembers: on the others.
    """

    members: Figure
    nonmembers: Figure


@dataclass(frozen=True)
class LeakageFigure:
    """A mean over records with its interval.

    Attributes:
        value: the mean; None: undefined.
        low: lower end of the interval.
        high: upper end of the interval.
    """

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class MostExposedFigure:
    """Bits of the most exposed records.

    Attributes:
        share: of the records that count as most exposed.
        value: their mean; None: undefined.
        low: lower end of the interval.
        high: upper end of the interval.
    """

    share: float
    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class CheckpointLeakage:
    """Leakage at one checkpoint.

    Attributes:
        epoch: of the checkpoint.
        bits: mutual information between output and membership, in bits per record.
        rho_kl: symmetric Kullback-Leibler divergence, in nats per record.
        advantage_bound: mean total variation: no attack on one output has a larger advantage on average.
        most_exposed: bits of the most exposed records.
        floor: the estimator's bias, measured on permuted designs and subtracted; in bits.
    """

    epoch: int
    bits: LeakageFigure
    rho_kl: LeakageFigure
    advantage_bound: LeakageFigure
    most_exposed: MostExposedFigure
    floor: float | None


@dataclass(frozen=True)
class LeakageFigures:
    """Bits of membership that the models' outputs reveal.

    Attributes:
        signal: the signal measured; None where there is none.
        unit: of `bits`.
        reason: why leakage is undefined; None where it is not.
        checkpoints: one entry per checkpoint.
    """

    signal: str | None
    unit: str
    reason: str | None
    checkpoints: tuple[CheckpointLeakage, ...]


@dataclass(frozen=True)
class ExposedRecords:
    """Records that are individually exposed.

    Attributes:
        records: how many.
        share: of all records.
        false_discovery_rate: the expected share of false alarms among them is at most this.
        decision: when an output counts as a member's.
    """

    records: int
    share: float
    false_discovery_rate: float
    decision: str


@dataclass(frozen=True)
class AuditResults:
    """What models give away about who was in their training sets.

    Attributes:
        experiment: kind of results.
        config: what was asked.
        population: models and records.
        accuracy: of the targets; None where it is unknown.
        attacks: label of each attack -> what it achieves.
        groups_left_out: column -> why its groups were not judged.
        leakage: bits of membership in the outputs.
        hygiene: checks of the audit itself; empty where nothing is known of the records.
        exposed: records that are individually exposed; None where single records cannot be judged.
        gate: outcome of the limits; None where no gate was set.
    """

    experiment: Literal["audit"]
    config: EvaluationConfig
    population: PopulationFigures
    accuracy: AccuracyFigures | None
    attacks: Mapping[str, AttackFigures]
    groups_left_out: Mapping[str, str]
    leakage: LeakageFigures
    hygiene: tuple[Outcome, ...] = ()
    exposed: ExposedRecords | None = None
    gate: GateResult | None = None
