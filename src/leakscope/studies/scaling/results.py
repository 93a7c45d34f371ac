"""The results of the scaling study: everything results.json holds, typed.

Fields of `results`, `repeats` and `correlations` have the names of the published study's results; the other
attacks, the intervals and the decision are additions. Standard deviations over repeats divide by n, as
published. Intervals are 95% intervals; an undefined figure is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from leakscope.stats.correlation import Coefficient
from leakscope.stats.estimate import Estimate
from leakscope.studies.scaling.config import ScalingConfig
from leakscope.types import Prose

Favored = Literal["gap", "size", "neither", "undefined"]
Verdict = Literal["gap", "size", "neither", "undecided", "no success", "undefined"]


@dataclass(frozen=True)
class Correlation:
    """A correlation over the means of the widths.

    Attributes:
        r: Pearson's coefficient; None: undefined.
        p: two-sided p-value of no correlation.
        low: lower end of the interval, by Fisher's z.
        high: upper end of the interval.
    """

    r: float | None
    p: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class DescribedCorrelation(Correlation):
    """A correlation, and what is correlated.

    Attributes:
        description: what is correlated with what.
    """

    description: Prose


@dataclass(frozen=True)
class Correlations:
    """The published correlations, of the shadow-model attack.

    Attributes:
        auc_vs_log_params: attack AUC and log2 of the number of parameters.
        auc_vs_overfit_gap: attack AUC and overfitting gap.
        gap_vs_log_params: overfitting gap and log2 of the number of parameters.
    """

    auc_vs_log_params: DescribedCorrelation
    auc_vs_overfit_gap: DescribedCorrelation
    gap_vs_log_params: DescribedCorrelation


@dataclass(frozen=True)
class AttackSummary:
    """One attack at one width.

    Attributes:
        mean_auc: area under the ROC curve, mean over repeats.
        std_auc: its standard deviation over repeats.
    """

    mean_auc: float
    std_auc: float


@dataclass(frozen=True)
class Repeat:
    """One target model.

    Attributes:
        repeat: its number, from 0.
        hidden_width: its width.
        train_acc: accuracy on its members.
        test_acc: accuracy on its non-members.
        overfit_gap: train_acc - test_acc.
        attack_auc: area under the ROC curve of the shadow-model attack.
        attack_accuracy: accuracy of the shadow-model attack at probability 1/2.
        auc: attack -> area under the ROC curve.
    """

    repeat: int
    hidden_width: int
    train_acc: float
    test_acc: float
    overfit_gap: float
    attack_auc: float
    attack_accuracy: float
    auc: Mapping[str, float]


@dataclass(frozen=True)
class WidthResults:
    """One width.

    Attributes:
        hidden_width: units in the hidden layer.
        n_params: parameters of a model, biases included.
        mean_attack_auc: area under the ROC curve of the shadow-model attack, mean over repeats.
        std_attack_auc: its standard deviation over repeats.
        mean_attack_accuracy: accuracy of the shadow-model attack, mean over repeats.
        std_attack_accuracy: its standard deviation over repeats.
        mean_overfit_gap: train minus test accuracy, mean over repeats.
        std_overfit_gap: its standard deviation over repeats.
        mean_train_acc: accuracy on members, mean over repeats.
        mean_test_acc: accuracy on non-members, mean over repeats.
        attacks: attack -> its AUC.
        repeats: one entry per repeat.
    """

    hidden_width: int
    n_params: int
    mean_attack_auc: float
    std_attack_auc: float
    mean_attack_accuracy: float
    std_attack_accuracy: float
    mean_overfit_gap: float
    std_overfit_gap: float
    mean_train_acc: float
    mean_test_acc: float
    attacks: Mapping[str, AttackSummary]
    repeats: tuple[Repeat, ...]


@dataclass(frozen=True)
class Compared:
    """Gap and size as predictors of one attack's AUC, by one coefficient over width means.

    Intervals resample repeats.

    Attributes:
        gap: correlation of AUC and gap.
        size: correlation of AUC and log2 of the number of parameters.
        difference: absolute value of `gap` minus that of `size`; above 0, the gap predicts better.
        favors: "gap" or "size" where the interval of the difference excludes 0, else "neither"; "undefined"
            where there is no interval.
    """

    gap: Estimate
    size: Estimate
    difference: Estimate
    favors: Favored


@dataclass(frozen=True)
class OverWidths:
    """Gap and size as predictors of one attack's AUC over a range of widths.

    Attributes:
        hidden_widths: the widths.
        coefficients: "pearson", "spearman", "kendall" -> the comparison.
        partial_r_gap_given_size: partial correlation of AUC and gap, size held fixed.
        partial_r_size_given_gap: partial correlation of AUC and size, gap held fixed.
        partial_rank_gap_given_size: the same of ranks.
        partial_rank_size_given_gap: the same of ranks.
    """

    hidden_widths: tuple[int, ...]
    coefficients: Mapping[Coefficient, Compared]
    partial_r_gap_given_size: Correlation
    partial_r_size_given_gap: Correlation
    partial_rank_gap_given_size: Correlation
    partial_rank_size_given_gap: Correlation


@dataclass(frozen=True)
class GapOrSize:
    """Which predicts one attack's AUC better over widths: the overfitting gap or the number of parameters?

    Attributes:
        mean_auc: mean over widths and repeats; interval over repeats.
        over: one entry for all widths, and one for the published widths if there are others.
        verdict: "gap", "size" or "neither" if all coefficients agree over all ranges, "undecided" if they
            disagree, "no success" if the attack does not beat guessing, "undefined" if there is too little.
        answer: the verdict in one sentence.
        evidence: the numbers behind it, in one sentence.
    """

    mean_auc: Estimate
    over: tuple[OverWidths, ...]
    verdict: Verdict
    answer: Prose
    evidence: Prose


@dataclass(frozen=True)
class Spread:
    """One figure over initializations.

    Attributes:
        mean: its mean.
        sd: its standard deviation, dividing by n - 1.
        low: its 2.5% quantile.
        high: its 97.5% quantile.
        values: one per initialization.
    """

    mean: float
    sd: float
    low: float
    high: float
    values: tuple[float, ...]


@dataclass(frozen=True)
class WidthMeans:
    """The published figures of one width, from one training of targets and shadow models.

    Attributes:
        hidden_width: units in the hidden layer.
        train_acc: accuracy on members, mean over repeats.
        test_acc: accuracy on non-members, mean over repeats.
        overfit_gap: train minus test accuracy, mean over repeats.
        std_overfit_gap: its standard deviation over repeats.
        attack_auc: AUC of the shadow-model attack, mean over repeats.
        std_attack_auc: its standard deviation over repeats.
    """

    hidden_width: int
    train_acc: float
    test_acc: float
    overfit_gap: float
    std_overfit_gap: float
    attack_auc: float
    std_attack_auc: float


@dataclass(frozen=True)
class WidthSpread:
    """The figures of one width over initializations; see `WidthMeans`.

    Attributes:
        hidden_width: units in the hidden layer.
        train_acc: accuracy on members.
        test_acc: accuracy on non-members.
        overfit_gap: train minus test accuracy.
        std_overfit_gap: standard deviation of the gap over repeats.
        attack_auc: AUC of the shadow-model attack.
        std_attack_auc: standard deviation of the AUC over repeats.
    """

    hidden_width: int
    train_acc: Spread
    test_acc: Spread
    overfit_gap: Spread
    std_overfit_gap: Spread
    attack_auc: Spread
    std_attack_auc: Spread


@dataclass(frozen=True)
class Initializations:
    """The published figures over several trainings on the same records, from other initial weights.

    Attributes:
        n: number of initializations.
        widths: one entry per width.
        auc_vs_log_params: Pearson correlation of attack AUC and log2 of the number of parameters; None:
            undefined.
        auc_vs_overfit_gap: that of attack AUC and overfitting gap.
        gap_vs_log_params: that of overfitting gap and log2 of the number of parameters.
        difference: auc_vs_overfit_gap minus auc_vs_log_params.
    """

    n: int
    widths: tuple[WidthSpread, ...]
    auc_vs_log_params: Spread | None
    auc_vs_overfit_gap: Spread | None
    gap_vs_log_params: Spread | None
    difference: Spread | None


@dataclass(frozen=True)
class PublishedSeeds:
    """The published figures from models trained with the publication's own seeds of torch.

    Attributes:
        widths: one entry per width.
        correlations: the published correlations.
    """

    widths: tuple[WidthMeans, ...]
    correlations: Correlations


@dataclass(frozen=True)
class Runtime:
    """How the numbers were computed.

    Attributes:
        n_models: number of trained models.
        versions: package -> its version.
    """

    n_models: int
    versions: Mapping[str, str]


@dataclass(frozen=True)
class ScalingResults:
    """Membership leakage of MLPs of several widths.

    Attributes:
        experiment: what was studied.
        config: what was run.
        results: one entry per width.
        correlations: the published correlations.
        gap_or_size: attack -> which predicts its AUC better.
        initializations: the published figures over initializations; None if there is one.
        published_seeds: the published figures with the publication's seeds; None if they were not used.
        runtime: number of models and versions of packages.
    """

    experiment: str
    config: ScalingConfig
    results: tuple[WidthResults, ...]
    correlations: Correlations
    gap_or_size: Mapping[str, GapOrSize]
    initializations: Initializations | None
    published_seeds: PublishedSeeds | None
    runtime: Runtime

    @property
    def attacks(self) -> tuple[str, ...]:
        """Names of the attacks."""
        return tuple(self.results[0].attacks)
