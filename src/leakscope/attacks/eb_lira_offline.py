"""EB-LiRA without a single model that was trained with the record: `eb_lira(online=false)`.

The references give the law of a record's output when it was not in training (OUT), as in EB-LiRA: kinds of
records, and for each record the mean that its own references suggest. The law when it was (IN) comes from
the target itself. Its outputs on all records are a mixture: non-members follow the OUT law, which is known,
so what does not follow it shows how members differ. For each kind,

    s | OUT ~ N(level + mu_out, noise_out)
    s | IN  ~ N(shift + slope * mu_out, noise_in)

Shift, slope and noise of all kinds, the share of members and the target's level, which differs from 0 where
the references are unlike the target, are fitted to the target's outputs by expectation-maximization. Each
kind has the weight of a few pseudo-records that are shifted by as much as all members are, so kinds with few
members, or few records in all, follow the others.

In a regression the outputs are residuals with their sign, and a member's lie closer to 0: level and shift are
0, the slope is at most 1, and members scatter no more than others.

Nobody's membership is used, not even as a count: the share of members is estimated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.attacks.base import cross_fit_folds
from leakscope.attacks.blocks import Block, Blocks, equal_counts
from leakscope.attacks.label_fit import REGRESSION, LabelFit
from leakscope.disk.scratch import on_threads
from leakscope.errors import InputError
from leakscope.stats.record_types import fit_record_types
from leakscope.stats.side_sums import SideSums, resolution_variance, side_sums

_N_ROUNDS, _N_TRIAL_ROUNDS = 200, 10
_TOLERANCE = 1e-5  # the fit has converged when the mean log-likelihood per record gains less
_PSEUDO_RECORDS = 25.0
_FEWEST, _MOST = 0.05, 0.95  # share of members
_SMALLEST_GAP = 0.2  # between members and non-members, in standard deviations of the OUT law
_SMALLEST_NOISE = 1e-6
_MOST_FOLDS = 8
_SLOPES_TRIED = (0.1, 0.5)  # of residuals: the fit's starts
_SHARE_OF_NOISE = 0.5  # of the variance of residuals, where a record's single reference cannot tell


class OutKinds(NamedTuple):
    """The OUT law of the kinds of records; (types,) each."""

    weight: FloatArray
    mean: FloatArray
    covariance: FloatArray
    noise: FloatArray


class TargetLaw(NamedTuple):
    """How a target's output follows from the record's OUT mean.

    Attributes:
        level: what all non-members' outputs lie above the references'.
        shift: of members, by kind; (types,).
        slope: of members, by kind; (types,).
        noise: of members, by kind; (types,).
    """

    level: float
    shift: FloatArray
    slope: FloatArray
    noise: FloatArray


class OfflineFit(NamedTuple):
    """What the one target at `rows` is scored with."""

    rows: IntArray
    fit: LabelFit
    centre: float
    size: float
    kinds: OutKinds
    law: TargetLaw


class OutMeans(NamedTuple):
    """What its OUT references say about a record; (records, types) each."""

    mean: FloatArray
    variance: FloatArray
    log_weight: FloatArray


_Improvement = Callable[[OutKinds, OutMeans, FloatArray, TargetLaw, FloatArray, FloatArray], TargetLaw]


class _Sample(NamedTuple):
    """The records that are learned from; (models, records), partners (targets, records)."""

    values: FloatArray
    in_mask: BoolArray
    partners: IntArray | None


def offline_fits(blocks: Blocks, records: IntArray, n_types: int) -> list[OfflineFit]:
    """The OUT law per fold of models, and each target's law of members."""
    fit = LabelFit.to(blocks)
    sample = _sampled(blocks, fit, records)
    law_of = target_law if fit.noise_scale is None else law_of_residuals
    centre, size = _unit(sample.values, fit)
    sample = sample._replace(values=(sample.values - centre) / size)

    sums = _out_only(side_sums(sample.values, sample.in_mask))

    def fitted(fold: tuple[IntArray, IntArray]) -> list[OfflineFit]:
        kinds = _out_kinds(blocks, sample, records, fold, n_types, fit.noise_scale is not None)
        fits = []
        for target in np.unique(blocks.targets[fold[0]]):
            rows = fold[0][blocks.targets[fold[0]] == target]  # a model may be a target more than once
            partner = None if sample.partners is None else sample.partners[rows[0]]
            references = left_out_sums(sums, sample.values, sample.in_mask, target, partner)
            means = out_means(kinds, references)
            law = law_of(kinds, means, sample.values[target])
            fits.append(OfflineFit(rows, fit, centre, size, kinds, law))
        return fits

    folds = list(cross_fit_folds(blocks.design.n_models, blocks.targets, _MOST_FOLDS))
    return [one for fits in on_threads(fitted, folds, sample.values.size) for one in fits]


def offline_scores(block: Block) -> FloatArray:
    """Log ratio of the predictive densities of each target's output as IN and as OUT; (targets, records)."""
    scores = np.empty((len(block.targets), block.in_mask.shape[1]))
    fits: list[OfflineFit] = block.statistics
    values = (_values(block, fits[0].fit) - fits[0].centre) / fits[0].size  # the same for all targets
    sums = _out_only(side_sums(values, block.in_mask))
    for one in fits:
        for row in one.rows:
            target = int(block.targets[row])
            partner = None if block.partners is None else block.partners[row]
            references = left_out_sums(sums, values, block.in_mask, target, partner)
            means = out_means(one.kinds, references)
            as_in = _log_sum_exp(_log_in(values[target], means, one.law))
            scores[row] = as_in - _log_sum_exp(_log_out(values[target], means, one.kinds, one.law))
    return scores


def _values(block: Block, fit: LabelFit) -> FloatArray:
    """Log-odds; residuals with their sign of a regression. (models, records)."""
    return fit.of(block) if fit.noise_scale is None else block.signal(REGRESSION)


def _unit(values: FloatArray, fit: LabelFit) -> tuple[float, float]:
    """What is subtracted from values, and what divides them; residuals keep their 0."""
    centre = float(values.mean()) if fit.noise_scale is None else 0.0
    return centre, float(values.std()) or 1.0


def _sampled(blocks: Blocks, fit: LabelFit, records: IntArray) -> _Sample:
    def of(block: Block) -> _Sample:
        inside = (records >= block.records.start) & (records < block.records.stop)
        at = records[inside] - block.records.start
        partners = None if block.partners is None else block.partners[:, at]
        return _Sample(_values(block, fit)[:, at], block.in_mask[:, at], partners)

    values, in_masks, partners = zip(*blocks.map(of), strict=True)
    drawn = None if partners[0] is None else np.concatenate(partners, axis=1)
    return _Sample(np.concatenate(values, axis=1), np.concatenate(in_masks, axis=1), drawn)


def _out_kinds(
    blocks: Blocks,
    sample: _Sample,
    records: IntArray,
    fold: tuple[IntArray, IntArray],
    n_types: int,
    of_residuals: bool,
) -> OutKinds:
    """Kinds from the OUT outputs of the models outside the fold, as many of each record as EB-LiRA takes."""
    rows, others = fold
    used = None
    if blocks.leaves_pairs_out:
        complements = blocks.complements[blocks.targets[rows]]
        if (complements >= 0).all():
            others = np.setdiff1d(others, complements)
        else:
            n_fewer, numbers = len(sample.values) - len(others), blocks.design.numbers[others]
            used = equal_counts(sample.in_mask[others], n_fewer, numbers, blocks.unit_numbers(records))
    sums = _out_only(side_sums(sample.values[others], sample.in_mask[others], used))
    if not sums.n_out.any():
        raise InputError(
            "eb_lira(online=false): no reference model was trained without any of the records; add reference "
            "models, or choose loss or population, which need none"
        )
    is_ambiguous = of_residuals and sums.n_out.max() < 2
    types = fit_record_types(sums, 1 if is_ambiguous else n_types, resolution_variance(sample.values))
    kinds = OutKinds(types.weight, types.mean[:, 1], types.covariance[:, 1], types.noise[:, 1])
    return _of_single_references(kinds) if is_ambiguous else kinds


def _of_single_references(kind: OutKinds) -> OutKinds:
    """The only kind, with most of the variance over models.

    A single reference per record shows only the sum of the variances over records and over models. The fit
    stays near its start, which is right for log-odds: they differ mostly by record, and residuals do not.
    """
    total = kind.covariance + kind.noise
    return kind._replace(covariance=(1 - _SHARE_OF_NOISE) * total, noise=_SHARE_OF_NOISE * total)


def left_out_sums(
    sums: SideSums, values: FloatArray, in_mask: BoolArray, target: int, partner: IntArray | None
) -> SideSums:
    """OUT sums of all models without the target and its partner."""
    sums = sums.added(values[target], 0.0, in_mask[target] - 1.0)
    if partner is None:
        return sums
    columns = np.arange(values.shape[1])
    is_out = (partner >= 0) & ~in_mask[partner, columns]
    return sums.added(values[partner, columns], 0.0, -is_out.astype(np.float64))


def _out_only(sums: SideSums) -> SideSums:
    none = np.zeros_like(sums.n_in)
    return sums._replace(n_in=none, sum_in=none, square_in=none)


def out_means(kinds: OutKinds, sums: SideSums) -> OutMeans:
    """The OUT mean of each record under each kind, and how likely the kinds are, given its references."""
    n, total, square = (part[:, None] for part in (sums.n_out, sums.sum_out, sums.square_out))
    precision = 1 / kinds.covariance + n / kinds.noise
    mean = (kinds.mean / kinds.covariance + total / kinds.noise) / precision
    log_weight = np.log(kinds.weight) - 0.5 * (
        n * np.log(kinds.noise)
        + square / kinds.noise
        + np.log(kinds.covariance * precision)
        + kinds.mean**2 / kinds.covariance
        - mean**2 * precision
    )
    return OutMeans(mean, 1 / precision, log_weight - _log_sum_exp(log_weight)[:, None])


def target_law(kinds: OutKinds, means: OutMeans, outputs: FloatArray) -> TargetLaw:
    """The law of a target from its outputs on all records, whoever is a member.

    It is fitted from the likelier of two starts: non-members at the references' level, or the records as far
    below it as above.
    """
    weight = np.exp(means.log_weight)
    excess = float((weight * (outputs[:, None] - means.mean)).sum() / len(outputs))
    spread = float(np.sqrt((weight * (means.variance + kinds.noise)).sum() / len(outputs)))
    starts = (0.0, max(2 * excess, _SMALLEST_GAP * spread)), (excess - spread / 2, excess + spread / 2)
    alike = [
        TargetLaw(level, np.full_like(kinds.noise, shift), np.ones_like(kinds.noise), kinds.noise)
        for level, shift in starts
    ]
    return _likeliest(kinds, means, outputs, alike, _improved)


def law_of_residuals(kinds: OutKinds, means: OutMeans, outputs: FloatArray) -> TargetLaw:
    """The law of a regression's target: members' residuals lie closer to 0, and scatter less."""
    alike = [
        TargetLaw(0.0, np.zeros_like(kinds.noise), np.full_like(kinds.noise, slope), slope * kinds.noise)
        for slope in _SLOPES_TRIED
    ]
    return _likeliest(kinds, means, outputs, alike, _improved_of_residuals)


def _likeliest(
    kinds: OutKinds, means: OutMeans, outputs: FloatArray, starts: list[TargetLaw], improved: _Improvement
) -> TargetLaw:
    """The law fitted from the start that is likelier after a few rounds."""
    tried = [_fitted(kinds, means, outputs, law, 0.5, _N_TRIAL_ROUNDS, improved) for law in starts]
    _, law, share = max(tried, key=lambda fitted: fitted[0])
    return _fitted(kinds, means, outputs, law, share, _N_ROUNDS, improved)[1]


def _fitted(
    kinds: OutKinds,
    means: OutMeans,
    outputs: FloatArray,
    law: TargetLaw,
    share: float,
    n_rounds: int,
    improved: _Improvement,
) -> tuple[float, TargetLaw, float]:
    """The mean log-likelihood per record, the law, and the share of members."""
    previous = -np.inf
    for _ in range(n_rounds):
        log_in = np.log(share) + _log_in(outputs, means, law)
        log_out = np.log1p(-share) + _log_out(outputs, means, kinds, law)
        total = np.logaddexp(_log_sum_exp(log_in), _log_sum_exp(log_out))
        gained, previous = float(total.mean()) - previous, float(total.mean())
        if gained < _TOLERANCE:
            break
        of_members, of_others = np.exp(log_in - total[:, None]), np.exp(log_out - total[:, None])
        share = float(np.clip(of_members.sum() / len(outputs), _FEWEST, _MOST))
        law = improved(kinds, means, outputs, law, of_members, of_others)
    return previous, law, share


def _improved(
    kinds: OutKinds,
    means: OutMeans,
    outputs: FloatArray,
    law: TargetLaw,
    of_members: FloatArray,
    of_others: FloatArray,
) -> TargetLaw:
    """One maximization: of each kind, a line through its members' outputs over their OUT means.

    The OUT means are uncertain. Given its output, a member's has mean `mu` and variance `left`. Training
    raises a record's output, so a kind's members lie somewhat above its non-members whatever the fit says,
    and they may not scatter more: a wider law would claim outliers far below as members.
    """
    s, q, n = outputs[:, None], of_members, _PSEUDO_RECORDS
    certainty = of_others / (means.variance + kinds.noise)
    level = float((certainty * (s - means.mean)).sum() / (certainty.sum() + 1e-12))
    mu, left = _means_of_members(s, means, law)
    everyone = q.sum() + 1e-9
    gap = max(float((q * (s - mu)).sum() / everyone), level)
    scatter = float((q * ((s - mu - gap) ** 2 + left)).sum() / everyone)
    size = q.sum(axis=0) + n
    mean_s = ((q * s).sum(axis=0) + n * (kinds.mean + gap)) / size
    mean_mu = ((q * mu).sum(axis=0) + n * kinds.mean) / size
    pseudo_s, pseudo_mu = kinds.mean + gap - mean_s, kinds.mean - mean_mu
    off_s, off_mu = s - mean_s, mu - mean_mu
    covariance = (q * off_s * off_mu).sum(axis=0) + n * (kinds.covariance + pseudo_s * pseudo_mu)
    variance = (q * (off_mu**2 + left)).sum(axis=0) + n * (kinds.covariance + pseudo_mu**2)
    slope = np.maximum(covariance / variance, 0.0)
    least = level + (1 - slope) * kinds.mean + _SMALLEST_GAP * np.sqrt(kinds.noise)
    shift = np.maximum(mean_s - slope * mean_mu, least)
    rest = (q * ((s - shift - slope * mu) ** 2 + slope**2 * left)).sum(axis=0)
    noise = np.maximum(np.minimum((rest + n * scatter) / size, kinds.noise), _SMALLEST_NOISE)
    return TargetLaw(level, shift, slope, noise)


def _improved_of_residuals(
    kinds: OutKinds,
    means: OutMeans,
    outputs: FloatArray,
    law: TargetLaw,
    of_members: FloatArray,
    of_others: FloatArray,
) -> TargetLaw:
    """One maximization: of each kind, how far its members' residuals shrink, and how much they scatter.

    The pseudo-records of a kind shrink and scatter by as much as all members do. No residual moves away
    from 0 or scatters more by training.
    """
    s, q, n = outputs[:, None], of_members, _PSEUDO_RECORDS
    mu, left = _means_of_members(s, means, law)
    product, square = (q * s * mu).sum(axis=0), (q * (mu**2 + left)).sum(axis=0)
    usual = float(np.clip(product.sum() / (square.sum() + 1e-12), 0.0, 1.0))
    pseudo = n * (kinds.mean**2 + kinds.covariance)
    slope = np.clip((product + usual * pseudo) / (square + pseudo + 1e-12), 0.0, 1.0)
    rest = (q * ((s - slope * mu) ** 2 + slope**2 * left)).sum(axis=0)
    size = q.sum(axis=0)
    usual_noise = float(rest.sum() / ((size * kinds.noise).sum() + 1e-12)) * kinds.noise
    noise = np.minimum((rest + n * usual_noise) / (size + n), kinds.noise)
    return TargetLaw(0.0, np.zeros_like(slope), slope, np.maximum(noise, _SMALLEST_NOISE))


def _means_of_members(s: FloatArray, means: OutMeans, law: TargetLaw) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of the records' OUT means, given the target's outputs `s` on them as members."""
    gain = law.slope * means.variance / (law.noise + law.slope**2 * means.variance)
    mu = means.mean + gain * (s - law.shift - law.slope * means.mean)
    return mu, means.variance * (1 - gain * law.slope)


def _log_in(outputs: FloatArray, means: OutMeans, law: TargetLaw) -> FloatArray:
    variance = law.noise + law.slope**2 * means.variance
    return _log_normal(outputs, law.shift + law.slope * means.mean, variance) + means.log_weight


def _log_out(outputs: FloatArray, means: OutMeans, kinds: OutKinds, law: TargetLaw) -> FloatArray:
    return _log_normal(outputs, law.level + means.mean, means.variance + kinds.noise) + means.log_weight


def _log_normal(outputs: FloatArray, mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Without the constant that cancels; (records, types)."""
    return np.asarray(-0.5 * (np.log(variance) + (outputs[:, None] - mean) ** 2 / variance))


def _log_sum_exp(log_p: FloatArray) -> FloatArray:
    """Over the kinds; (records, types) -> (records,)."""
    top = log_p.max(axis=1)
    return np.asarray(top + np.log(np.exp(log_p - top[:, None]).sum(axis=1)))
