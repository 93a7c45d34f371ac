"""The results of the leakage study's extensions: limits, private noise, regularizer, formulas; typed.

Leakage is in nats. Intervals are 95% intervals over records. An undefined figure is None, and a reason stands
beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

from leakscope.types import Prose


@dataclass(frozen=True)
class LimitPoint:
    """One loss of a family, with parameters rounded to the grid.

    Attributes:
        value: the varied quantity: factor of the loss, or clip norm.
        sensitivity: S, largest norm of the loss's gradient over records and over a ball of parameters; it is
            also the smallest Lipschitz constant L there.
        leakage: rho_KL of the rounded parameters, mean over records; None: undefined.
        leakage_low: lower end of its interval.
        leakage_high: upper end of its interval.
        method: how the leakage is estimated: "counts" or "Gaussian fit".
        likelihood_ratio: advantage of the likelihood-ratio adversary, mean over records.
        informed: advantage of the adversary who knows all other records, mean over records.
        reason: why the leakage or its interval is undefined, or which records are excluded; empty otherwise.
    """

    value: float
    sensitivity: float
    leakage: float | None
    leakage_low: float | None
    leakage_high: float | None
    method: Prose
    likelihood_ratio: float
    informed: float
    reason: Prose


@dataclass(frozen=True)
class Limits:
    """Two families of losses whose Lipschitz constant goes to 0.

    Attributes:
        radius: of the ball of parameters; it contains every solution.
        loss_scale: the loss times a constant.
        clipping: inputs clipped to a norm.
    """

    radius: float
    loss_scale: tuple[LimitPoint, ...]
    clipping: tuple[LimitPoint, ...]


@dataclass(frozen=True)
class PrivatePoint:
    """The Gaussian mechanism at one epsilon, and what was measured beside what differential privacy bounds.

    Attributes:
        epsilon: of the mechanism; None: no noise.
        sigma: standard deviation of the noise on every parameter.
        mu: sensitivity / sigma: the mechanism is mu-GDP; None: no noise.
        leakage: rho_KL by Gaussian fits, mean over records; None: undefined.
        leakage_low: lower end of its interval.
        leakage_high: upper end of its interval.
        leakage_bound: mu squared, which no rho_KL of this mechanism exceeds; None: no noise, no bound.
        threshold: advantage of the threshold adversary, mean of its absolute value over records.
        likelihood_ratio: advantage of the likelihood-ratio adversary, mean over records.
        informed: advantage of the adversary who knows all other records, mean over records.
        informed_error: standard error of that mean over trainings.
        worst_pair: advantage against the worst pair of training sets that a search found, in closed form.
        largest_measured: largest advantage of any adversary on any record.
        largest_measured_low: its lower end, one-sided, at 95% for all records and adversaries of the point
            together.
        advantage_bound: (e^epsilon - 1 + 2 delta) / (e^epsilon + 1), which no advantage exceeds.
        gaussian_bound: 2 Phi(mu / 2) - 1, which no advantage exceeds under Gaussian noise; at most the
            former.
        beyond: records and adversaries whose advantage exceeds `gaussian_bound` by more than their errors.
        accuracy: of the released models outside their training sets.
        squared_error: of the released models.
    """

    epsilon: float | None
    sigma: float
    mu: float | None
    leakage: float | None
    leakage_low: float | None
    leakage_high: float | None
    leakage_bound: float | None
    threshold: float
    likelihood_ratio: float
    informed: float
    informed_error: float
    worst_pair: float
    largest_measured: float
    largest_measured_low: float
    advantage_bound: float
    gaussian_bound: float
    beyond: int
    accuracy: float
    squared_error: float


@dataclass(frozen=True)
class Privacy:
    """Ridge regression with clipped records under the Gaussian mechanism.

    Attributes:
        size: records in a training set.
        weight: ridge weight.
        norm: clip norm of a record's inputs.
        delta: of the mechanism.
        sensitivity: largest distance between the solutions of neighboring training sets, proved.
        worst_pair: distance that a search found.
        largest_distance: distance that the trainings of this study reached.
        constant_accuracy: accuracy of guessing the class of most records, on the records that `accuracy` of
            the points is measured on.
        analytic: one point per epsilon, smallest first, then without noise.
        classical: the classical calibration, where it is proved.
    """

    size: int
    weight: float
    norm: float
    delta: float
    sensitivity: float
    worst_pair: float
    largest_distance: float
    constant_accuracy: float
    analytic: tuple[PrivatePoint, ...]
    classical: tuple[PrivatePoint, ...]


@dataclass(frozen=True)
class Tradeoff:
    """Error and leakage of one way to penalize.

    Attributes:
        value: ridge weight, factor, or strength of the leakage penalty.
        penalty: ridge weight of each parameter, intercept first.
        squared_error: over all records, mean over trainings.
        accuracy: outside the training sets.
        leakage: rho_KL, mean over records; None: undefined.
        likelihood_ratio: advantage of the likelihood-ratio adversary, mean over records.
    """

    value: float
    penalty: tuple[float, ...]
    squared_error: float
    accuracy: float
    leakage: float | None
    likelihood_ratio: float


@dataclass(frozen=True)
class AtSameError:
    """A leakage penalty beside ridge of the same error.

    Attributes:
        strength: of the leakage penalty.
        baseline: "plain ridge", or "weights chosen for the error".
        is_error_reached: whether the baseline reaches this error; if not, it is compared at its least error,
            which is higher.
        baseline_value: its ridge weight or factor.
        baseline_error: its squared error.
        leakage: difference of rho_KL from the baseline, mean over records: below 0, the penalty leaks less.
        leakage_low: lower end of its interval.
        leakage_high: upper end of its interval.
        likelihood_ratio: difference of the likelihood-ratio adversary's advantage.
        likelihood_ratio_low: lower end of its interval.
        likelihood_ratio_high: upper end of its interval.
        reason: why something is undefined; empty otherwise.
    """

    strength: float
    baseline: str
    is_error_reached: bool
    baseline_value: float
    baseline_error: float
    leakage: float | None
    leakage_low: float | None
    leakage_high: float | None
    likelihood_ratio: float | None
    likelihood_ratio_low: float | None
    likelihood_ratio_high: float | None
    reason: Prose


@dataclass(frozen=True)
class Regularized:
    """Leakage as a regularizer, beside ridge of the same error.

    Attributes:
        size: records in a training set.
        plain: plain ridge, by weight.
        scaled: weights chosen for the error alone, by factor.
        penalized: weights chosen for error plus leakage, by strength.
        comparisons: each strength against each baseline.
    """

    size: int
    plain: tuple[Tradeoff, ...]
    scaled: tuple[Tradeoff, ...]
    penalized: tuple[Tradeoff, ...]
    comparisons: tuple[AtSameError, ...]


@dataclass(frozen=True)
class Theory:
    """The publication's formulas at points where a number decides.

    Attributes:
        printed_divergence: Remark 3's divergence of N(0, 4) from N(0, 1) as printed, in nats.
        corrected_divergence: the same with the trace term corrected.
        exact_divergence: the same by numerical integration.
        left_out_share: share of all sets of 3 of 10 records without a given one.
        printed_left_out_share: n / N, as printed.
        guess_correct: probability that a coin is right where the release reveals nothing.
        printed_success_limit: Theorem 1's limit on it as printed, sqrt(rho_KL) / 2.
        error_sum: smallest sum of the two error rates of a test between N(0, 1) and N(1, 1), by a search over
            thresholds.
        one_minus_variation: 1 minus the total variation of the two, which Le Cam's lemma says it is.
        kl_reduction_ratio: rho_KL removed by noise of sd 0.02 over that removed by sd 0.01, unit Gaussians
            one apart; 2 if linear in the sd, 4 if in its square.
        mi_reduction_ratio: the same of rho_MI.
        printed_slope: slope of the divergence of N(0, 4) from N(0, 1) in the variance of added noise, in
            nats, by the Fisher divergence as printed.
        exact_slope: the same slope by finite differences.
        leakage_by_size: rho_MI in bits of the rounded mean of 3 and of 4 of 20 records, at the prior n/N.
        leakage_by_weight: the same of 4 records with ridge weights 0 and 0.5.
        neighbours_counted: pairs of different sets of 3 of 6 records whose indicators differ in at most one
            place.
        replaced_pairs: pairs that differ in two places: one record replaced.
        classical_delta_below_one: exact delta of the classical calibration for delta = 1e-5 at epsilon = 0.5.
        classical_delta_above_one: the same at epsilon = 16.
        lipschitz_found: largest difference quotient of a clipped squared loss that a search found.
        lipschitz_sensitivity: S of the same loss.
        estimation_error: root mean squared error of the corrected Gaussian estimate at 100, 400 and 1,600
            trainings.
    """

    printed_divergence: float
    corrected_divergence: float
    exact_divergence: float
    left_out_share: float
    printed_left_out_share: float
    guess_correct: float
    printed_success_limit: float
    error_sum: float
    one_minus_variation: float
    kl_reduction_ratio: float
    mi_reduction_ratio: float
    printed_slope: float
    exact_slope: float
    leakage_by_size: tuple[float, ...]
    leakage_by_weight: tuple[float, ...]
    neighbours_counted: int
    replaced_pairs: int
    classical_delta_below_one: float
    classical_delta_above_one: float
    lipschitz_found: float
    lipschitz_sensitivity: float
    estimation_error: tuple[float, ...]


@dataclass(frozen=True)
class Compared:
    """The network beside the regression, on the same records and training-set size.

    Attributes:
        n: records in a training set.
        records: number of records that both have.
        advantage: threshold adversary's advantage against the network minus that against the regression, mean
            over records.
        advantage_half_width: half of its 95% interval (Student's); None: fewer than two records.
        neighbours: the same difference of the output's leakage by nearest neighbors, in nats; None: not
            measured.
        neighbours_half_width: half of its 95% interval.
        reason: why something is undefined; empty otherwise.
    """

    n: float
    records: int
    advantage: float
    advantage_half_width: float | None
    neighbours: float | None
    neighbours_half_width: float | None
    reason: Prose
