"""Exposure of planted secrets, and documents that are extracted verbatim, with intervals and a control.

Both are figures of a model and a document. A document's part in a figure is its mean over the models that
were trained with it (or without it), so the intervals account for what its models share, and for what the
documents of one model share (`leakscope.stats.two_way`). Where members are units, documents of one unit are
one observation. The base shows what does not come from fine-tuning.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.design import on_records, unit_sums, units_among
from leakscope.evaluate.attacked import Attacked
from leakscope.evaluate.figure import figure_with_intervals
from leakscope.evaluate.text_results import ExtractionFigures, SecretFigures, TextFigures, WithAndWithout
from leakscope.evaluate.uncertainty import Sample
from leakscope.signals.registry import (
    BASE_EXTRACTED,
    BASE_SECRET_RANK,
    EXTRACTED,
    LANGUAGE,
    SECRET_RANK,
    task_of,
)
from leakscope.stats.estimate import Estimate, TwoEstimates
from leakscope.stats.intervals import clopper_pearson, wilson
from leakscope.types import Design, Signals

MOST_PREFIX, MOST_CONTINUED = 50, 50
"""As `leakscope.signals.tokens` has them, which needs torch."""
_LEVEL = 0.95


class Population(NamedTuple):
    """The models that are evaluated, on some of the documents."""

    signals: Signals
    design: Design
    targets: IntArray

    @classmethod
    def of(cls, attacked: Attacked) -> Population:
        """Without the scores."""
        return cls(attacked.signals, attacked.design, attacked.targets)


def text_figures(
    documents: Population, with_canaries: Population, candidates: IntArray | None
) -> TextFigures | None:
    """The figures of language models; None for other models.

    Args:
        documents: without canaries.
        with_canaries: all of them.
        candidates: int64 (records,), number of candidates of the secret in each document, itself included, 0
            where there is none; None: no secrets were planted.
    """
    if task_of(documents.signals.labels, documents.signals.arrays) != LANGUAGE:
        return None
    return TextFigures(_extraction(documents), _secrets(with_canaries, candidates))


def _extraction(documents: Population) -> ExtractionFigures | None:
    """None where no document is long enough."""
    if not {EXTRACTED, BASE_EXTRACTED} <= set(documents.signals.arrays):
        return None
    sample = Sample.of(*documents)
    long = np.flatnonzero(sample.signals.last(EXTRACTED)[0] >= 0)
    if not len(long):
        return None
    of_models, of_base = (sample.signals.last(name)[:, long] for name in (EXTRACTED, BASE_EXTRACTED))
    sides = _both_sides(Population(sample.signals, sample.design, sample.targets), long, of_models)
    units = units_among(sample.design.units, long)
    n_units = len(long) if units is None else int(units.max()) + 1
    share = WithAndWithout(*sides, _rate(of_base[0] > 0, n_units))
    return ExtractionFigures(len(long), MOST_PREFIX, MOST_CONTINUED, share)


def _secrets(everyone: Population, candidates: IntArray | None) -> SecretFigures | None:
    """None where there are no secrets, or they were not ranked."""
    stored = everyone.signals.arrays
    if candidates is None or not {SECRET_RANK, BASE_SECRET_RANK} <= set(stored) or not candidates.any():
        return None
    planted = np.flatnonzero(candidates)
    n_candidates = int(candidates[planted[0]])
    most_bits = float(np.log2(n_candidates))
    above, above_base = (
        np.asarray(everyone.signals.last(name)[:, planted], np.float64)
        for name in (SECRET_RANK, BASE_SECRET_RANK)
    )
    share_of_bits = 1 - np.log2(1 + above) / most_bits
    members, nonmembers = (_scaled(s, most_bits) for s in _both_sides(everyone, planted, share_of_bits))
    of_base = _mean_of(most_bits - np.log2(1 + above_base[0]), most_bits)
    return SecretFigures(
        len(planted),
        n_candidates,
        most_bits,
        chance_bits(n_candidates),
        WithAndWithout(members, nonmembers, of_base),
        WithAndWithout(*_both_sides(everyone, planted, above == 0), _rate(above_base[0] == 0, len(planted))),
    )


def chance_bits(n_candidates: int) -> float:
    """Expected exposure of a secret whose rank is as likely to be any other: about 1.44 bits."""
    return float(np.log2(n_candidates) - scipy.special.gammaln(n_candidates + 1) / np.log(2) / n_candidates)


def _rate(says_yes: BoolArray, n_independent: int) -> Estimate:
    """Share of documents, of which so many are independent."""
    share = float(says_yes.mean())
    interval = clopper_pearson(round(share * n_independent), n_independent, _LEVEL)
    return Estimate(share, min(interval.low, share), max(interval.high, share))


def _both_sides(
    population: Population, records: IntArray, values: AnyArray
) -> tuple[TwoEstimates, TwoEstimates]:
    """Means of values (models, records) from 0 to 1 over members, and over non-members."""
    _, design, targets = population
    own = on_records(design, records)
    of_targets = np.asarray(values[targets], np.float64)
    return _figure(own, targets, of_targets, True), _figure(own, targets, of_targets, False)


def _figure(design: Design, targets: IntArray, values: FloatArray, is_member: bool) -> TwoEstimates:
    """The mean over documents of their means over the targets on one side; the interval is over units."""
    has_side = np.flatnonzero((design.rows(targets) == is_member).any(axis=0))
    if not len(has_side):
        return TwoEstimates(None, None, None, None, None)
    values, own = values[:, has_side], on_records(design, has_side)
    units = own.units
    whole = _means(values, own.rows(targets) == is_member, values.mean(axis=0))
    n, n_documents = own.of_units.n_records, len(whole)

    def parts(some: FloatArray, in_mask: BoolArray) -> FloatArray:
        members = in_mask if units is None else in_mask[:, units]
        means = _means(some, members == is_member, whole) / n_documents
        if units is None:
            return means[None]
        share = means.sum()  # units have different sizes: a large one does not raise the share
        return np.asarray(unit_sums(means - share / n_documents, units) + share / n)[None]

    signals = Signals({}, (1,), np.zeros(n_documents, np.int64))
    replicates = Sample(signals, own, targets, np.arange(n)).replicates_of(values)
    (variance,) = replicates.variances(parts, n)
    figure = figure_with_intervals(
        float(whole.mean()),
        None,
        variance if units is None or not replicates.without else variance.of_plain_mean(),
        lambda rate, level: clopper_pearson(round(rate * n), n, level),
        several=len(targets) > 1,
    )
    return TwoEstimates(figure.value, figure.low, figure.high, figure.these_low, figure.these_high)


def _means(values: FloatArray, is_counted: BoolArray, otherwise: FloatArray) -> FloatArray:
    """Mean of each document over the models that count; (records,)."""
    n_counted = is_counted.sum(axis=0)
    means = np.where(is_counted, values, 0.0).sum(axis=0) / np.maximum(n_counted, 1)
    return np.where(n_counted > 0, means, otherwise)


def _scaled(figure: TwoEstimates, most: float) -> TwoEstimates:
    """A figure from 0 to 1 in another unit."""
    ends = (figure.value, figure.low, figure.high, figure.these_low, figure.these_high)
    return TwoEstimates(*(None if end is None else end * most for end in ends))


def _mean_of(values: FloatArray, most: float) -> Estimate:
    """The mean of a few numbers from 0 to `most`, which are skewed: with Wilson's interval, as a rate has."""
    n, share = len(values), float(values.mean()) / most
    error = float(values.std(ddof=1)) / most / np.sqrt(n) if n > 1 else 0.0
    interval = clopper_pearson(round(share * n), n, _LEVEL)
    if n < 2:
        return Estimate(share * most, None, None)
    low, high = interval.low, interval.high
    if error > 0 and 0 < share < 1:
        low, high = wilson(share, error, float(scipy.special.stdtrit(n - 1, (1 + _LEVEL) / 2)))
    return Estimate(share * most, low * most, high * most)
