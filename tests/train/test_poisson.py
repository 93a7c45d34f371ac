"""Poisson batches: each member joins each batch independently, with a probability nobody's data changes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakscope.design import make_design
from leakscope.privacy.settings import Sampling
from leakscope.train.poisson import NOBODY, PoissonPlan, successes
from leakscope.types import Design

DESIGN = make_design("bernoulli", 4, 60, seed=0)


def plan_of(design=DESIGN, batch_size=8, seed=0, models=None):
    return PoissonPlan(design, np.arange(design.n_models) if models is None else models, batch_size, seed)


def joined(order, model):
    """The records of each step of a model."""
    return [sorted(step[step != NOBODY].tolist()) for step in order[:, model]]


def test_only_members_join_and_none_twice():
    plan = plan_of()
    for order in plan.epochs(5):
        for model in range(4):
            for records in joined(order, model):
                assert set(records) <= set(DESIGN.members(model).tolist())
                assert len(set(records)) == len(records)


def test_members_join_independently_with_the_stated_rate():
    """Over 4,000 steps: each member's rate, each batch's variance, and pairs of members and of steps."""
    design = Design(np.ones((1, 10), dtype=bool))
    plan = plan_of(design, batch_size=3)
    is_in = np.zeros((0, 10), dtype=bool)
    for order in plan.epochs(1000):
        step = np.zeros((plan.steps, 10), dtype=bool)
        at, place = np.nonzero(order[:, 0] != NOBODY)
        step[at, order[at, 0, place]] = True
        is_in = np.concatenate([is_in, step])
    n, rate = len(is_in), plan.sampling.rate
    assert (n, rate) == (4000, 0.3)
    spread = 4.5 * np.sqrt(rate * (1 - rate) / n)
    np.testing.assert_allclose(is_in.mean(axis=0), rate, atol=spread)
    assert abs(is_in.sum(axis=1).var() - 10 * rate * (1 - rate)) < 4.5 * 2.1 * np.sqrt(2 / n)
    assert np.abs(np.corrcoef(is_in.T)[np.triu_indices(10, 1)]).max() < 4.5 / np.sqrt(n)
    assert abs(np.corrcoef(is_in[1:].ravel(), is_in[:-1].ravel())[0, 1]) < 4.5 / np.sqrt(10 * n)


@pytest.mark.parametrize("rate", [0.001, 0.2, 0.9, 1.0])
def test_trials_succeed_with_their_rate(rate):
    n = 200_000
    found = successes(np.random.default_rng(0), n, rate)
    assert (np.diff(found) > 0).all() and found.min() >= 0 and found.max() < n
    assert abs(len(found) - n * rate) <= 4.5 * np.sqrt(n * rate * (1 - rate))


@settings(max_examples=30)
@given(st.integers(0, 100), st.integers(1, 80))
def test_a_model_s_batches_do_not_depend_on_the_block(seed, batch_size):
    together = list(plan_of(seed=seed, batch_size=batch_size).epochs(2))
    for model in range(4):
        alone = plan_of(seed=seed, batch_size=batch_size, models=np.array([model]))
        for epoch, order in enumerate(alone.epochs(2)):
            assert joined(order, 0) == joined(together[epoch], model)


def test_a_resumed_epoch_is_the_same():
    whole = list(plan_of().epochs(4))
    for first in range(4):
        for one, other in zip(plan_of().epochs(4, first), whole[first:], strict=True):
            np.testing.assert_array_equal(one, other)


def test_epochs_seeds_and_models_have_their_own_batches():
    design = Design(np.ones((2, 40), dtype=bool))
    first, second = plan_of(design).epochs(2)
    (other,) = plan_of(design, seed=1).epochs(1)
    seen = {str(joined(order, model)) for order in (first, second, other) for model in (0, 1)}
    assert len(seen) == 6


class TestRate:
    def test_no_member_of_any_model_changes_it(self):
        """The number that the rate divides by is public: the design's share of members, to a percent."""
        before = Sampling.of(DESIGN, 8)
        for model, record in ((0, 0), (2, 31)):
            changed = DESIGN.in_mask.copy()
            changed[model, record] ^= True
            assert Sampling.of(Design(changed), 8) == before

    def test_it_is_the_batch_size_over_the_members_of_the_design(self):
        found = Sampling.of(make_design("balanced", 4, 1000, 0), 64)
        assert found == (500, 64, 64 / 500, 8)

    def test_more_than_all_members_are_all_members(self):
        found = Sampling.of(make_design("balanced", 4, 100, 0), 64)
        assert found == (50, 50, 1.0, 1)

    def test_a_larger_population_has_the_same(self):
        assert Sampling.of(make_design("bernoulli", 64, 2000, 0), 64) == Sampling.of(
            make_design("bernoulli", 128, 2000, 0), 64
        )


def test_a_model_without_records_still_has_steps():
    design = Design(np.stack([np.zeros(10, dtype=bool), np.ones(10, dtype=bool)]))
    (order,) = plan_of(design, batch_size=5).epochs(1)
    assert (order[:, 0] == NOBODY).all()
    assert not plan_of(design).idle.any()
