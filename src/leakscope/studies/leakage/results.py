"""The results of the leakage study: everything results.json holds, typed.

Leakage is in nats, mutual information in bits. Means, medians and their 95% intervals are over records, which
are resampled whole. An undefined figure is None, and a reason stands beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leakscope.studies.leakage.config import LeakageConfig


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
    reason: str
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
        analytic_floor: p(p+3)/K, the bias of Gaussian parameters; None with added noise, where it does not
            hold, and at finite precision.
    """

    uncorrected: float | None
    floor: float | None
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
class BoundChain:
    """Measured advantages and bounds on them: means over records, and records that violate an inequality.

    Attributes:
        advantage: of the threshold adversary.
        likelihood_ratio: advantage of the likelihood-ratio adversary.
        total_variation: of the fitted Gaussians; no adversary can exceed it if they are right.
        total_variation_error: its numerical error.
        pinsker: sqrt(KL / 2), clipped at 1.
        bretagnolle_huber: sqrt(1 - exp(-KL)).
        farokhi_kaafar: sqrt(rho_KL) / 2, clipped at 1.
        advantage_beyond: records whose advantage exceeds the total variation by more than its errors.
        likelihood_ratio_beyond: records whose likelihood-ratio advantage does.
        total_variation_beyond: records whose total variation exceeds the smaller of the next two bounds.
        tightest_beyond_farokhi_kaafar: records for which that smaller bound exceeds the last one.
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
    total_variation_beyond: int
    tightest_beyond_farokhi_kaafar: int


@dataclass(frozen=True)
class OutputLeakage:
    """Leakage of the model's output on the record, in nats: by Gaussians, and for some records by neighbors.

    Attributes:
        rho_kl: mean over records, by Gaussians.
        records: number of records with a nearest-neighbor estimate.
        gaussian: mean over these records, by Gaussians; None: not compared.
        nearest_neighbour: mean over these records, by nearest neighbors.
        relative_difference: of the nearest-neighbor estimate from the Gaussian one, mean over these records.
        relative_difference_half_width: half of its 95% interval.
        is_poor: whether the Gaussian fit is poor.
        reason: why there is no comparison; empty otherwise.
    """

    rho_kl: float | None
    records: int
    gaussian: float | None
    nearest_neighbour: float | None
    relative_difference: float | None
    relative_difference_half_width: float | None
    is_poor: bool | None
    reason: str


@dataclass(frozen=True)
class Information:
    """rho_MI, mutual information between a record's presence and the parameters, in bits.

    Attributes:
        mean: over records.
        error: numerical error, mean over records.
        beyond_quarter_rho_kl: records for which it exceeds a quarter of rho_KL by more than its error.
    """

    mean: float
    error: float
    beyond_quarter_rho_kl: int


@dataclass(frozen=True)
class Point:
    """One point of a figure.

    Attributes:
        value: the varied quantity.
        parameters: p, number of parameters (for the network, its one output).
        trials: K, trainings with and without a record in each of two halves.
        rho_kl: leakage of the parameters.
        advantage: of the threshold adversary.
        chain: measured advantages and their bounds.
        output: leakage of the output on the record.
        rho_mi_bits: mutual information.
        rho_kl_finite_precision: leakage of parameters rounded to a grid; None except in figure 3.
    """

    value: float
    parameters: int
    trials: int
    rho_kl: Leakage
    advantage: Advantage
    chain: BoundChain
    output: OutputLeakage
    rho_mi_bits: Information
    rho_kl_finite_precision: Leakage | None


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
    reason: str


@dataclass(frozen=True)
class Trends:
    """Trends of one figure. In figure 3 leakage is that at finite precision.

    Attributes:
        leakage: of the mean over records.
        median_leakage: of the median over records.
        median_advantage: of the threshold adversary's median advantage.
    """

    leakage: Trend
    median_leakage: Trend
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
    reason: str


@dataclass(frozen=True)
class Check:
    """A claim that must hold.

    Attributes:
        claim: in words.
        holds: None: cannot be decided.
        detail: the numbers behind it.
    """

    claim: str
    holds: bool | None
    detail: str


@dataclass(frozen=True)
class LeakageResults:
    """What drives membership leakage.

    Attributes:
        config: what was run.
        figures: number of the figure -> its results.
        shuffled: the control, one entry per training-set size; empty without figure 1.
        checks: what must hold.
    """

    config: LeakageConfig
    figures: Mapping[int, FigureResults]
    shuffled: tuple[Control, ...]
    checks: tuple[Check, ...]
