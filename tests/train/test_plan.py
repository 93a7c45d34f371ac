from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakscope.train import plan as plan_module
from leakscope.train.loop import inputs_from, train_block
from leakscope.train.plan import BatchPlan, ranked, without_duplicates
from leakscope.types import Design
from tests.train.problems import CPU, class_records, mlp_recipe

designs = st.tuples(st.integers(1, 5), st.integers(2, 23), st.integers(0, 1000)).map(
    lambda s: np.random.default_rng(s[2]).random((s[0], s[1])) < 0.5
)


def with_members(in_mask):
    """No model is empty."""
    in_mask[~in_mask.any(axis=1), 0] = True
    return Design(in_mask)


plans = st.tuples(designs.map(with_members), st.integers(1, 30), st.integers(0, 100))


def plan_of(design, batch_size, seed, models=None):
    return BatchPlan(design, np.arange(design.n_models) if models is None else models, batch_size, seed)


@given(plans)
def test_every_member_counts_once_an_epoch_and_nobody_else(given_plan):
    design, batch_size, seed = given_plan
    plan = plan_of(design, batch_size, seed)
    for order in plan.epochs(3):
        assert order.shape == plan.row_weight.shape == (plan.steps, design.n_models, plan.batch)
        for m in range(design.n_models):
            counted = order[:, m][plan.row_weight[:, m] > 0]
            assert sorted(counted.tolist()) == design.members(m).tolist()
            assert set(order[:, m].reshape(-1).tolist()) <= set(design.members(m).tolist())


@given(plans)
def test_weights_average_a_batch_and_vanish_when_idle(given_plan):
    design, batch_size, seed = given_plan
    plan = plan_of(design, batch_size, seed)
    n_members = design.in_mask.sum(axis=1)
    assert plan.batch == min(batch_size, n_members.max())
    assert plan.steps == -(-n_members.max() // plan.batch)
    for step in range(plan.steps):
        for m, n in enumerate(n_members):
            real = int(np.clip(n - step * plan.batch, 0, plan.batch))
            wanted = np.zeros(plan.batch)
            wanted[:real] = 1 / max(real, 1)
            np.testing.assert_allclose(plan.row_weight[step, m], wanted, rtol=1e-6)
            assert plan.idle[step, m] == (real == 0)
            assert plan.row_weight[step, m].sum() == pytest.approx(0 if real == 0 else 1, abs=1e-6)


@given(plans)
def test_a_model_s_batches_do_not_depend_on_the_block(given_plan):
    design, batch_size, seed = given_plan
    together = list(plan_of(design, batch_size, seed).epochs(2))
    reverse = np.arange(design.n_models)[::-1]
    reversed_block = list(plan_of(design, batch_size, seed, reverse).epochs(2))
    for m in range(design.n_models):
        alone = plan_of(design, batch_size, seed, np.array([m]))
        for epoch, order in enumerate(alone.epochs(2)):
            np.testing.assert_array_equal(order[:, 0], together[epoch][:, m])
            np.testing.assert_array_equal(order[:, 0], reversed_block[epoch][:, -1 - m])
        np.testing.assert_array_equal(
            alone.row_weight[:, 0], plan_of(design, batch_size, seed).row_weight[:, m]
        )


@pytest.mark.parametrize("drawn_at_once", [1, 17, 100, 10**6])
def test_drawing_epochs_in_chunks_changes_nothing(drawn_at_once, monkeypatch):
    design = Design(np.arange(11) < np.array([[7], [5], [11]]))  # odd sizes: half-used random words
    wanted = np.stack(list(plan_of(design, 4, 9).epochs(6)))
    monkeypatch.setattr(plan_module, "DRAWN_AT_ONCE", drawn_at_once)
    np.testing.assert_array_equal(np.stack(list(plan_of(design, 4, 9).epochs(6))), wanted)


def test_a_longer_run_starts_like_a_shorter_one():
    design = Design(np.arange(9) < np.array([[9], [5]]))
    longer = list(plan_of(design, 4, 1).epochs(5))
    for epoch, order in enumerate(plan_of(design, 4, 1).epochs(2)):
        np.testing.assert_array_equal(order, longer[epoch])


def test_each_epoch_model_and_seed_has_its_own_order():
    design = Design(np.ones((2, 30), dtype=bool))
    first, second = plan_of(design, 30, 0).epochs(2)
    (other_seed,) = plan_of(design, 30, 1).epochs(1)
    for one, other in ((first, second), (first[:, 0], first[:, 1]), (first, other_seed)):
        assert (one != other).any()


def test_orders_are_uniform():
    """Each of three members comes first about a third of the time."""
    first = [order[0, 0, 0] for order in plan_of(Design(np.ones((1, 3), dtype=bool)), 3, 0).epochs(3000)]
    share = np.bincount(first, minlength=3) / 3000
    np.testing.assert_allclose(share, 1 / 3, atol=4 * np.sqrt(2 / 9 / 3000))


def test_short_batches_are_filled_from_the_start_of_the_model_s_own_order():
    design = Design(np.arange(10) < np.array([[10], [3]]))
    (order,) = plan_of(design, 4, 0).epochs(1)
    long, short = order[:, 0].reshape(-1), order[:, 1].reshape(-1)
    assert long[10:].tolist() == long[:2].tolist()
    assert short.tolist() == [*short[:3], *short[:3], *short[:3], *short[:3]]


def test_columns_are_resolved_to_records():
    design = Design(np.array([[True, False, True]]), np.array([[50, 60, 70]]))
    (order,) = plan_of(design, 2, 0).epochs(1)
    assert sorted(order.reshape(-1).tolist()) == [50, 70]


class TestDuplicates:
    @given(designs.map(with_members), st.integers(1, 8), st.integers(0, 100))
    def test_each_model_keeps_the_first_of_equal_members(self, design, n_kinds, seed):
        kinds = np.random.default_rng(seed).integers(n_kinds, size=design.n_records)
        _, first, kind = np.unique(kinds, return_index=True, return_inverse=True)
        found = without_duplicates(design, first[kind])
        for m in range(design.n_models):
            wanted, seen = [], set()
            for record in design.members(m):
                if kinds[record] not in seen:
                    seen.add(kinds[record])
                    wanted.append(record)
            assert found.members(m).tolist() == wanted

    def test_without_duplicates_nothing_changes(self):
        design = with_members(np.random.default_rng(0).random((3, 9)) < 0.5)
        assert without_duplicates(design, np.arange(9)) is design

    def test_models_are_trained_as_if_copies_were_not_there(self):
        """The same outputs as where the design itself leaves copies out, on all records, copies included."""
        records = class_records(40)
        records.features[30:], records.labels[30:] = records.features[:30:3], records.labels[:30:3]
        design = Design(np.random.default_rng(1).random((4, 40)) < 0.6)
        clean = without_duplicates(design, records.duplicate_of)
        assert (clean.in_mask.sum(axis=1) < design.in_mask.sum(axis=1)).all()
        recipe = mlp_recipe(epochs=2)
        found, wanted = (
            train_block(inputs_from(records, CPU), some, r, np.arange(4), 3, ("logits",), "dense").signals
            for some, r in ((design, replace(recipe, deduplicate=True)), (clean, recipe))
        )
        np.testing.assert_array_equal(found["logits"], wanted["logits"])


def test_records_are_ranked_as_by_a_stable_sort():
    """Ties are common among the 2^24 numbers that a generator of float32 draws from."""
    values = np.random.default_rng(0).integers(0, 50, (3, 200)).astype(np.float32) / 64
    np.testing.assert_array_equal(ranked(values), values.argsort(axis=1, kind="stable"))
