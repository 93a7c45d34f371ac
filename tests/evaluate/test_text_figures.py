"""Exposure of secrets and extraction: values by hand, and intervals that hold where the truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from leakscope.design import make_design
from leakscope.evaluate.text_figures import (
    MOST_CONTINUED,
    MOST_PREFIX,
    Population,
    chance_bits,
    text_figures,
)
from leakscope.signals import tokens
from leakscope.types import Design, Signals

CANDIDATES = 64


def population(design: Design, **values: np.ndarray) -> Population:
    arrays = {name: np.broadcast_to(own, design.in_mask.shape)[:, None] for name, own in values.items()}
    labels = np.zeros(design.n_records, np.int64)
    return Population(Signals(arrays, (1,), labels), design, np.arange(design.n_models))


def secrets_of(design: Design, rank: np.ndarray, base: np.ndarray):
    some = population(design, secret_rank=rank, base_secret_rank=base)
    figures = text_figures(some, some, np.full(design.n_records, CANDIDATES))
    assert figures is not None and figures.secrets is not None
    return figures.secrets


def test_limits_are_those_of_the_signal() -> None:
    assert (MOST_PREFIX, MOST_CONTINUED) == (tokens.MOST_PREFIX, tokens.MOST_CONTINUED)


def test_exposure_is_the_mean_over_secrets_of_what_their_models_know() -> None:
    design = make_design("balanced", 8, 12, 1)
    rank = np.where(design.in_mask, 0, 15)
    secrets = secrets_of(design, rank, np.full(12, 31))
    assert (secrets.secrets, secrets.candidates, secrets.most_bits) == (12, CANDIDATES, 6.0)
    exposure = secrets.exposure
    values = (exposure.members.value, exposure.nonmembers.value, exposure.base.value)
    assert values == pytest.approx((6.0, 2.0, 1.0))
    first = secrets.ranked_first
    assert (first.members.value, first.nonmembers.value, first.base.value) == (1.0, 0.0, 0.0)
    assert first.members.low is not None and 0.5 < first.members.low < 1.0  # 12 secrets prove no certainty
    assert first.base.high is not None and 0.0 < first.base.high < 0.5


def test_a_secret_that_nobody_knows_has_the_exposure_of_chance() -> None:
    n, rng = 12, np.random.default_rng(0)
    ranks = rng.integers(CANDIDATES, size=400_000)
    assert chance_bits(CANDIDATES) == pytest.approx((6 - np.log2(1 + ranks)).mean(), abs=0.01)
    assert chance_bits(1) == 0.0
    covered = 0
    for seed in range(60):
        design, rng = make_design("balanced", 8, n, seed), np.random.default_rng(seed)
        # All models like some secrets better than others, as their common base does.
        rank = np.clip(rng.integers(CANDIDATES, size=n) + rng.integers(-3, 4, size=(8, n)), 0, CANDIDATES - 1)
        members = secrets_of(design, rank, rank[0]).exposure.members
        assert members.low is not None and members.high is not None
        covered += members.low <= chance_bits(CANDIDATES) <= members.high
    assert covered >= 51  # of 60 at 95%: 57 on average, and fewer than 51 once in 200 times at 92%


def test_extraction_counts_long_documents_only() -> None:
    design = make_design("balanced", 6, 40, 2)
    is_long = np.arange(40) % 2 == 0
    extracted = np.where(is_long, np.where(design.in_mask, np.arange(40) % 4 == 0, 0.0), -1.0)
    base = np.where(is_long, np.arange(40) == 8, -1.0)
    some = population(design, extracted=extracted, base_extracted=base)
    figures = text_figures(some, some, None)
    assert figures is not None and figures.secrets is None and figures.extraction is not None
    share = figures.extraction.share
    assert figures.extraction.documents == 20
    assert (share.members.value, share.nonmembers.value, share.base.value) == (0.5, 0.0, 0.05)
    assert share.members.low is not None and 0.2 < share.members.low < 0.5
    short = population(design, extracted=np.full(40, -1.0), base_extracted=np.full(40, -1.0))
    nothing = text_figures(short, short, None)
    assert nothing is not None and nothing.extraction is None


def test_classifiers_have_no_figures_of_text() -> None:
    design = make_design("balanced", 4, 10, 0)
    some = population(design, log_odds=np.zeros(10))
    assert text_figures(some, some, None) is None


def test_a_single_target_has_one_interval() -> None:
    design = make_design("balanced", 6, 20, 3)
    rank = np.where(design.in_mask, 0, 40)
    some = population(design, secret_rank=rank, base_secret_rank=np.full(20, 40))
    some = some._replace(targets=np.array([2]))
    figures = text_figures(some, some, np.full(20, CANDIDATES))
    assert figures is not None and figures.secrets is not None
    members = figures.secrets.ranked_first.members
    assert members.value == 1.0 and members.low is not None and members.these_low is None


def test_documents_of_one_unit_are_one_observation() -> None:
    """Five copies of each document say no more than one of them, under the models and under the base."""
    of_units, rng = make_design("balanced", 16, 40, 3), np.random.default_rng(3)
    knows = rng.random((16, 40)) < np.where(of_units.in_mask, rng.random(40), 0.1)
    base = np.arange(40) % 8 == 0
    units = np.repeat(np.arange(40), 5)
    copied = Design(of_units.in_mask[:, units], units=units)
    shares = []
    for design, extracted, of_base in ((of_units, knows, base), (copied, knows[:, units], base[units])):
        some = population(design, extracted=1.0 * extracted, base_extracted=1.0 * of_base)
        figures = text_figures(some, some, None)
        assert figures is not None and figures.extraction is not None
        shares.append(figures.extraction.share)
    single, several = shares
    assert several.base == single.base
    for one, other in ((single.members, several.members), (single.nonmembers, several.nonmembers)):
        assert other.value == pytest.approx(one.value)
        assert other.low is not None and one.low is not None and other.low < one.low + 0.01
        assert other.high is not None and one.high is not None and other.high > one.high - 0.01
