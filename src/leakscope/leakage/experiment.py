"""The membership experiment: what an adversary gains from the trainings of one record.

Yeom et al. (2018): train, flip b, give the adversary a member (b = 1) or a non-member, and let it guess. Its
advantage is `|2 P(correct) - 1|`; for one record that is `|P(says member | in) - P(says member | out)|`.
Three adversaries are measured:

- The threshold adversary says "member" when the squared error on the record is at most the mean training
  loss. That mean is over the record's trainings, IN and OUT alike, so the adversary is a function of the
  released model alone, and only then must its advantage stay below the total variation. (Yeom's adversary
  also knows each model's own training loss, which is a second release.)
- The likelihood-ratio adversary sees the parameters. Gaussians fitted to one half of the trainings judge the
  other half, so overfitting of the Gaussians does not inflate its advantage.
- The informed adversary also knows all other records of the training set, and the one that stands in for the
  record. It is the adversary that differential privacy is about: it knows both solutions, and says which of
  them is closer to the release.

The trainings are crossed. Two independent halves have K draws of other records each; each draw is trained on
with the record (IN) and with one more other record in its place (OUT). IN of one half and OUT of the other
are independent, as the law of the bias requires. IN and OUT of one draw share all but one of their records,
so the noise of the estimate and that of its null nearly cancel: for training sets much larger than p, the
corrected leakage is much more precise than with separate nulls, and so is the advantage.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

from leakscope.array_types import FloatArray
from leakscope.errors import InputError
from leakscope.leakage.bias import half_of
from leakscope.leakage.gaussian import Gaussian, fit, with_noise
from leakscope.leakage.neighbours import NOT_MEASURED, neighbour_leakage
from leakscope.leakage.rounding import NOT_COUNTED, counted_leakage, rounded

# Added to whitened variances, so that a direction that hardly varies in one fit gives a large, finite ratio.
_LEAST_VARIANCE = 1e-12


class Release(NamedTuple):
    """How parameters are released.

    Attributes:
        noise_sd: of Gaussian noise added to every parameter.
        noise: float (2, K, p), unit draws of it for what is simulated; None without noise.
        grid: step of the grid to which every parameter is rounded before noise is added; 0: exact parameters.
    """

    noise_sd: float = 0.0
    noise: FloatArray | None = None
    grid: float = 0.0


class Utility(NamedTuple):
    """How good the released models are, and what they were penalized by.

    Attributes:
        accuracy: share of records outside the training set on the correct side of the threshold; NaN:
            unknown.
        constant_accuracy: the same of a constant guess, the side of most of these records; NaN: unknown.
        squared_error: mean squared error over all records; NaN: unknown.
        penalty: float (p,), ridge weight of each parameter; empty where unknown.
    """

    accuracy: float = float("nan")
    constant_accuracy: float = float("nan")
    squared_error: float = float("nan")
    penalty: FloatArray = np.empty(0)


class Experiment(NamedTuple):
    """One record's experiment; or, stacked, many with a leading records axis.

    Attributes:
        inputs: float (p,), (1, x) of the record: the model's output on it is `inputs @ theta`.
        inside_mean: float (2, p), mean of each half's Gaussian fit with the record, noise included.
        inside_covariance: float (2, p, p), its covariance.
        outside_mean: float (2, p), mean of each half's fit without the record.
        outside_covariance: float (2, p, p), its covariance.
        advantage: of the threshold adversary, with its sign: below 0 when it is worse than guessing.
        advantage_error: its standard error over draws.
        likelihood_ratio: advantage of the likelihood-ratio adversary, with its sign.
        likelihood_ratio_error: its standard error.
        informed: advantage of the informed adversary, with its sign.
        informed_error: its standard error.
        largest_distance: between the solutions with and without the record, over draws.
        neighbours: symmetric KL divergence of the outputs by nearest neighbors, in nats, before correction;
            NaN where it was not computed.
        neighbours_floor: the same between the halves of one condition.
        neighbours_if_gaussian: corrected estimate on draws from the fitted Gaussians.
        counted: symmetric KL divergence of rounded parameters from counts, in nats, before correction; NaN
            where parameters are not rounded or take too many values.
        counted_floor: the same between the halves of one condition.
        threshold: of the threshold adversary.
        accuracy: see `Utility`.
        constant_accuracy: see `Utility`.
        squared_error: see `Utility`.
        penalty: see `Utility`.
    """

    inputs: FloatArray
    inside_mean: FloatArray
    inside_covariance: FloatArray
    outside_mean: FloatArray
    outside_covariance: FloatArray
    advantage: FloatArray
    advantage_error: FloatArray
    likelihood_ratio: FloatArray
    likelihood_ratio_error: FloatArray
    informed: FloatArray
    informed_error: FloatArray
    largest_distance: FloatArray
    neighbours: FloatArray
    neighbours_floor: FloatArray
    neighbours_if_gaussian: FloatArray
    counted: FloatArray
    counted_floor: FloatArray
    threshold: FloatArray
    accuracy: FloatArray
    constant_accuracy: FloatArray
    squared_error: FloatArray
    penalty: FloatArray

    @property
    def inside(self) -> Gaussian:
        """Fits of the trainings with the record."""
        return Gaussian(self.inside_mean, self.inside_covariance)

    @property
    def outside(self) -> Gaussian:
        """Fits of the trainings without it."""
        return Gaussian(self.outside_mean, self.outside_covariance)


def experiment(
    inside: FloatArray,
    outside: FloatArray,
    inputs: FloatArray,
    target: float,
    threshold: float,
    release: Release = Release(),  # noqa: B008 - immutable
    with_neighbours: bool = False,
    utility: Utility = Utility(),  # noqa: B008 - immutable
) -> Experiment:
    """Everything about one record from its crossed trainings.

    Args:
        inside: float (2, K, p), parameters of both halves trained with the record.
        outside: float (2, K, p), the same draws without it.
        inputs: float (p,), (1, x) of the record.
        target: its y.
        threshold: largest squared error that looks like a member's.
        release: noise on the parameters, or rounding.
        with_neighbours: also estimate the leakage of the outputs by nearest neighbors.
        utility: how good the released models are.
    """
    _check(inside, outside)
    solutions = [rounded(side, release.grid) for side in (inside, outside)]
    fits = [with_noise(fit(side), release.noise_sd) for side in solutions]
    output_sd = release.noise_sd * float(np.linalg.norm(inputs))
    says_member = [below_threshold(side @ inputs - target, threshold, output_sd) for side in solutions]
    released = [_released(side, release) for side in solutions]
    ratio = [likelihood_ratio_votes(side, fits[0], fits[1]) for side in released]
    informed = [closer_to_first(side, solutions[0], solutions[1]) for side in released]
    outputs = [side @ inputs for side in released]
    neighbours = neighbour_leakage(outputs[0], outputs[1]) if with_neighbours else NOT_MEASURED
    counted = counted_leakage(solutions[0], solutions[1]) if release.grid else NOT_COUNTED
    distance = np.linalg.norm(solutions[0] - solutions[1], axis=-1).max()
    return Experiment(
        inputs, *fits[0], *fits[1], *_paired(*says_member), *_paired(*ratio), *_paired(*informed),
        *map(np.array, (distance, *neighbours, *counted, threshold, *utility)),
    )  # fmt: skip


def below_threshold(residual: FloatArray, threshold: float, noise_sd: float = 0.0) -> FloatArray:
    """P(squared error <= threshold) over Gaussian noise on the output; 0 or 1 without noise."""
    reach = np.sqrt(threshold)
    if noise_sd == 0:
        return np.asarray(np.abs(residual) <= reach, dtype=np.float64)
    return np.asarray(
        scipy.special.ndtr((reach - residual) / noise_sd) - scipy.special.ndtr((-reach - residual) / noise_sd)
    )


def likelihood_ratio_votes(theta: FloatArray, inside: Gaussian, outside: Gaussian) -> FloatArray:
    """1 where "in" is more likely by the other half's Gaussians, 0 where "out" is, 1/2 for ties; (2, K)."""
    ratio = np.stack([_log_ratio(theta[half], half_of(inside, 1 - half), half_of(outside, 1 - half))
                      for half in (0, 1)])  # fmt: skip
    return (np.sign(ratio) + 1) / 2


def closer_to_first(released: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
    """1 where a release (..., p) is closer to the first solution, 0 to the second, 1/2 for ties; (...)."""
    gap = first - second
    side = np.einsum("...p,...p->...", released - (first + second) / 2, gap)
    return (np.sign(np.where(np.abs(gap).max(axis=-1) > 0, side, 0.0)) + 1) / 2


def pooled(halves: Gaussian, n_trainings: int) -> Gaussian:
    """The fit of both halves together, from the two fits of `n_trainings` each."""
    first, second = half_of(halves, 0), half_of(halves, 1)
    gap = (first.mean - second.mean)[..., None]
    scatter = (n_trainings - 1) * (first.covariance + second.covariance)
    scatter = scatter + n_trainings / 2 * (gap @ np.swapaxes(gap, -1, -2))
    return Gaussian((first.mean + second.mean) / 2, scatter / (2 * n_trainings - 1))


def at_output(g: Gaussian, inputs: FloatArray) -> Gaussian:
    """Gaussians of the model's output `inputs @ theta`, all that a black-box attacker sees; p = 1."""
    mean = np.einsum("...p,...p->...", g.mean, inputs)
    variance = np.einsum("...p,...pq,...q->...", inputs, g.covariance, inputs)
    return Gaussian(mean[..., None], variance[..., None, None])


def stacked(records: list[Experiment]) -> Experiment:
    """Experiments of many records as one; the leading axis is records."""
    return Experiment(*(np.stack(values) for values in zip(*records, strict=True)))


def _released(theta: FloatArray, release: Release) -> FloatArray:
    return theta if release.noise is None else theta + release.noise_sd * release.noise


def _paired(inside: FloatArray, outside: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean difference over draws, each trained with and without the record, and its standard error."""
    difference = (inside - outside).reshape(-1)
    return difference.mean(), difference.std(ddof=1) / np.sqrt(difference.size)


def _log_ratio(theta: FloatArray, inside: Gaussian, outside: Gaussian) -> FloatArray:
    """ln(p_in / p_out) of (K, p) parameters; in units of their spread, so that nothing underflows."""
    centre = (inside.mean + outside.mean) / 2
    sd = np.sqrt((np.diagonal(inside.covariance) + np.diagonal(outside.covariance)) / 2)
    unit = np.where(sd > 0, sd, 1.0)
    z = (theta - centre) / unit
    log_density: list[FloatArray] = []
    for g in (inside, outside):
        covariance = g.covariance / np.outer(unit, unit) + _LEAST_VARIANCE * np.eye(len(unit))
        centred = z - (g.mean - centre) / unit
        distance = np.einsum("kp,pk->k", centred, np.linalg.solve(covariance, centred.T))
        log_density.append(-(distance + np.linalg.slogdet(covariance)[1]) / 2)
    return log_density[0] - log_density[1]


def _check(inside: FloatArray, outside: FloatArray) -> None:
    if inside.ndim != 3 or inside.shape[0] != 2 or inside.shape != outside.shape:
        raise InputError(f"inside {inside.shape} and outside {outside.shape}: must both be (2, K, p)")
