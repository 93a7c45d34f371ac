"""The membership experiment: what an adversary gains, and what the trainings of one record leak.

Yeom et al. (2018): train, flip b, show the adversary a member (b = 1) or a non-member, and let it guess;
its advantage is `|2 P(right) - 1|`. For one record that is `|P(says member | in) - P(says member | out)|`.
Two adversaries are measured:

- the threshold adversary: "member" when the squared error on the record is at most the mean training loss.
  That mean is taken over the record's trainings, IN and OUT alike, which makes the adversary a function of
  the released model alone: only then must its advantage stay below the total variation. (Yeom's is told
  each model's own training loss, which is a second thing to be released.)
- the likelihood-ratio adversary, who sees the parameters: Gaussians fitted to one half of the trainings
  judge the other half, so that its advantage is not flattered by the fit.

The trainings are crossed: two independent halves a and b of K draws of other records each; a draw is
trained on with the record (IN) and with one more other in its place (OUT). IN of one half against OUT of the
other are independent, as the bias law requires, and IN a against IN b, OUT a against OUT b are two nulls with
the same K, tails and noise. Because IN a and OUT a share all but one of their records, the noise
of the estimate and that of its null are nearly the same and cancel: far from p the corrected leakage is much
more precise than with separate nulls. The same pairing makes the advantage precise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special

from leakscope.array_types import FloatArray
from leakscope.errors import InputError
from leakscope.leakage.gaussian import Gaussian, fit, symmetric_kl, with_noise
from leakscope.leakage.nearest_neighbour import kl_nearest_neighbour

_NEIGHBOUR = 5
_LEAST_TRIALS = 50  # below, neighbours are too far away to tell anything
# Added to whitened variances, so that a direction that hardly varies in one fit gives a large, finite ratio.
_LEAST_VARIANCE = 1e-12

Divergence = Callable[[Gaussian, Gaussian], FloatArray]


class Release(NamedTuple):
    """How parameters leave the house.

    Attributes:
        noise_sd: of Gaussian noise added to every parameter.
        noise: float (2, K, p), unit draws of it for what is simulated; None without noise.
    """

    noise_sd: float = 0.0
    noise: FloatArray | None = None


class Experiment(NamedTuple):
    """One record's experiment; or, stacked, many with a leading records axis.

    Attributes:
        inputs: float (p,), (1, x) of the record: the model's answer about it is `inputs @ theta`.
        inside_mean: float (2, p), of each half's Gaussian fit, noise included; so the next three.
        inside_covariance: float (2, p, p).
        outside_mean: float (2, p).
        outside_covariance: float (2, p, p).
        advantage: of the threshold adversary, with its sign: below 0 when it is worse than guessing.
        advantage_error: its standard error over draws.
        likelihood_ratio: advantage of the likelihood-ratio adversary, with its sign.
        likelihood_ratio_error: its standard error.
        nearest_neighbour: symmetric KL of the answers by nearest neighbours, null taken off; nats;
            NaN where it was not asked for or K is too small.
        threshold: of the threshold adversary.
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
    nearest_neighbour: FloatArray
    threshold: FloatArray

    @property
    def inside(self) -> Gaussian:
        """Fits of the trainings with the record."""
        return Gaussian(self.inside_mean, self.inside_covariance)

    @property
    def outside(self) -> Gaussian:
        """Fits of those without."""
        return Gaussian(self.outside_mean, self.outside_covariance)


class Crossed(NamedTuple):
    """A divergence from crossed trainings: before correction, its null, and the difference; (...) each."""

    plug_in: FloatArray
    floor: FloatArray
    corrected: FloatArray


def experiment(
    inside: FloatArray,
    outside: FloatArray,
    inputs: FloatArray,
    target: float,
    threshold: float,
    release: Release = Release(),  # noqa: B008 - immutable
    with_neighbours: bool = False,
) -> Experiment:
    """Everything about one record from its crossed trainings.

    Args:
        inside: float (2, K, p), parameters of both halves trained with the record.
        outside: float (2, K, p), the same draws without it.
        inputs: float (p,), (1, x) of the record.
        target: its y.
        threshold: largest squared error that looks like a member's.
        release: noise on the parameters.
        with_neighbours: estimate the leakage of the answers by nearest neighbours too.
    """
    _check(inside, outside)
    fits = [with_noise(fit(side), release.noise_sd) for side in (inside, outside)]
    answer_sd = release.noise_sd * float(np.linalg.norm(inputs))
    says_member = [
        below_threshold(side @ inputs - target, threshold, answer_sd) for side in (inside, outside)
    ]
    released = [_released(side, release) for side in (inside, outside)]
    ratio = [likelihood_ratio_votes(side, fits[0], fits[1]) for side in released]
    answers = [side @ inputs for side in released]
    neighbours = _neighbours(answers[0], answers[1]) if with_neighbours else np.nan
    return Experiment(
        inputs, *fits[0], *fits[1], *_paired(*says_member), *_paired(*ratio),
        np.array(neighbours), np.array(threshold),
    )  # fmt: skip


def below_threshold(residual: FloatArray, threshold: float, noise_sd: float = 0.0) -> FloatArray:
    """P(squared error <= threshold) over Gaussian noise on the answer, in closed form; 0 or 1 without.

    Args:
        residual: answer minus target, without the noise; (...).
        threshold: of the squared error.
        noise_sd: of the answer.
    """
    reach = np.sqrt(threshold)
    if noise_sd == 0:
        return np.asarray(np.abs(residual) <= reach, dtype=np.float64)
    return np.asarray(
        special.ndtr((reach - residual) / noise_sd) - special.ndtr((-reach - residual) / noise_sd)
    )


def likelihood_ratio_votes(theta: FloatArray, inside: Gaussian, outside: Gaussian) -> FloatArray:
    """1 where the other half's Gaussians find "in" more likely, 0 where "out", 1/2 where neither; (2, K).

    Args:
        theta: float (2, K, p), what is judged.
        inside: fits of both halves, leading axis 2.
        outside: fits of both halves.
    """
    ratio = np.stack([_log_ratio(theta[half], _half(inside, 1 - half), _half(outside, 1 - half))
                      for half in (0, 1)])  # fmt: skip
    return (np.sign(ratio) + 1) / 2


def crossed(inside: Gaussian, outside: Gaussian, divergence: Divergence = symmetric_kl) -> Crossed:
    """A divergence of crossed trainings with its null taken off; the axis before the last of means is 2.

    No factor undoes that inverses of sample covariances are too large: at K trainings a half the
    corrected symmetric KL is (K-1)/(K-p-2) times the truth.
    """
    estimate = (
        divergence(_half(inside, 0), _half(outside, 1)),
        divergence(_half(inside, 1), _half(outside, 0)),
    )
    null = (divergence(_half(inside, 0), _half(inside, 1)), divergence(_half(outside, 0), _half(outside, 1)))
    plug_in, floor = (estimate[0] + estimate[1]) / 2, (null[0] + null[1]) / 2
    is_certain = np.isinf(plug_in) | np.isinf(floor)
    difference = np.subtract(plug_in, floor, out=np.full_like(plug_in, np.inf), where=~is_certain)
    return Crossed(plug_in, floor, difference)


def pooled(halves: Gaussian, n_trainings: int) -> Gaussian:
    """The fit of both halves together, from the two fits of `n_trainings` each."""
    first, second = _half(halves, 0), _half(halves, 1)
    gap = (first.mean - second.mean)[..., None]
    scatter = (n_trainings - 1) * (first.covariance + second.covariance)
    scatter = scatter + n_trainings / 2 * (gap @ np.swapaxes(gap, -1, -2))
    return Gaussian((first.mean + second.mean) / 2, scatter / (2 * n_trainings - 1))


def at_answer(g: Gaussian, inputs: FloatArray) -> Gaussian:
    """Of the model's answer `inputs @ theta`, which is what somebody sees who may only ask; p = 1.

    Args:
        g: Gaussians of parameters, mean (..., p).
        inputs: float (..., p), leading axes that broadcast with those of `g`.
    """
    mean = np.einsum("...p,...p->...", g.mean, inputs)
    variance = np.einsum("...p,...pq,...q->...", inputs, g.covariance, inputs)
    return Gaussian(mean[..., None], variance[..., None, None])


def stacked(records: list[Experiment]) -> Experiment:
    """Many records' experiments as one, records first."""
    return Experiment(*(np.stack(values) for values in zip(*records, strict=True)))


def _released(theta: FloatArray, release: Release) -> FloatArray:
    return theta if release.noise is None else theta + release.noise_sd * release.noise


def _half(g: Gaussian, half: int) -> Gaussian:
    return Gaussian(g.mean[..., half, :], g.covariance[..., half, :, :])


def _paired(inside: FloatArray, outside: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean difference over draws, each trained on both ways, and its standard error."""
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


def _neighbours(inside: FloatArray, outside: FloatArray) -> float:
    """Crossed symmetric KL of answers (2, K) by nearest neighbours; NaN where K is too small for it."""
    if inside.shape[1] < _LEAST_TRIALS:
        return float("nan")
    both = [(inside[0], outside[1]), (inside[1], outside[0])]
    null = [(inside[0], inside[1]), (outside[0], outside[1])]
    return (_both_ways(both) - _both_ways(null)) / 2


def _both_ways(pairs: list[tuple[FloatArray, FloatArray]]) -> float:
    ordered = [*pairs, *(pair[::-1] for pair in pairs)]
    return float(sum(kl_nearest_neighbour(a[:, None], b[:, None], _NEIGHBOUR) for a, b in ordered))


def _check(inside: FloatArray, outside: FloatArray) -> None:
    if inside.ndim != 3 or inside.shape[0] != 2 or inside.shape != outside.shape:
        raise InputError(f"inside {inside.shape} and outside {outside.shape}: must both be (2, K, p)")
