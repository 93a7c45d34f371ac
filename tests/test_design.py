from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakscope.design import DESIGNS, make_design, number_units, unit_means
from leakscope.disk.scratch import IN_MEMORY, Scratch
from leakscope.errors import InputError
from leakscope.types import Design

sizes = st.tuples(st.integers(1, 12).map(lambda k: 2 * k), st.integers(2, 41), st.integers(0, 2**32))


@given(sizes)
def test_balanced_puts_each_record_in_exactly_half_and_models_within_one(size):
    n_models, n_records, seed = size
    in_mask = make_design("balanced", n_models, n_records, seed).in_mask
    assert in_mask.shape == (n_models, n_records)
    assert (in_mask.sum(axis=0) == n_models // 2).all()
    assert np.ptp(in_mask.sum(axis=1)) <= 1
    assert np.ptp(in_mask.sum(axis=1)) == n_records % 2


@given(sizes)
def test_pairs_are_complements_of_equal_size(size):
    n_models, n_records, seed = size
    in_mask = make_design("pairs", n_models, n_records, seed).in_mask
    np.testing.assert_array_equal(in_mask[0::2], ~in_mask[1::2])
    assert np.ptp(in_mask.sum(axis=1)) <= 1
    if n_models % 4 == 0:  # the odd record goes to either side in turn
        assert in_mask[0::2].sum() == in_mask[1::2].sum()


@given(st.integers(2, 9), st.integers(2, 6), st.integers(0, 2**32))
def test_bernoulli_has_no_empty_and_no_full_model(n_models, n_records, seed):
    counts = make_design("bernoulli", n_models, n_records, seed).in_mask.sum(axis=1)
    assert ((counts > 0) & (counts < n_records)).all()


def test_bernoulli_is_a_fair_coin():
    in_mask = make_design("bernoulli", 100, 400, seed=0).in_mask
    assert in_mask.mean() == pytest.approx(0.5, abs=5 * 0.5 / np.sqrt(in_mask.size))
    # Independent memberships: sizes spread like a binomial's, not like a balanced design's.
    assert in_mask.sum(axis=1).std() == pytest.approx(np.sqrt(400) / 2, rel=0.3)


@pytest.mark.parametrize("kind", ["balanced", "pairs"])
def test_memberships_of_two_records_are_nearly_independent(kind):
    """Records that always go together could not be told apart by any attack."""
    in_mask = make_design(kind, 400, 6, seed=3).in_mask.astype(float)
    correlation = np.corrcoef(in_mask, rowvar=False)[np.triu_indices(6, 1)]
    # A half of six records leaves one membership a correlation of -1/5 with any other.
    np.testing.assert_allclose(correlation, -0.2, atol=0.2)


@pytest.mark.parametrize("kind", ["balanced", "bernoulli"])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_models_can_be_trained_on_another_share_than_a_half(kind, share):
    in_mask = make_design(kind, 40, 300, seed=5, member_share=share).in_mask
    assert in_mask.mean() == pytest.approx(share, abs=0.02)
    if kind == "balanced":
        assert np.ptp(in_mask.sum(axis=1)) <= 1
        assert (in_mask.sum(axis=0) == 40 * share).all()


@pytest.mark.parametrize(("models", "least"), [(2, 1), (4, 1), (8, 2), (64, 2)])
@pytest.mark.parametrize("share", [0.001, 0.999])
def test_no_share_leaves_a_record_without_models_on_both_sides(models, least, share):
    n_in = make_design("balanced", models, 50, seed=1, member_share=share).in_mask.sum(axis=0)
    assert set(n_in.tolist()) == {least if share < 0.5 else models - least}


@pytest.mark.parametrize("kind", DESIGNS)
def test_the_seed_alone_decides(kind):
    first, again, other = (make_design(kind, 8, 20, seed).in_mask for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@settings(max_examples=20)
@given(st.integers(0, 2**32))
def test_kinds_with_one_seed_are_different_designs(seed):
    balanced, pairs = (make_design(kind, 6, 30, seed).in_mask for kind in ("balanced", "pairs"))
    assert (balanced != pairs).any()


@pytest.mark.parametrize("kind", ["balanced", "pairs"])
def test_an_odd_number_of_models_is_refused_with_the_next_even_one(kind):
    with pytest.raises(InputError, match=r"models=5: .* even number .* \(try 6\)"):
        make_design(kind, 5, 10, seed=0)


def test_bernoulli_takes_an_odd_number_of_models():
    assert make_design("bernoulli", 5, 10, seed=0).n_models == 5


@pytest.mark.parametrize("kind", DESIGNS)
def test_one_model_is_too_few(kind):
    with pytest.raises(InputError, match=f"models=1: a {kind} design needs at least 2 models"):
        make_design(kind, 1, 10, seed=0)


def test_an_unknown_kind_and_too_few_records_are_refused():
    with pytest.raises(
        InputError, match="design='latin' is unknown; choose one of balanced, bernoulli, pairs"
    ):
        make_design("latin", 4, 10, seed=0)
    with pytest.raises(InputError, match=r"records=1: .* at least 2 records"):
        make_design("balanced", 4, 1, seed=0)


@given(sizes, st.integers(1, 9))
def test_records_of_a_unit_are_members_together(size, most):
    n_models, n_units, seed = size
    names = np.repeat(np.arange(n_units), most).astype(str)
    units = number_units(np.random.default_rng(seed).permutation(names))
    for kind in DESIGNS:
        design = make_design(kind, n_models, len(units), seed, units=units)
        of_units = make_design(kind, n_models, n_units, seed).in_mask
        np.testing.assert_array_equal(design.in_mask, of_units[:, units])
        np.testing.assert_array_equal(design.of_units.in_mask, of_units)


def test_units_of_one_record_each_draw_the_same_design_as_records():
    units = number_units(np.array(list("dbca")))
    with_units, without = (make_design("balanced", 4, 4, 3, units=u) for u in (units, None))
    np.testing.assert_array_equal(with_units.in_mask, without.in_mask)


def test_units_are_numbered_by_their_first_records():
    assert number_units(np.array(["b", "a", "b", "c", "a"])).tolist() == [0, 1, 0, 2, 1]


def test_the_units_belong_to_the_identity_of_a_design():
    units = number_units(np.array(["a", "a", "b", "c"]))
    design = make_design("balanced", 4, 4, 0, units=units)
    assert design.digest != replace(design, units=None).digest
    assert replace(design, units=None).digest == Design(design.in_mask).digest


def test_a_single_unit_cannot_be_divided():
    with pytest.raises(InputError, match="at least 2 records"):
        make_design("balanced", 4, 3, 0, units=np.zeros(3, np.int64))


def test_means_of_units_on_disk_and_in_memory_agree(tmp_path):
    values = np.random.default_rng(0).normal(size=(3, 6, 2)).astype(np.float32)
    units = np.array([0, 1, 0, 2, 2, 2])
    expected = np.stack([values[:, units == u].mean(axis=1) for u in range(3)], axis=1)
    for scratch in (IN_MEMORY, Scratch(tmp_path, in_memory_bytes=0)):
        np.testing.assert_allclose(unit_means(values, units, scratch), expected, rtol=1e-6)
