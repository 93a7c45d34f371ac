from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakscope.data.gaussian import gaussian, split
from leakscope.errors import InputError


def published_draws(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The study's generator, written as it is described, for 5 x 100 records in 10 dimensions."""
    random = np.random.RandomState(seed)
    centres = random.randn(5, 10)
    features, labels = [], []
    for index in range(5):
        features.append(random.randn(100, 10) * 1.5 + centres[index])
        labels += [index] * 100
    order = random.permutation(500)
    return np.vstack(features)[order], np.array(labels)[order]


@pytest.mark.parametrize("seed", [0, 42, 1042])
def test_the_default_records_are_the_published_draws(seed: int) -> None:
    features, labels = published_draws(seed)
    records = gaussian(seed)
    np.testing.assert_array_equal(records.features, features.astype(np.float32))
    np.testing.assert_array_equal(records.labels, labels)


def test_first_record_is_pinned() -> None:
    # Literals, so that a change of numpy's legacy generator would be seen too.
    records = gaussian()
    expected = np.float32([2.188447952270508, 0.595120906829834, 0.8908539414405823])
    np.testing.assert_array_equal(records.features[0, :3], expected)
    assert list(records.labels[:6]) == [2, 3, 1, 1, 1, 0]


def test_given_centres_replace_only_the_centres() -> None:
    own, given_same = gaussian(7), gaussian(7, centres_seed=7)
    np.testing.assert_array_equal(own.features, given_same.features)
    moved = gaussian(7, centres_seed=8)
    np.testing.assert_array_equal(own.labels, moved.labels)
    shift = np.random.RandomState(8).randn(5, 10) - np.random.RandomState(7).randn(5, 10)
    np.testing.assert_allclose(moved.features - own.features, shift[own.labels], atol=1e-5)


def test_records_of_different_seeds_have_different_ids() -> None:
    worlds = [gaussian(1), gaussian(2), gaussian(1, centres_seed=2)]
    assert len({record_id for records in worlds for record_id in records.ids}) == 1500


@given(n_classes=st.integers(2, 6), extra=st.integers(0, 30), n_features=st.integers(1, 4))
@settings(max_examples=25)
def test_first_classes_get_what_is_left_over(n_classes: int, extra: int, n_features: int) -> None:
    n_samples = 2 * n_classes + extra
    records = gaussian(3, n_samples, n_features, n_classes)
    counts = np.bincount(records.labels, minlength=n_classes)
    assert records.features.shape == (n_samples, n_features)
    assert counts.sum() == n_samples and counts.max() - counts.min() <= 1
    assert (np.diff(counts) <= 0).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_classes": 1}, "n_classes=1 must be at least 2"),
        ({"n_samples": 9}, "n_samples=9 must be at least 10"),
        ({"n_features": 0}, "n_features=0 must be at least 1"),
        ({"seed": -1}, "seed=-1 must be"),
        ({"centres_seed": 2**32}, "centres_seed=4294967296 must be"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        gaussian(**arguments)  # type: ignore[arg-type]


def test_all_problems_come_at_once() -> None:
    with pytest.raises(InputError, match=r"n_classes=0.*n_features=0.*n_samples=-1"):
        gaussian(n_classes=0, n_features=0, n_samples=-1)


def test_split_takes_the_first_of_a_fresh_permutation() -> None:
    in_mask = split(42, 500, 0.5)
    expected = np.random.RandomState(42).permutation(500)[:250]
    np.testing.assert_array_equal(np.flatnonzero(in_mask), np.sort(expected))


@given(n_samples=st.integers(2, 200), train_fraction=st.floats(-0.5, 1.5))
def test_split_has_the_right_size_or_says_why_not(n_samples: int, train_fraction: float) -> None:
    n_members = int(n_samples * train_fraction)
    if 0 < train_fraction < 1 and 0 < n_members < n_samples:
        assert split(1, n_samples, train_fraction).sum() == n_members
    else:
        with pytest.raises(InputError, match=f"train_fraction={train_fraction} of n_samples={n_samples}"):
            split(1, n_samples, train_fraction)
