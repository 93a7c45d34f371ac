"""How many bits a model's output on a record reveals about its membership, for any bank.

The output (one signal at one checkpoint) has one distribution over models that saw the record and one over
models that did not. `moderation` fits a Gaussian to each, however few the models. These two give

- `bits`: the mutual information between output and membership at equal priors, at most 1 bit;
- `rho_kl`: the sum of both Kullback-Leibler divergences, in bits; at least four times `bits`;
- `total_variation`: of the two Gaussians; the largest advantage of an attacker who sees this output alone, if
  they are right. An attacker can exceed it where they are not.

This is black-box leakage: by data processing, it is at most the leakage of the parameters.

Fits from few models mistake noise for leakage. So everything is computed again with the design permuted over
models, where the truth is 0. The mean there, as a trend over how easy records are, is the floor F. Reported
are `(bits - F) / (1 - F)`, which is 0 on average without leakage and leaves a whole bit whole, and
`rho_kl - F`. Both may be slightly below 0 for one record, which means that no leakage was detected. The
total variation grows with the root of a small rho_kl, so it is multiplied by `sqrt(1 - F / rho_kl)` (0 below
the floor), which errs on the high side.

Intervals are for *these records* (other models trained on random halves of them) and for *records like these*
(another sample of records as well). The variance of a mean over records is known from two sides:

- that under permuted designs, which is exact where nothing leaks, and too large where much does, because
  models then differ by their members;
- a delete-a-group jackknife, which is right where much leaks. Elsewhere it is many times too large (9 times
  with 8 models), as fits without a model differ in more than that model's share.

What exceeds the jackknife of permuted designs is due to leakage, and is added to the first. The truth lies
between this sum and the jackknife (or is the jackknife, where it is smaller). The interval has the product of
both, the jackknife with an exponent of 1/3 where nothing leaks that rises to 1 at half a bit.
Another sample adds the scatter of records that the jackknife has not counted, and changes all models at once:
by a part of the variance of a single model, but at most by the leakage divided by the root of the number of
records (`leakscope.stats.two_way` has the reasons).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.disk.scratch import gather_records, over_blocks
from leakscope.errors import InputError
from leakscope.leakage.inequalities import information_on_one_axis, variation_on_one_axis
from leakscope.leakage.moderation import (
    Moderated,
    Moments,
    Prior,
    fit_prior,
    moderate,
    moments,
    why_not_gaussian,
    why_too_few,
)
from leakscope.leakage.permuted import partners, random_order
from leakscope.leakage.trends import Posterior, Trend, quantile_bins, trend_with_mean
from leakscope.stats.estimate import TwoEstimates
from leakscope.stats.side_sums import resolution_variance

MOST_EXPOSED_SHARE = 0.01
MEASURES = ("bits", "rho_kl", "total_variation")

_FITTED_RECORDS = 8_192
_LEAST_PERMUTATIONS, _MOST_PERMUTATIONS = 8, 32
_MOST_GROUPS = 16
_JACKKNIFED_PERMUTATIONS, _JACKKNIFED_RECORDS = 3, 1_024
_SHARE_OF_RECORDS = 1 / 6  # of what models differ in, due to single training records
_LEAST_TRUST, _MUCH_LEAKAGE = 1 / 3, 0.5  # in the jackknife where nothing leaks; bits from which it is full
# Models. The variance without leakage comes from other orders of the models. 4 models have 24, which differ
# little where members are few: benchmarks/bits_without_leakage.py --intervals counts what follows.
_LEAST_FOR_INTERVAL = 6
_HIGHEST_FLOOR = 0.9  # limits the factor 1 / (1 - F); the most exposed are undefined beyond it
_LIMITS = (
    (-np.inf, 1.0),
    (-np.inf, np.inf),
    (0.0, 1.0),
    (-np.inf, 1.0),
)  # of the three means, and of the most exposed
_NOTHING = TwoEstimates(*[float("nan")] * 5)
_DECIMALS = 9
_QUADRATURE_NODES = 25  # fewer than the default, for millions of records
_NATS_PER_BIT = float(np.log(2))
# Gauss-Hermite with three nodes: exact for polynomials up to degree 5 of the gap under its posterior.
_NODES = ((-float(np.sqrt(3)), 1 / 6), (0.0, 2 / 3), (float(np.sqrt(3)), 1 / 6))


@dataclass(frozen=True, eq=False)
class RecordBits:
    """Leakage of each record and of all; NaN throughout where undefined, and `reason` says why.

    Attributes:
        bits: float64 (records,), mutual information, floor subtracted.
        rho_kl: float64 (records,), in bits, floor subtracted.
        total_variation: float64 (records,), of the fitted Gaussians, in [0, 1].
        means: measure -> its mean over records.
        most_exposed: mean `bits` of the 1% of records (at least one) with the most, corrected for selecting
            the highest, as measured under permuted designs.
        floor: mean `bits` under permuted designs.
        reason: why there are no figures, or no interval; empty otherwise.
        reason_of_most_exposed: why only `most_exposed` is undefined; empty otherwise.
    """

    bits: FloatArray
    rho_kl: FloatArray
    total_variation: FloatArray
    means: dict[str, TwoEstimates]
    most_exposed: TwoEstimates
    floor: float
    reason: str = ""
    reason_of_most_exposed: str = ""

    @property
    def is_undefined(self) -> bool:
        """True where there are no figures at all."""
        return bool(np.isnan(self.floor))


def bits_per_record(
    values: AnyArray, in_mask: BoolArray, seed: int = 0, has_steps: bool = True
) -> RecordBits:
    """Bits that one signal reveals about each record's membership.

    O(models x records), in blocks of records; prior, floor and intervals come from at most 8,192 of them.

    Args:
        values: float (models, records), one signal at one checkpoint.
        in_mask: bool (models, records).
        seed: of the sample of records and of the permutations.
        has_steps: equal values mean that the signal is coarse; false: that models agree exactly.
    """
    if values.ndim != 2 or values.shape != in_mask.shape:
        raise InputError(f"values {values.shape} and in_mask {in_mask.shape}: must both be (models, records)")
    n_bad = sum(over_blocks(values.shape[1], lambda at: _n_not_finite(values[:, at]), values))
    if n_bad:
        return _undefined(values.shape[1], f"{n_bad} records have infinite or undefined outputs")
    rng = np.random.default_rng(seed)
    sample = _sample(values, in_mask, rng, has_steps)
    reason = why_too_few(moments(sample.values, sample.in_mask)) or why_not_gaussian(
        sample.values, sample.in_mask, has_steps
    )
    if reason:
        return _undefined(values.shape[1], reason)
    null = _null(sample, rng)
    above_floor, floor = _by_block(values, in_mask, sample.prior(), null)
    figures = _figures(above_floor, null.most_exposed)
    half_widths = _half_widths(sample, null, rng, values.shape[1])
    limited = zip(figures, half_widths, _LIMITS, strict=True)
    *means, most_exposed = (_within(*one) for one in limited)
    by_chance = _why_chance_alone(null.most_exposed)
    return RecordBits(
        above_floor[0],
        above_floor[1],
        above_floor[2],
        means=dict(zip(MEASURES, means, strict=True)),
        most_exposed=_NOTHING if by_chance else most_exposed,
        floor=floor,
        reason=_why_no_interval(len(values)),
        reason_of_most_exposed=by_chance,
    )


def measures(fitted: Moderated) -> FloatArray:
    """bits, rho_kl (in bits) and total_variation, means over the gap's posterior; (3, records)."""
    # The root mean square stands for the log ratio, as leakage grows with its square.
    log_ratio = np.sqrt(fitted.log_ratio.mean**2 + fitted.log_ratio.variance)
    half_ratio = np.exp(np.copysign(log_ratio, fitted.log_ratio.mean) / 2)
    inside, outside = fitted.level * half_ratio, fitted.level / half_ratio
    information, distance = np.zeros_like(inside), np.zeros_like(inside)
    for node, weight in _NODES:
        gap = fitted.gap.mean + node * np.sqrt(fitted.gap.variance)
        information += weight * information_on_one_axis(gap, inside, outside, _QUADRATURE_NODES).value
        distance += weight * variation_on_one_axis(gap, inside, outside)
    squares = (fitted.gap.mean**2 + fitted.gap.variance) * (1 / inside + 1 / outside)
    rho_kl = np.cosh(log_ratio) - 1 + squares / 2
    return np.stack([information / _NATS_PER_BIT, rho_kl / _NATS_PER_BIT, distance])


def most_exposed_mean(bits: FloatArray) -> float:
    """Mean over the 1% of records (at least one) with the most bits."""
    n = n_most_exposed(len(bits))
    return float(np.partition(bits, -n)[-n:].mean())


def n_most_exposed(n_records: int) -> int:
    """How many records are the most exposed 1% (at least one)."""
    return max(round(MOST_EXPOSED_SHARE * n_records), 1)


class _Sample(NamedTuple):
    """The records to learn from: outputs (models, records) in float64, design, least variance."""

    values: FloatArray
    in_mask: BoolArray
    resolution: float
    partner: IntArray  # of each model, see `permuted`

    def permuted(self, rng: np.random.Generator) -> BoolArray:
        """The design with its rows in a random order."""
        return self.in_mask[random_order(self.partner, rng)]

    def prior(self) -> Prior:
        """The prior of all records."""
        return fit_prior(moments(self.values, self.in_mask), self.resolution)

    def moderated(self, in_mask: BoolArray, models: IntArray | slice = slice(None)) -> Moderated:
        """Their distributions under some design, from some models."""
        observed = moments(self.values[models], in_mask[models])
        return moderate(observed, fit_prior(observed, self.resolution))


class _Null(NamedTuple):
    """Figures under permuted designs: floors by centre, and their variance."""

    bits: Trend
    rho_kl: Trend
    most_exposed: float
    variance: FloatArray  # (4,), of the three means and of the most exposed, over permutations
    n: int

    def subtracted_from(self, raw: FloatArray, centre: FloatArray) -> FloatArray:
        """The three measures above their floors; (..., 3, records)."""
        bits, rho_kl, distance = np.moveaxis(raw, -2, 0)
        floor = np.minimum(self.bits.at(centre), _HIGHEST_FLOOR)
        above = rho_kl - self.rho_kl.at(centre)
        share = np.divide(np.maximum(above, 0.0), rho_kl, out=np.zeros_like(rho_kl), where=rho_kl > 0)
        corrected = np.stack([(bits - floor) / (1 - floor), above, distance * np.sqrt(share)], axis=-2)
        return corrected.round(_DECIMALS) + 0.0  # rounding of sums is no leakage; + 0.0 makes -0.0 equal 0.0


def _sample(values: AnyArray, in_mask: BoolArray, rng: np.random.Generator, has_steps: bool) -> _Sample:
    """A random sample of the records; all of them where they are few."""
    columns = np.arange(values.shape[1])
    if len(columns) > _FITTED_RECORDS:
        columns = np.sort(rng.choice(columns, _FITTED_RECORDS, replace=False))
    own, own_mask = gather_records(values, columns, 1).astype(np.float64), gather_records(in_mask, columns, 1)
    # Values in steps are like rounded ones, whose variance is step^2 / 12.
    return _Sample(own, own_mask, resolution_variance(own) / 12 if has_steps else 0.0, partners(own_mask))


def _null(sample: _Sample, rng: np.random.Generator) -> _Null:
    n_records = sample.in_mask.shape[1]
    n = int(np.clip(4 * _FITTED_RECORDS // n_records, _LEAST_PERMUTATIONS, _MOST_PERMUTATIONS))
    runs = _measures_of_each([sample.moderated(sample.permuted(rng)) for _ in range(n)])
    centre = sample.values.mean(axis=0)
    bins = quantile_bins(centre)
    floors = [trend_with_mean(level, centre, bins) for level in runs.mean(axis=0)[:2]]
    null = _Null(floors[0], floors[1], 0.0, np.zeros(4), n)
    figures = np.stack([_figures(run) for run in null.subtracted_from(runs, centre)])  # (permutations, 4)
    highest, variance = float(figures[:, -1].mean()), figures.var(axis=0, ddof=1)
    if highest <= _HIGHEST_FLOOR:
        variance[-1] /= (1 - highest) ** 2  # as that of figures above the floor
    return null._replace(most_exposed=highest, variance=variance)


def _measures_of_each(runs: Sequence[Moderated]) -> FloatArray:
    """The measures of several fits of the same records, at once; (runs, 3, records)."""
    gaps, log_ratios, levels = zip(*runs, strict=True)
    gap, log_ratio = (Posterior(*map(np.concatenate, zip(*one, strict=True))) for one in (gaps, log_ratios))
    joined = measures(Moderated(gap, log_ratio, np.concatenate(levels)))
    return joined.reshape(3, len(runs), -1).swapaxes(0, 1)


def _figures(above_floor: FloatArray, floor_of_highest: float = 0.0) -> FloatArray:
    """The three means, and the bits of the most exposed, corrected for selecting them; (4,)."""
    floor = min(floor_of_highest, _HIGHEST_FLOOR)
    highest = (most_exposed_mean(above_floor[0]) - floor) / (1 - floor)
    return np.array([*above_floor.mean(axis=1), highest])


def _within(value: float, half_widths: FloatArray, limits: tuple[float, float]) -> TwoEstimates:
    """Both intervals, clipped to the possible values; half widths for records like these, and for these."""
    of_others, of_these = half_widths
    ends = [value - of_others, value + of_others, value - of_these, value + of_these]
    return TwoEstimates(float(value), *np.clip(ends, *limits).tolist())


def _by_block(values: AnyArray, in_mask: BoolArray, prior: Prior, null: _Null) -> tuple[FloatArray, float]:
    """Measures of all records above their floors (3, records), and the mean floor of the first."""
    n_records = values.shape[1]
    above_floor = np.empty((3, n_records))

    def fill(columns: slice) -> float:
        own: Moments = moments(values[:, columns], in_mask[:, columns])
        above_floor[:, columns] = null.subtracted_from(measures(moderate(own, prior)), own.centre)
        return float(null.bits.at(own.centre).sum())

    floors = over_blocks(n_records, fill, values, in_mask)
    return above_floor, sum(floors) / n_records


def _why_no_interval(n_models: int) -> str:
    if n_models >= _LEAST_FOR_INTERVAL:
        return ""
    return f"not resolvable with {n_models} models; it takes at least {_LEAST_FOR_INTERVAL}"


def _why_chance_alone(floor_of_highest: float) -> str:
    if floor_of_highest <= _HIGHEST_FLOOR:
        return ""
    return f"by chance alone, they would seem to reveal {floor_of_highest:.2f} bits"


def _n_not_finite(values: AnyArray) -> int:
    """Number of records with an output that is infinite or NaN; `values` is (models, records)."""
    return int((~np.isfinite(values).all(axis=0)).sum())


class _Jackknife(NamedTuple):
    """What the figures are without each group of models.

    Attributes:
        variance: float64 (4,), of the three means and of the most exposed.
        apart: float64 (4,), of changes that are independent from record to record; 0 for the most exposed.
    """

    variance: FloatArray
    apart: FloatArray


def _half_widths(sample: _Sample, null: _Null, rng: np.random.Generator, n_records: int) -> FloatArray:
    """Half widths of the 95% intervals of the three means and of the most exposed; NaN with few models.

    Returns:
        float64 (4, 2), for records like these and for these.
    """
    n_models = len(sample.values)
    if n_models < _LEAST_FOR_INTERVAL:
        return np.full((4, 2), np.nan)
    group = rng.permutation(n_models) % min(n_models, _MOST_GROUPS)
    jackknife = _jackknife(sample, sample.in_mask, null, group)
    excess = np.maximum(jackknife.variance - _jackknife_without_leakage(sample, null, group, rng), 0.0)
    least = np.minimum(jackknife.variance, null.variance + excess)
    whole = null.subtracted_from(measures(sample.moderated(sample.in_mask)), sample.values.mean(axis=0))
    figures = _figures(whole, null.most_exposed)
    trust = _trust_in_jackknife(figures)
    of_these = least ** (1 - trust) * jackknife.variance**trust + null.variance / null.n
    share = whole.shape[1] / n_records  # of the records, in the sample
    scatter = share * np.append(whole.var(axis=1), 0.0) / whole.shape[1]
    of_records = np.maximum(scatter - share * jackknife.apart, 0.0)
    most_sampled = figures**2 / n_records
    sampled = np.minimum(_SHARE_OF_RECORDS * n_models * of_these, most_sampled)
    variances = np.stack([of_these + of_records + sampled, of_these], axis=1)
    half_widths: FloatArray = _quantile(n_models, null.n) * np.sqrt(variances)
    return half_widths


def _quantile(n_models: int, n_permutations: int) -> float:
    """Standard errors to either side of a mean; Student's where few numbers set its variance.

    With fewer models than groups, the product errs on the high side by more than Student's quantile would.
    Many records leave time for few permutations.
    """
    numbers = [_MOST_GROUPS] if n_models >= _MOST_GROUPS else []
    if n_permutations < _MOST_PERMUTATIONS:
        numbers.append(n_permutations)
    return float(scipy.special.stdtrit(min(numbers) - 1, 0.975) if numbers else scipy.special.ndtri(0.975))


def _trust_in_jackknife(figures: FloatArray) -> FloatArray:
    """Exponent of the jackknife, by how much leaks; (4,), of the three means and the most exposed."""
    leaked = np.clip(figures[[0, 0, 0, 3]] / _MUCH_LEAKAGE, 0.0, 1.0)
    trust: FloatArray = _LEAST_TRUST + (1 - _LEAST_TRUST) * leaked
    return trust


def _jackknife(sample: _Sample, in_mask: BoolArray, null: _Null, group: IntArray) -> _Jackknife:
    """Without each group of models, under some design."""
    n_groups, centre = int(group.max()) + 1, sample.values.mean(axis=0)
    runs = [sample.moderated(in_mask, np.flatnonzero(group != g)) for g in range(n_groups)]
    above_floor = null.subtracted_from(_measures_of_each(runs), centre)  # (groups, 3, records)
    figures = np.stack([_figures(run, null.most_exposed) for run in above_floor])
    apart = (n_groups - 1) * above_floor.var(axis=0).sum(axis=1) / above_floor.shape[2] ** 2
    return _Jackknife((n_groups - 1) * figures.var(axis=0), np.append(apart, 0.0))


def _jackknife_without_leakage(
    sample: _Sample, null: _Null, group: IntArray, rng: np.random.Generator
) -> FloatArray:
    """The mean jackknife variance of some permuted designs; (4,)."""
    n_records = sample.values.shape[1]
    some = sample
    if n_records > _JACKKNIFED_RECORDS:
        columns = rng.choice(n_records, _JACKKNIFED_RECORDS, replace=False)
        some = sample._replace(values=sample.values[:, columns], in_mask=sample.in_mask[:, columns])
    runs = [_jackknife(some, some.permuted(rng), null, group) for _ in range(_JACKKNIFED_PERMUTATIONS)]
    others = 1 - some.values.shape[1] / n_records  # fewer records average less of their own changes out
    variances: FloatArray = np.mean([own.variance - others * own.apart for own in runs], axis=0)
    return variances


def _undefined(n_records: int, reason: str) -> RecordBits:
    nothing, nan = np.full(n_records, np.nan), float("nan")
    return RecordBits(nothing, nothing, nothing, dict.fromkeys(MEASURES, _NOTHING), _NOTHING, nan, reason)
