"""The results of a comparison: everything results.json holds, typed.

Every difference is "this run minus the baseline". Rates are shares from 0 to 1. A figure that is undefined is
None. Intervals are 95% intervals unless a field says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from leakscope.evaluate.nouns import Noun
from leakscope.stats.estimate import Estimate
from leakscope.types import Prose

LeakageMeasure = Literal["auc", "advantage", "tpr", "record_advantage", "bits"]
Outcome = Literal["helped", "worse", "mixed", "no difference"]


@dataclass(frozen=True)
class ComparisonConfig:
    """The audits that are compared.

    Attributes:
        runs: run folders of the audits, relative to the folder of the comparison; the baseline comes first.
    """

    runs: tuple[str, ...]


@dataclass(frozen=True)
class IntervalLevels:
    """Confidence levels of the intervals.

    Attributes:
        level: level of each interval on its own.
        simultaneous_level: level of each simultaneous interval. A Bonferroni correction over all leakage
            figures of all runs; accuracy, groups and single records are not part of the family.
        leakage_figures: number of leakage figures in the family.
    """

    level: float
    simultaneous_level: float
    leakage_figures: int


@dataclass(frozen=True)
class RunSummary:
    """One of the audits.

    Attributes:
        name: name of its run folder; the path where two folders have the same name.
        records: number of records; of units, where these are the members.
        unit: the column that says whose record it is; None where single records are the members.
        records_name: name of the records.
        records_sha256: sha256 of the records.
        models: number of models that converged.
        targets: number of models that were attacked.
        diverged_models: number of models that diverged.
        seed: seed that all randomness derives from; one per part for merged runs.
        recipe: how one model was trained.
        bank_sha256: sha256 of the identity of its bank.
        hygiene_failed: one sentence per check of the audit that failed.
    """

    name: str
    records: int
    unit: str | None
    records_name: str
    records_sha256: str
    models: int
    targets: int
    diverged_models: int
    seed: int | tuple[int, ...]
    recipe: Mapping[str, Any]
    bank_sha256: str
    hygiene_failed: tuple[Prose, ...]


@dataclass(frozen=True)
class LeftOut:
    """What is not compared, because some run lacks it, cannot measure it or defines it differently.

    Attributes:
        attacks: attacks as text, see `leakscope.attacks.spec`.
        fpr_budgets: false positive rates.
        groups: columns of groups.
        parts: other parts of the results.
    """

    attacks: tuple[str, ...]
    fpr_budgets: tuple[float, ...]
    groups: tuple[str, ...]
    parts: tuple[Prose, ...]


@dataclass(frozen=True)
class DifferenceFigure:
    """A figure in both runs, and how much it differs.

    Attributes:
        baseline: the figure in the baseline; None: undefined.
        other: the figure in this run; None: undefined.
        difference: this run minus the baseline; None: undefined.
        low: lower end of the interval of the difference; None: there is no interval.
        high: upper end of the interval; None: there is no interval.
        method: how the interval is computed, or why there is none.
    """

    baseline: float | None
    other: float | None
    difference: float | None
    low: float | None
    high: float | None
    method: Prose


@dataclass(frozen=True)
class LeakageDifference(DifferenceFigure):
    """A leakage figure over all records; higher is worse.

    Attributes:
        measure: what is measured; "record_advantage" is the mean advantage per record, "bits" the mean
            information about a record's membership.
        attack: label of the attack; None for bits.
        fpr: false positive rate within which a true positive rate is measured; None for other measures.
        simultaneous_low: lower end of the simultaneous interval; None: there is no interval.
        simultaneous_high: upper end of the simultaneous interval; None: there is no interval.
        outcome: whether the simultaneous interval lies above zero, below zero, or contains it.
    """

    measure: LeakageMeasure
    attack: str | None
    fpr: float | None
    simultaneous_low: float | None
    simultaneous_high: float | None
    outcome: Literal["higher", "lower", "unresolved"]


@dataclass(frozen=True)
class GroupDifference(DifferenceFigure):
    """The AUC of the strongest attack within one group of records.

    Attributes:
        group: name of the group.
    """

    group: str


@dataclass(frozen=True)
class AccuracyDifferences:
    """Share of correct predictions: what a defence costs.

    Attributes:
        members: on the records a model was trained on.
        nonmembers: on the other records.
    """

    members: DifferenceFigure
    nonmembers: DifferenceFigure


@dataclass(frozen=True)
class RecordChanges:
    """Records that are individually exposed in either run, and records whose exposure changed.

    Attributes:
        records: number of records.
        resolved: number of which both runs have enough models to tell whether they are exposed.
        exposed_baseline: number exposed in the baseline; None where its models can resolve no record.
        exposed_other: number exposed in this run; None where its models can resolve no record.
        exposed_both: number exposed in both; None where no record is resolved in both.
        share_difference: difference in the share of the resolved records that are exposed; the interval is
            over records, for these models.
        more_exposed: number whose advantage rose significantly.
        less_exposed: number whose advantage fell significantly.
        false_discovery_rate: the expected share of false alarms among these changes is at most this.
        mean_advantage_baseline: mean advantage over records in the baseline.
        mean_advantage_other: mean advantage over records in this run.
    """

    records: int
    resolved: int
    exposed_baseline: int | None
    exposed_other: int | None
    exposed_both: int | None
    share_difference: Estimate
    more_exposed: int
    less_exposed: int
    false_discovery_rate: float
    mean_advantage_baseline: float | None
    mean_advantage_other: float | None


@dataclass(frozen=True)
class RunComparison:
    """One run against the baseline.

    Attributes:
        run: name of the run.
        recipe_differences: how its recipe differs from the baseline's, one entry per setting.
        is_paired: whether the models (same design) or the records (one model) are compared in pairs.
        leakage: the leakage figures, which decide the outcome.
        accuracy: what the change costs; None where a run stores no correct predictions.
        records: single records; None where a run does not evaluate them.
        groups: column -> AUC of the strongest attack in each of its groups.
        outcome: "worse" or "mixed" where a leakage figure is higher, "helped" where some are lower only.
    """

    run: str
    recipe_differences: tuple[Prose, ...]
    is_paired: bool
    leakage: tuple[LeakageDifference, ...]
    accuracy: AccuracyDifferences | None
    records: RecordChanges | None
    groups: Mapping[str, tuple[GroupDifference, ...]]
    outcome: Outcome

    @property
    def is_regression(self) -> bool:
        """True when this run leaks more than the baseline by at least one figure."""
        return self.outcome in ("worse", "mixed")

    def auc_of(self, attack: str) -> LeakageDifference:
        """The AUC of one attack."""
        (figure,) = (f for f in self.leakage if f.measure == "auc" and f.attack == attack)
        return figure


@dataclass(frozen=True)
class ComparisonResults:
    """Audits of the same records, compared with the first of them.

    Attributes:
        experiment: kind of results.
        config: the audits.
        intervals: confidence levels of the intervals.
        runs: one entry per audit, the baseline first.
        strongest_attack: label of the common attack with the highest AUC on average over the runs.
        left_out: what is not compared.
        comparisons: one entry per run other than the baseline.
        regression: whether some run leaks more than the baseline.
    """

    experiment: Literal["compare"]
    config: ComparisonConfig
    intervals: IntervalLevels
    runs: tuple[RunSummary, ...]
    strongest_attack: str
    left_out: LeftOut
    comparisons: tuple[RunComparison, ...]
    regression: bool

    @property
    def baseline(self) -> RunSummary:
        """The run that the others are compared with."""
        return self.runs[0]

    @property
    def noun(self) -> Noun:
        """What the figures are about, which is the same in all runs."""
        return Noun.of_unit(self.baseline.unit)
