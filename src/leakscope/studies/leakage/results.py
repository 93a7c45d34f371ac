"""The results of the leakage study: everything results.json holds, typed.

Leakage is in nats, mutual information in bits. Means, medians and their 95% intervals are over records, which
are resampled whole. An undefined figure is None, and a reason stands beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leakscope.studies.leakage.config import LeakageConfig
from leakscope.studies.leakage.extension_results import Compared, Limits, Privacy, Regularized, Theory
from leakscope.types import Prose


@dataclass(frozen=True)
class OverRecords:
    """A quantity over records; infinite values are counted and excluded.

    Attributes:
        infinite: number of records whose value is infinite.
        reason: why records are excluded or intervals undefined; empty otherwise.
        mean: over records; None: undefined.
        mean_low: lower end of its interval.
        mean_high: upper end of its interval.
        median: over records; None: undefined.
        median_low: lower end of its interval.
        median_high: upper end of its interval.
    """

    infinite: int
    reason: Prose
    mean: float | None
    mean_low: float | None
    mean_high: float | None
    median: float | None
    median_low: float | None
    median_high: float | None


@dataclass(frozen=True)
class Leakage(OverRecords):
    """rho_KL, the symmetric Kullback-Leibler divergence, in nats, bias-corrected.

    Attributes:
        uncorrected: mean over records before the correction.
        floor: the bias: mean of the same estimate between two halves of one condition.
        floor_low: lower end of its interval.
        floor_high: upper end of its interval.
        analytic_floor: p(p+3)/K, the bias of Gaussian parameters; None with added noise, where it does not
            hold, and at finite precision.
    """

    uncorrected: float | None
    floor: float | None
    floor_low: float | None
    floor_high: float | None
    analytic_floor: float | None


@dataclass(frozen=True)
class Box:
    """A box plot.

    Attributes:
        q1: lower quartile.
        median: the median.
        q3: upper quartile.
        whisker_low: smallest value within 1.5 box heights of the box.
        whisker_high: largest value within 1.5 box heights of the box.
        outliers: values beyond the whiskers.
    """

    q1: float
    median: float
    q3: float
    whisker_low: float
    whisker_high: float
    outliers: tuple[float, ...]


@dataclass(frozen=True)
class Advantage(OverRecords):
    """Advantage of the threshold adversary, its absolute value.

    Attributes:
        box: over records.
        mean_sampling_error: its standard error over trainings, mean over records.
    """

    box: Box
    mean_sampling_error: float


@dataclass(frozen=True)
class RoundedLeakage(Leakage):
    """rho_KL of parameters rounded to a grid, in nats, bias-corrected.

    Attributes:
        method: "counts" of distinct rounded parameters where these are few for every record, else
            "Gaussian fit" of the rounded parameters.
    """

    method: Prose


@dataclass(frozen=True)
class Inequalities:
    """Measured advantages beside quantities of the fitted Gaussians: means over records, and violations.

    The inequalities between the fitted quantities hold for any two Gaussians. A measured advantage need not
    stay below them: it is limited by the true distributions, which the fit approximates.

    Attributes:
        advantage: of the threshold adversary.
        likelihood_ratio: advantage of the likelihood-ratio adversary.
        total_variation: of the fitted Gaussians.
        total_variation_error: its numerical error.
        pinsker: sqrt(KL / 2) of the fitted Gaussians, clipped at 1.
        bretagnolle_huber: sqrt(1 - exp(-KL)) of the fitted Gaussians.
        farokhi_kaafar: sqrt(rho_KL) / 2 of the fitted Gaussians, clipped at 1.
        advantage_beyond: records whose advantage exceeds the total variation by more than its errors.
        likelihood_ratio_beyond: records whose likelihood-ratio advantage does.
        likelihood_ratio_beyond_farokhi_kaafar: records whose likelihood-ratio advantage exceeds sqrt(rho_KL)
            / 2 by more than its errors.
        total_variation_beyond: records whose total variation exceeds the smaller of the next two quantities.
        tightest_beyond_farokhi_kaafar: records for which that smaller quantity exceeds the last one.
    """

    advantage: float
    likelihood_ratio: float
    total_variation: float
    total_variation_error: float
    pinsker: float
    bretagnolle_huber: float
    farokhi_kaafar: float
    advantage_beyond: int
    likelihood_ratio_beyond: int
    likelihood_ratio_beyond_farokhi_kaafar: int
    total_variation_beyond: int
    tightest_beyond_farokhi_kaafar: int


@dataclass(frozen=True)
class OutputLeakage:
    """Leakage of the model's output on the record, in nats: by Gaussian fits, and by nearest neighbors.

    Attributes:
        gaussian: by Gaussian fits, over all records.
        neighbours: by nearest neighbors, over the records it was estimated for; None: for none.
        neighbours_if_gaussian: what nearest neighbors report on as many draws from the fitted Gaussians, mean
            over the same records. Its distance from the Gaussian value is the estimator's bias.
        gaussian_compared: Gaussian value, mean over the same records.
        records: how many records these are.
        relative_difference: of `neighbours` from `neighbours_if_gaussian`, mean over these records.
        relative_difference_half_width: half of its 95% interval.
        is_poor: whether the Gaussian fit is poor.
        beyond_parameters: records whose output leaks more than their parameters, by the same Gaussian fits.
        reason: why there is no comparison; empty otherwise.
    """

    gaussian: OverRecords
    neighbours: Leakage | None
    neighbours_if_gaussian: float | None
    gaussian_compared: float | None
    records: int
    relative_difference: float | None
    relative_difference_half_width: float | None
    is_poor: bool | None
    beyond_parameters: int
    reason: Prose


@dataclass(frozen=True)
class PriorInformation:
    """rho_MI at a prior other than 1/2, by Gaussian fits.

    Attributes:
        prior: probability of membership.
        mean: over records, in bits.
        share: of the entropy of membership at this prior, mean over records.
        error: numerical error in bits, mean over records.
        beyond_product: records for which it exceeds P(z=0) P(z=1) rho_KL by more than its error.
    """

    prior: float
    mean: float
    share: float
    error: float
    beyond_product: int


@dataclass(frozen=True)
class Information:
    """rho_MI, mutual information between a record's presence and the parameters, in bits, by Gaussian fits.

    Attributes:
        mean: over records, at equal priors.
        error: numerical error, mean over records.
        beyond_quarter_rho_kl: records for which it exceeds a quarter of rho_KL by more than its error.
        at_sampling_prior: at the prior n / N of a random training set.
        at_priors: at the priors that were asked for, in their order.
    """

    mean: float
    error: float
    beyond_quarter_rho_kl: int
    at_sampling_prior: PriorInformation
    at_priors: tuple[PriorInformation, ...]


@dataclass(frozen=True)
class MaximalLeakage:
    """Leakage of Renyi order infinity, log2(1 + total variation), in bits: what the best guess gains.

    The information of order infinity between the release and membership (Sibson's, also called maximal
    leakage). It is 0 to 1 bit, at any priors above 0. The Renyi *divergence* of order infinity between two
    Gaussian fits is infinite unless one covariance is below the other, and is not reported.

    Attributes:
        fitted: by the fitted Gaussians, mean over records.
        fitted_largest: by the fitted Gaussians, of the most exposed record.
        attained: log2(1 + advantage) of the likelihood-ratio adversary, mean over records.
        attained_largest: the same of the record it is largest for; selected, hence biased upwards.
    """

    fitted: float
    fitted_largest: float
    attained: float
    attained_largest: float


@dataclass(frozen=True)
class Distinctness:
    """Rank correlation over records of the likelihood-ratio adversary's advantage with the distance: that of
    Mahalanobis, of the record's inputs from the mean of the measured records.

    Attributes:
        spearman: the correlation; None: undefined.
        low: lower end of its 95% interval.
        high: upper end of it.
        reason: why it is undefined; empty otherwise.
    """

    spearman: float | None
    low: float | None
    high: float | None
    reason: Prose


@dataclass(frozen=True)
class Point:
    """One point of a figure.

    Attributes:
        value: the varied quantity.
        parameters: p, number of parameters (for the network, its one output).
        trials: K, trainings with and without a record in each of two halves.
        rho_kl: leakage of the parameters.
        advantage: of the threshold adversary.
        inequalities: measured advantages beside quantities of the fitted Gaussians.
        output: leakage of the output on the record.
        rho_mi_bits: mutual information.
        maximal_bits: leakage of Renyi order infinity.
        distinctness: whether records that are distinct from the others are attacked with more success.
        rho_kl_finite_precision: leakage of parameters rounded to a grid; None except in figure 3.
        training_error: mean squared error on the training sets.
        squared_error: mean squared error over all records; None for the network, where it is not measured.
    """

    value: float
    parameters: int
    trials: int
    rho_kl: Leakage
    advantage: Advantage
    inequalities: Inequalities
    output: OutputLeakage
    rho_mi_bits: Information
    maximal_bits: MaximalLeakage
    distinctness: Distinctness
    rho_kl_finite_precision: RoundedLeakage | None
    training_error: float
    squared_error: float | None


@dataclass(frozen=True)
class Trend:
    """A rank correlation with the varied quantity.

    Attributes:
        spearman: Spearman's coefficient; None: undefined.
        holds: whether it has the published sign and is strong enough; None: undefined.
        reason: why it is undefined; empty otherwise.
    """

    spearman: float | None
    holds: bool | None
    reason: Prose


@dataclass(frozen=True)
class Trends:
    """Trends of one figure. In figure 3 leakage is that at finite precision.

    Attributes:
        leakage: of the mean over records.
        median_leakage: of the median over records.
        neighbours: of the output's leakage by nearest neighbors, mean over records.
        median_advantage: of the threshold adversary's median advantage.
    """

    leakage: Trend
    median_leakage: Trend
    neighbours: Trend
    median_advantage: Trend


@dataclass(frozen=True)
class FigureResults:
    """One figure.

    Attributes:
        points: in the order of the axis.
        trends: rank correlations over the points.
    """

    points: tuple[Point, ...]
    trends: Trends


@dataclass(frozen=True)
class Control:
    """Figure 1 with the record's presence shuffled, where nothing leaks; in nats.

    Attributes:
        n: records in a training set.
        corrected: corrected leakage, mean over records.
        low: lower end of its interval, 99% for all sizes together.
        high: upper end of its interval.
        uncorrected: leakage before the correction, mean over records.
        analytic: p(p+3)/K, what it should be.
        ratio: uncorrected / analytic.
        total_variation: of the fitted Gaussians, mean over records.
        reason: why it is undefined; empty otherwise.
    """

    n: float
    corrected: float | None
    low: float | None
    high: float | None
    uncorrected: float | None
    analytic: float
    ratio: float | None
    total_variation: float
    reason: Prose


@dataclass(frozen=True)
class Check:
    """A statement about the measurements that is checked.

    Attributes:
        statement: in words.
        holds: None: cannot be decided.
        detail: the numbers behind it.
    """

    statement: Prose
    holds: bool | None
    detail: Prose


@dataclass(frozen=True)
class LeakageResults:
    """What drives membership leakage.

    Attributes:
        config: what was run.
        n_records: records in the dataset.
        figures: number of the figure -> its results.
        shuffled: the control, one entry per training-set size; empty without figure 1.
        network: the network beside the regression; empty without figures 1 and 2.
        limits: the limits of Theorem 3; None: not run.
        privacy: the Gaussian mechanism; None: not run.
        regularizer: leakage as a regularizer; None: not run.
        theory: the publication's formulas, evaluated where a number decides.
        checks: statements about all of this, with their outcome.
    """

    config: LeakageConfig
    n_records: int
    figures: Mapping[int, FigureResults]
    shuffled: tuple[Control, ...]
    network: tuple[Compared, ...]
    limits: Limits | None
    privacy: Privacy | None
    regularizer: Regularized | None
    theory: Theory
    checks: tuple[Check, ...]
