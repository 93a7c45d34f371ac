"""Intervals where members are units: they hold, and those that take records for independent do not."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from leakscope.attacks import LossThreshold
from leakscope.design import make_design, number_units, unit_sums
from leakscope.evaluate.predictions import accuracy_figures
from leakscope.evaluate.uncertainty import Sample, accuracy_parts
from leakscope.stats.intervals import delong
from leakscope.stats.parts import rate_parts
from leakscope.types import Design, Signals

N_POPULATIONS = 300


def population(seed: int, gap: float, n_models: int = 8) -> tuple[Signals, Design]:
    """Losses whose noise records of a unit share mostly; units have 1 to 12 records."""
    rng = np.random.default_rng(seed)
    sizes = np.minimum(rng.geometric(0.25, 80), 12)
    units = number_units(rng.permutation(np.repeat(np.arange(80), sizes)).astype(np.str_))
    design = make_design("balanced", n_models, len(units), seed, units=units)
    ease = rng.normal(size=80)[units]
    loss = ease + rng.normal(size=(n_models, 80))[:, units] + 0.5 * rng.normal(size=design.in_mask.shape)
    loss -= gap * design.in_mask
    arrays = {"loss": loss.astype(np.float32)[:, None], "correct": (loss < 0)[:, None]}
    return Signals(arrays, (1,), np.arange(len(units)) % 2), design


def of_one_model(gap: float, *, by_unit: bool) -> Iterator[tuple[float, float, float]]:
    """The AUC of one model in each population, with the interval that an audit of a given model has."""
    for seed in range(N_POPULATIONS):
        signals, design = population(seed, gap, n_models=2)
        own = design if by_unit else Design(design.in_mask)
        scores = LossThreshold()(signals, own, np.array([0])).values[0]
        value, _, interval = delong(scores, own.of_units.in_mask[0], 0.95)
        yield value, interval.low, interval.high


@pytest.mark.parametrize("gap", [0.0, 0.8])
def test_intervals_over_units_hold_and_intervals_over_records_do_not(gap: float) -> None:
    """The share of 300 that hold has a standard error of 1.3 points; the bound is three of them below 95%."""
    covered = {}
    for by_unit in (True, False):
        values, low, high = np.array(list(of_one_model(gap, by_unit=by_unit))).T
        truth = values.mean() if gap else 0.5
        covered[by_unit] = ((low <= truth) & (truth <= high)).mean()
    assert covered[True] >= 0.91
    assert covered[False] < 0.8


def test_parts_of_an_accuracy_add_up_by_unit_and_do_not_vary_with_sizes() -> None:
    signals, design = population(0, 0.5)
    correct, units = signals.last("correct").astype(np.float64), design.units
    assert units is not None
    parts = accuracy_parts(correct, design.of_units.in_mask, units)
    of_records = np.stack([rate_parts(correct, design.in_mask), rate_parts(correct, ~design.in_mask)])
    np.testing.assert_allclose(parts.sum(axis=1), of_records.sum(axis=1))
    always_right = accuracy_parts(np.ones_like(correct), design.of_units.in_mask, units)
    np.testing.assert_allclose(always_right, 1 / design.of_units.n_records)
    assert np.ptp(unit_sums(of_records[0], units)) > 0


def test_the_interval_of_an_accuracy_is_wider_where_records_of_a_unit_are_right_together() -> None:
    widths = {}
    for by_unit in (True, False):
        ends = []
        for seed in range(20):
            signals, design = population(seed, 0.0)
            own = design if by_unit else Design(design.in_mask)
            figures = accuracy_figures(signals, own, Sample.of(signals, own, np.arange(8)))
            assert figures is not None
            assert figures.nonmembers.low is not None and figures.nonmembers.high is not None
            ends.append(figures.nonmembers.high - figures.nonmembers.low)
        widths[by_unit] = np.mean(ends)
    assert widths[True] > 1.2 * widths[False]


def test_a_sample_has_all_records_of_a_unit_or_none() -> None:
    signals, design = population(0, 0.5)
    sample = Sample.of(signals, design, np.arange(8), sampled_scores=8 * 100)
    assert design.units is not None and sample.design.units is not None
    sizes = np.bincount(design.units)
    assert 0 < len(sample.units) < 80
    np.testing.assert_array_equal(np.bincount(sample.design.units), sizes[sample.units])
    whole = LossThreshold()(signals, design).values[:, sample.units]
    np.testing.assert_allclose(sample.replicates(LossThreshold()).whole.values, whole)
